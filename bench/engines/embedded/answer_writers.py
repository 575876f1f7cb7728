"""How an answer looks in the chat completions API: OpenAI's events of a stream, or one JSON body.

A stream begins with a chunk that only names the role, as real engines do before their first token. One chunk carries
the tokens of one decode step. The last chunk, and only it, carries the timings.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.engines.embedded.chat_template import Token
from bench.engines.embedded.outcome import Outcome, Usage


class Connection(Protocol):
    """The client's connection; every method raises ClientGoneError when nobody is there any more."""

    def check(self) -> None: ...

    def start_stream(self) -> None: ...

    def send_event(self, data: str, kind: str | None = None) -> None: ...

    def send_comment(self) -> None: ...

    def end_stream(self) -> None: ...

    def send_json(self, status: int, body: dict[str, Any], *, cut: bool = False) -> None: ...

    def reset(self) -> None: ...


class Writer(Protocol):
    """Gives one answer: `begin`, `tokens` for each step, and then one of the three ways to end it."""

    streams: bool

    @property
    def chunks(self) -> int:
        """Events so far, `[DONE]` not counted."""

    @property
    def closing_chunks(self) -> int:
        """Events that `finish` will add; `fail` adds one, `cut` none."""

    def begin(self) -> None: ...

    def tokens(self, tokens: Sequence[Token]) -> None:
        """The tokens of one step; they may belong to several parts of the answer."""

    def finish(self, outcome: Outcome) -> None:
        """All that stands behind the last token."""

    def fail(self, error: dict[str, Any]) -> None:
        """An error object in place of the rest."""

    def cut(self) -> None:
        """Ends in good order on the wire, with nothing said about the answer's end."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """What all parts of an answer share."""

    response_id: str
    created: int
    """Unix seconds."""

    model: str

    def call_id(self, call: int) -> str:
        return f"call_{self.stem}_{call}"

    @property
    def stem(self) -> str:
        """What the ids of all parts of this answer have in common."""
        return self.response_id.replace("-", "_").partition("_")[2]


class StreamWriter:
    """Writes an answer as server-sent events."""

    streams = True

    def __init__(self, connection: Connection, head: Head, *, include_usage: bool) -> None:
        self._connection = connection
        self._head = head
        self._include_usage = include_usage
        self._sent = 0

    @property
    def chunks(self) -> int:
        return self._sent

    @property
    def closing_chunks(self) -> int:
        return 2 if self._include_usage else 1

    def begin(self) -> None:
        self._connection.start_stream()
        self._send([_choice({"role": "assistant", "content": None})])

    def tokens(self, tokens: Sequence[Token]) -> None:
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
        if self._include_usage and outcome.usage is not None:
            self._send(last)
            self._send([], usage=_usage(outcome.usage), timings=outcome.timings)
        else:
            self._send(last, timings=outcome.timings)
        self._connection.send_event("[DONE]")
        self._connection.end_stream()

    def fail(self, error: dict[str, Any]) -> None:
        self._connection.send_event(json.dumps({"error": error}, separators=(",", ":")))
        self._connection.end_stream()

    def cut(self) -> None:
        self._connection.end_stream()

    def _send(self, choices: list[dict[str, Any]], **rest: Any) -> None:
        self._sent += 1
        told = {key: value for key, value in rest.items() if value is not None}
        body = {**_top(self._head, "chat.completion.chunk"), "choices": choices, **told}
        self._connection.send_event(json.dumps(body, separators=(",", ":")))


class WholeWriter(ABC):
    """Collects an answer and sends it as one JSON body."""

    streams = False
    chunks = 0
    closing_chunks = 0

    def __init__(self, connection: Connection, head: Head) -> None:
        self._connection = connection
        self._head = head

    def begin(self) -> None:  # noqa: B027 - there is nothing to do, for any of them
        """Nothing is sent before the end."""

    @abstractmethod
    def tokens(self, tokens: Sequence[Token]) -> None:
        """Keeps the tokens of one step."""

    def finish(self, outcome: Outcome) -> None:
        self._connection.send_json(200, self._body(outcome))

    def fail(self, error: dict[str, Any]) -> None:
        self._connection.send_json(500, {"error": error})

    def cut(self) -> None:
        self._connection.send_json(200, self._body(Outcome(finish_reason="stop", usage=None, timings=None)), cut=True)

    @abstractmethod
    def _body(self, outcome: Outcome) -> dict[str, Any]:
        """The whole answer, from all that was kept."""


class BodyWriter(WholeWriter):
    """One body of a chat completion."""

    def __init__(self, connection: Connection, head: Head) -> None:
        super().__init__(connection, head)
        self._tokens: list[Token] = []

    def tokens(self, tokens: Sequence[Token]) -> None:
        self._tokens += tokens

    def _body(self, outcome: Outcome) -> dict[str, Any]:
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
        told = {"usage": outcome.usage and _usage(outcome.usage), "timings": outcome.timings}
        return {
            **_top(self._head, "chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": outcome.finish_reason}],
            **{key: value for key, value in told.items() if value is not None},
        }

    def _text(self, channel: str, call: int = 0) -> str:
        return "".join(token.text for token in self._tokens if token.channel == channel and token.call == call)


def _top(head: Head, kind: str) -> dict[str, Any]:
    return {"id": head.response_id, "object": kind, "created": head.created, "model": head.model}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}
