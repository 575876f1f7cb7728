"""What does a request tell the model? Reads bodies of chat, completions, responses and messages into pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.measure.message_kinds import CALLS, RESULTS, SYSTEM_ROLES, THOUGHTS, TOOL_ROLES
from bench.records.conversation import Piece, PieceKind

_TOLD: dict[str, PieceKind] = {**dict.fromkeys(SYSTEM_ROLES, "system"), "assistant": "text"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request's body, as far as it is understood."""

    model: str = ""
    system: str = ""
    """All instructions, joined by an empty line."""

    pieces: tuple[Piece, ...] = ()
    """The history in its order, instructions left out."""

    continues: bool = False
    """It builds on an answer that the engine keeps, so its history is not in it."""

    understood: bool = True
    """False: not a JSON object, or nothing in it that is a prompt."""


def read_request(body: bytes) -> Request:
    """Never raises: what is no text where a text belongs is left out."""
    try:
        found = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return Request(understood=False)
    if not isinstance(found, dict):
        return Request(understood=False)
    pieces = [piece for key in ("instructions", "system") for piece in blocks(found.get(key), "system")]
    pieces += [Piece(kind="user", text=found[key]) for key in ("prompt", "input") if text_of(found, key)]
    for key in ("messages", "input"):
        for item in dicts(found.get(key)):
            pieces += _item(item)
    model = found.get("model")
    return Request(
        model=model if isinstance(model, str) else "",
        system="\n\n".join(piece.text for piece in pieces if piece.kind == "system"),
        pieces=tuple(piece for piece in pieces if piece.kind != "system"),
        continues=isinstance(found.get("previous_response_id"), str),
        understood=bool(pieces),
    )


def message_pieces(message: dict[str, Any]) -> list[Piece]:
    """The pieces of a message that the model wrote, in the chat form: thinking, text, calls."""
    thinking = next((text for key in ("reasoning_content", "reasoning") if (text := message.get(key))), None)
    pieces = (
        blocks(thinking, "thinking") + blocks(message.get("content"), "text") + blocks(message.get("refusal"), "text")
    )
    calls = [(call, call.get("function", call.get("custom"))) for call in dicts(message.get("tool_calls"))]
    calls.append((message, message.get("function_call")))
    for call, function in calls:
        if isinstance(function, dict):
            given = function.get("arguments", function.get("input", ""))
            pieces.append(
                Piece(kind="call", text=as_text(given), name=text_of(function, "name"), call=text_of(call, "id"))
            )
    return pieces


def item_pieces(item: dict[str, Any]) -> list[Piece]:
    """The pieces of one item of the responses API, or of one block of the messages API, that is no message."""
    kind = item.get("type")
    if kind in CALLS:
        given = next((item[key] for key in ("arguments", "input", "action") if item.get(key) is not None), "")
        name = text_of(item, "name") or str(kind).removesuffix("_call")
        return [
            Piece(kind="call", text=as_text(given), name=name, call=text_of(item, "call_id") or text_of(item, "id"))
        ]
    if kind in RESULTS:
        given = item.get("output", item.get("content"))
        text = "\n".join(piece.text for piece in blocks(given, "result"))
        text = text or (as_text(given) if isinstance(given, dict) else "")
        return [Piece(kind="result", text=text, call=text_of(item, "call_id") or text_of(item, "tool_use_id"))]
    if kind == "reasoning":
        return blocks(item.get("summary"), "thinking") + blocks(item.get("content"), "thinking")
    return []


def blocks(content: Any, kind: PieceKind) -> list[Piece]:
    """A text, or a list of blocks with texts, as pieces of one kind; blocks that say what they are keep their own."""
    if isinstance(content, str):
        return [Piece(kind=kind, text=content)] if content else []
    return [piece for block in dicts(content) for piece in _block(block, kind)]


def _block(block: dict[str, Any], kind: PieceKind) -> Iterator[Piece]:
    if own := item_pieces(block):
        yield from own
        return
    named = block.get("type")
    if named == "thinking":
        yield from blocks(block.get("thinking"), "thinking")
    elif text := text_of(block, "text") or text_of(block, "refusal"):
        yield Piece(kind=kind, text=text)
    elif isinstance(named, str) and named not in ("text", *THOUGHTS):
        yield Piece(kind="other", text=named)


def _item(item: dict[str, Any]) -> list[Piece]:
    """One message of a history, or one item of the responses API."""
    role = item.get("role")
    if not isinstance(role, str):
        kind = item.get("type")
        strange = isinstance(kind, str) and kind not in (*CALLS, *RESULTS, *THOUGHTS)
        return [Piece(kind="other", text=str(kind))] if strange else item_pieces(item)
    if role in TOOL_ROLES:
        text = "\n".join(piece.text for piece in blocks(item.get("content"), "result"))
        return [Piece(kind="result", text=text, call=text_of(item, "tool_call_id") or text_of(item, "name"))]
    if role == "assistant":
        return message_pieces(item)
    return blocks(item.get("content"), _TOLD.get(role, "user"))


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def text_of(found: dict[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
