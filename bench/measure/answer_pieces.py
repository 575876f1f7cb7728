"""What did the model answer: thinking, text, calls of tools? Reads streams and bodies of all four APIs into pieces."""

from __future__ import annotations

import json
from typing import Any

from bench.measure.request_pieces import blocks, dicts, item_pieces, message_pieces, text_of
from bench.measure.sse import SseReader
from bench.records.conversation import Piece, PieceKind

_DELTAS: dict[str, PieceKind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_text.delta": "thinking",
    "response.reasoning_summary_text.delta": "thinking",
    "response.function_call_arguments.delta": "call",
    "response.custom_tool_call_input.delta": "call",
}
_ITEMS = ("response.output_item.added", "response.output_item.done")
_BLOCK_DELTAS: dict[str, PieceKind] = {"text": "text", "thinking": "thinking", "partial_json": "call"}


class _Part:
    """A piece that still grows."""

    def __init__(self, kind: PieceKind) -> None:
        self.kind = kind
        self.texts: list[str] = []
        self.name = self.call = ""

    def piece(self) -> Piece:
        return Piece(kind=self.kind, text="".join(self.texts), name=self.name, call=self.call)


class _Answer:
    """Puts the pieces of one stream together; their order is that in which they began."""

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], _Part] = {}
        self._whole: list[Piece] | None = None

    def pieces(self) -> tuple[Piece, ...]:
        grown = [part.piece() for part in self._parts.values()]
        found = grown if grown or self._whole is None else self._whole
        return tuple(piece for piece in found if piece.text.strip() or piece.kind == "call")

    def take(self, found: dict[str, Any]) -> None:
        kind = text_of(found, "type")
        for choice in dicts(found.get("choices"))[:1]:
            self._take_choice(choice)
        if kind in _DELTAS and isinstance(found.get("delta"), str):
            self._grow((_DELTAS[kind], found.get("output_index")), _DELTAS[kind], found["delta"])
        elif kind in _ITEMS and isinstance(item := found.get("item"), dict):
            for piece in item_pieces(item):
                if piece.kind == "call":
                    part = self._name(("call", found.get("output_index")), piece.name, piece.call)
                    part.texts = part.texts or ([piece.text] if kind == _ITEMS[1] else [])
        elif kind == "content_block_start" and isinstance(block := found.get("content_block"), dict):
            if block.get("type") == "tool_use":
                self._name(("call", found.get("index")), text_of(block, "name"), text_of(block, "id"))
        elif kind == "content_block_delta" and isinstance(delta := found.get("delta"), dict):
            for key, grown in _BLOCK_DELTAS.items():
                self._grow((grown, found.get("index")), grown, delta.get(key))
        elif kind == "message" or found.get("object") == "response":
            self._whole = _whole(found)
        elif isinstance(inner := found.get("response"), dict) and inner.get("output"):
            self._whole = _whole(inner)

    def _take_choice(self, choice: dict[str, Any]) -> None:
        whole = choice.get("message")
        if isinstance(whole, dict):
            self._whole = message_pieces(whole)
            return
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            self._grow(("text",), "text", choice.get("text"))
            return
        self._grow(("thinking",), "thinking", delta.get("reasoning_content") or delta.get("reasoning"))
        self._grow(("text",), "text", delta.get("content"))
        self._grow(("text",), "text", delta.get("refusal"))
        calls = [(call.get("index"), call, call.get("function")) for call in dicts(delta.get("tool_calls"))]
        calls.append(("function", {}, delta.get("function_call")))
        for index, call, function in calls:
            if isinstance(function, dict):
                self._name(("call", index), text_of(function, "name"), text_of(call, "id"))
                self._grow(("call", index), "call", function.get("arguments"))

    def _grow(self, key: tuple[object, ...], kind: PieceKind, text: object) -> None:
        if isinstance(text, str) and text:
            self._part(key, kind).texts.append(text)

    def _name(self, key: tuple[object, ...], name: str, call: str) -> _Part:
        part = self._part(key, "call")
        part.name, part.call = part.name or name, part.call or call
        return part

    def _part(self, key: tuple[object, ...], kind: PieceKind) -> _Part:
        key = tuple(str(one) for one in key)  # an index may be anything in an untrusted stream
        if key not in self._parts:
            self._parts[key] = _Part(kind)
        return self._parts[key]


def answer_pieces(body: bytes, *, streamed: bool) -> tuple[Piece, ...]:
    """The pieces of one answer, whole or cut; never raises. Of several choices the first one."""
    answer = _Answer()
    reader = SseReader()
    for data in [data for _, data in reader.feed(body) + reader.end()] if streamed else [body]:
        try:
            found = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            answer.take(found)
    return answer.pieces()


def _whole(found: dict[str, Any]) -> list[Piece]:
    """A plain body of the messages or the responses API."""
    pieces = blocks(found.get("content"), "text")
    for item in dicts(found.get("output")):
        pieces += blocks(item.get("content"), "text") if item.get("type") == "message" else item_pieces(item)
    return pieces
