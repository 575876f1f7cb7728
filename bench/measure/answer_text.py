"""What did the model say last? The words of a session's last whole answer, as they passed the relay.

The agent's own event stream can be written to by what else lives in its box; this cannot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure.answer_pieces import answer_pieces
from bench.measure.endpoints import MODELS_PATH
from bench.measure.exchange import answered_at, error_of, iterate_exchanges, read_answer
from bench.measure.exchange_line import Exchange
from bench.measure.request_body import read_request_body

MOST_CHARACTERS = 200_000


def last_answer_text(path: Path, told: str) -> str:
    """Text, reasoning left out, of the last answer in an `exchanges.jsonl` that came whole; its last 200,000 characters.

    An answer that says what the agent itself tells as its last words (`told`, spacing apart) comes before all others: what
    else lives in its box can ask the model something, too, and later. One that calls a tool is none of these: the agent went
    on, and may tell its words because the last answer had none. Where none does, and an agent offers tools, only
    answers to requests that offer them count: some agents have their history summed up after the last answer of a
    session. Empty where there is none. A torn last line is not read. Raises EvidenceError where the file is damaged.
    """
    last: dict[bool, str] = {}
    agreed = ""
    words = told.split()
    ended = dict.fromkeys((True, False), float("-inf"))
    for exchange in iterate_exchanges(path, warn=lambda _: None):
        if exchange.path == MODELS_PATH:
            continue
        asked = read_request_body(exchange.request)
        tools = asked is not None and asked.tools > 0
        at = answered_at(exchange)
        if at < ended[tools] or error_of(exchange, read_answer(exchange)):
            continue
        last[tools] = answer_text(exchange.response, streamed=exchange.streamed)
        ended[tools] = at
        if words and last[tools].split() == words and not _calls(exchange):
            agreed = last[tools]
    return (agreed or last.get(True, last.get(False, "")))[-MOST_CHARACTERS:]


def _calls(exchange: Exchange) -> bool:
    return any(piece.kind == "call" for piece in answer_pieces(exchange.response, streamed=exchange.streamed))


def answer_text(body: bytes, *, streamed: bool) -> str:
    """The words of one answer in any of the four forms (chat, completions, responses, messages)."""
    found = [body] if not streamed else [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
    return "".join(text for part in found for text in _texts(_parse(part)))


def _texts(found: Any) -> Iterator[str]:
    if not isinstance(found, dict):
        return
    for choice in _dicts(found.get("choices"))[:1]:
        delta = choice.get("delta", choice.get("message", choice))
        yield from _strings(delta.get("content", delta.get("text")) if isinstance(delta, dict) else None)
    kind, delta = found.get("type"), found.get("delta")
    if kind == "response.output_text.delta":
        yield from _strings(delta)
    if kind == "content_block_delta" and isinstance(delta, dict):
        yield from _strings(delta.get("text"))
    if kind == "message" or found.get("object") == "response":
        for item in _dicts(found.get("output")) or [found]:
            for block in _dicts(item.get("content")):
                yield from _strings(block.get("text"))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
