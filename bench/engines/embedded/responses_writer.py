"""How an answer looks in OpenAI's Responses API: typed events of a stream, or one JSON body.

An answer is a list of items, in the order reasoning, message, function calls; each that has tokens is there. Every
event has a number. The last event says `response.completed` or `response.incomplete` and holds the whole response; it,
and only it, carries the usage, and beside the response (not in it) the timings. There is no `[DONE]`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from bench.engines.embedded.answer_writers import Connection, Head, WholeWriter
from bench.engines.embedded.chat_template import Token
from bench.engines.embedded.outcome import Outcome, Usage

_Event = tuple[str, dict[str, Any]]


@dataclass
class _Item:
    """A part of the answer as far as it is generated."""

    kind: str
    """`reasoning`, `message` or `function_call`."""

    index: int
    head: Head
    call: int = 0
    name: str = ""
    texts: list[str] = field(default_factory=list)

    @property
    def place(self) -> dict[str, Any]:
        """What every event about this item says."""
        short = {"reasoning": "rs", "message": "msg", "function_call": "fc"}[self.kind]
        return {"item_id": f"{short}_{self.head.stem}_{self.index}", "output_index": self.index}

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def part(self) -> dict[str, Any]:
        """The one content part of a reasoning or a message."""
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": self.text}
        return {"type": "output_text", "text": self.text, "annotations": []}

    def body(self, status: str) -> dict[str, Any]:
        """The item itself, with all that was generated of it."""
        top = {"id": self.place["item_id"], "type": self.kind}
        content = [self.part] if self.texts else []
        if self.kind == "reasoning":
            return {**top, "summary": [], "content": content}
        if self.kind == "message":
            return {**top, "status": status, "role": "assistant", "content": content}
        said = {"call_id": self.head.call_id(self.call), "name": self.name, "arguments": self.text}
        return {**top, "status": status, **said}

    def opening(self) -> Iterator[_Event]:
        added = {"output_index": self.index, "item": self.body("in_progress")}
        yield "response.output_item.added", added
        if self.kind == "message":
            yield "response.content_part.added", {**self.place, "content_index": 0, "part": self.part}

    def delta(self, text: str) -> _Event:
        self.texts.append(text)
        if self.kind == "function_call":
            return "response.function_call_arguments.delta", {**self.place, "delta": text}
        kind = "response.reasoning_text.delta" if self.kind == "reasoning" else "response.output_text.delta"
        return kind, {**self.place, "content_index": 0, "delta": text}

    def closing(self, status: str) -> Iterator[_Event]:
        if self.kind == "function_call":
            said = {**self.place, "name": self.name, "arguments": self.text}
            yield "response.function_call_arguments.done", said
        else:
            kind = "response.reasoning_text.done" if self.kind == "reasoning" else "response.output_text.done"
            yield kind, {**self.place, "content_index": 0, "text": self.text}
        if self.kind == "message":
            yield "response.content_part.done", {**self.place, "content_index": 0, "part": self.part}
        yield "response.output_item.done", {"output_index": self.index, "item": self.body(status)}


class _Items:
    """The items of one answer, built token by token."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self.all: list[_Item] = []

    @property
    def open(self) -> _Item | None:
        return self.all[-1] if self.all else None

    def add(self, tokens: Sequence[Token]) -> Iterator[_Event]:
        """Takes the tokens of one step; gives the events about them."""
        for (kind, call), group in groupby(tokens, _item_of):
            parts = list(group)
            item = self.open
            if item is None or (item.kind, item.call) != (kind, call):
                if item is not None:
                    yield from item.closing("completed")
                name = parts.pop(0).text if kind == "function_call" else ""
                item = _Item(kind=kind, index=len(self.all), head=self._head, call=call, name=name)
                self.all.append(item)
                yield from item.opening()
            if parts:
                yield item.delta("".join(token.text for token in parts))

    def close(self, status: str) -> list[_Event]:
        """The events that end the last item."""
        return [] if self.open is None else list(self.open.closing(status))


class ResponseStreamWriter:
    """Writes an answer as server-sent events."""

    streams = True

    def __init__(self, connection: Connection, head: Head) -> None:
        self._connection = connection
        self._head = head
        self._items = _Items(head)
        self._sent = 0

    @property
    def chunks(self) -> int:
        return self._sent

    @property
    def closing_chunks(self) -> int:
        return len(self._items.close("completed")) + 1

    def begin(self) -> None:
        self._connection.start_stream()
        response = _response(self._head, "in_progress", [])
        self._send("response.created", {"response": response})
        self._send("response.in_progress", {"response": response})

    def tokens(self, tokens: Sequence[Token]) -> None:
        for kind, said in self._items.add(tokens):
            self._send(kind, said)

    def finish(self, outcome: Outcome) -> None:
        status = _status(outcome)
        for kind, said in self._items.close(status):
            self._send(kind, said)
        response = _whole(self._head, self._items.all, outcome)
        timings = {} if outcome.timings is None else {"timings": outcome.timings}
        self._send(f"response.{status}", {"response": response, **timings})
        self._connection.end_stream()

    def fail(self, error: dict[str, Any]) -> None:
        said = {"code": error["code"] or error["type"], "message": error["message"]}
        response = {**_response(self._head, "failed", []), "error": said}
        self._send("response.failed", {"response": response})
        self._connection.end_stream()

    def cut(self) -> None:
        self._connection.end_stream()

    def _send(self, kind: str, said: dict[str, Any]) -> None:
        body = {"type": kind, "sequence_number": self._sent, **said}
        self._sent += 1
        self._connection.send_event(json.dumps(body, separators=(",", ":")), kind)


class ResponseBodyWriter(WholeWriter):
    """One body of a response."""

    def __init__(self, connection: Connection, head: Head) -> None:
        super().__init__(connection, head)
        self._items = _Items(head)

    def tokens(self, tokens: Sequence[Token]) -> None:
        for _ in self._items.add(tokens):
            """Only a stream tells what was added."""

    def _body(self, outcome: Outcome) -> dict[str, Any]:
        timings = {} if outcome.timings is None else {"timings": outcome.timings}
        return {**_whole(self._head, self._items.all, outcome), **timings}


def _item_of(token: Token) -> tuple[str, int]:
    """Kind and call of the item that a token belongs to."""
    if token.channel == "reasoning":
        return "reasoning", 0
    return ("message", 0) if token.channel == "content" else ("function_call", token.call)


def _status(outcome: Outcome) -> str:
    return "incomplete" if outcome.finish_reason == "length" else "completed"


def _response(head: Head, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": head.response_id,
        "object": "response",
        "created_at": head.created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": head.model,
        "output": output,
        "usage": None,
    }


def _whole(head: Head, items: Sequence[_Item], outcome: Outcome) -> dict[str, Any]:
    """The response at its end. An item that was cut off is the last one."""
    status = _status(outcome)
    output = [item.body(status if item is items[-1] else "completed") for item in items]
    response = _response(head, status, output)
    if status == "incomplete":
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    if outcome.usage is not None:
        response["usage"] = _usage(outcome.usage)
    return response


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }
