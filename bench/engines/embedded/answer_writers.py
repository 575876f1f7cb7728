"""How an answer looks on the wire: OpenAI's events of a stream, or one JSON body.

A stream begins with a chunk that only names the role, as real engines do before their first token. One chunk carries
the tokens of one decode step. The last chunk, and only it, carries the timings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.engines.embedded.chat_template import Token


class Connection(Protocol):
    """The client's connection; every method raises ClientGoneError when nobody is there any more."""

    def check(self) -> None: ...

    def start_stream(self) -> None: ...

    def send_event(self, data: str) -> None: ...

    def end_stream(self) -> None: ...

    def send_json(self, status: int, body: dict[str, Any]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Head:
    """What all parts of an answer share."""

    response_id: str
    created: int
    """Unix seconds."""

    model: str

    def call_id(self, call: int) -> str:
        return f"call_{self.response_id.removeprefix('chatcmpl-').replace('-', '_')}_{call}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is said at the end of an answer."""

    finish_reason: str
    usage: dict[str, Any]
    timings: dict[str, Any]


class StreamWriter:
    """Writes an answer as server-sent events."""

    def __init__(self, connection: Connection, head: Head, *, include_usage: bool) -> None:
        self._connection = connection
        self._head = head
        self._include_usage = include_usage
        self._sent = 0

    @property
    def chunks(self) -> int:
        """Events so far, `[DONE]` not counted."""
        return self._sent

    @property
    def closing_chunks(self) -> int:
        """Events that `finish` will add."""
        return 2 if self._include_usage else 1

    def begin(self) -> None:
        self._connection.start_stream()
        self._send([_choice({"role": "assistant", "content": None})])

    def tokens(self, tokens: Sequence[Token]) -> None:
        """The tokens of one step; they may belong to several parts of the message."""
        delta: dict[str, Any] = {}
        for key, channel in (("reasoning_content", "reasoning"), ("content", "content")):
            text = "".join(token.text for token in tokens if token.channel == channel)
            if text:
                delta[key] = text
        calls: dict[int, dict[str, Any]] = {}
        for token in tokens:
            if token.channel == "name":
                function = {"name": token.text, "arguments": ""}
                head = {"index": token.call, "id": self._head.call_id(token.call), "type": "function"}
                calls[token.call] = {**head, "function": function}
            elif token.channel == "arguments":
                call = calls.setdefault(token.call, {"index": token.call, "function": {"arguments": ""}})
                call["function"]["arguments"] += token.text
        if calls:
            delta["tool_calls"] = list(calls.values())
        self._send([_choice(delta)])

    def finish(self, outcome: Outcome) -> None:
        last = [_choice({}, outcome.finish_reason)]
        if self._include_usage:
            self._send(last)
            self._send([], usage=outcome.usage, timings=outcome.timings)
        else:
            self._send(last, timings=outcome.timings)
        self._connection.send_event("[DONE]")
        self._connection.end_stream()

    def _send(self, choices: list[dict[str, Any]], **rest: Any) -> None:
        self._sent += 1
        body = {**_top(self._head, "chat.completion.chunk"), "choices": choices, **rest}
        self._connection.send_event(json.dumps(body, separators=(",", ":")))


class BodyWriter:
    """Collects an answer and sends it as one JSON body."""

    chunks = 0
    closing_chunks = 0

    def __init__(self, connection: Connection, head: Head) -> None:
        self._connection = connection
        self._head = head
        self._tokens: list[Token] = []

    def begin(self) -> None:
        """Nothing is sent before the end."""

    def tokens(self, tokens: Sequence[Token]) -> None:
        self._tokens += tokens

    def finish(self, outcome: Outcome) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": self._text("content") or None}
        reasoning = self._text("reasoning")
        if reasoning:
            message["reasoning_content"] = reasoning
        names = [token for token in self._tokens if token.channel == "name"]
        if names:
            message["tool_calls"] = [
                {
                    "id": self._head.call_id(token.call),
                    "type": "function",
                    "function": {"name": token.text, "arguments": self._text("arguments", token.call)},
                }
                for token in names
            ]
        body = {
            **_top(self._head, "chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": outcome.finish_reason}],
            "usage": outcome.usage,
            "timings": outcome.timings,
        }
        self._connection.send_json(200, body)

    def _text(self, channel: str, call: int = 0) -> str:
        return "".join(token.text for token in self._tokens if token.channel == channel and token.call == call)


def _top(head: Head, kind: str) -> dict[str, Any]:
    return {"id": head.response_id, "object": kind, "created": head.created, "model": head.model}


def _choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}
