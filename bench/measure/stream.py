"""What does an engine's answer say, and when did it say a token? Reads chat, completions, responses and messages.

A generated token is text, reasoning, refusal, or the name or arguments of a tool call. Role chunks, empty strings,
comments, prompt progress and usage are none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bench.measure.sse import Event, SseReader

_TEXT_LIMIT = 2000
_VALUE_KEYS = 64

_INNER = ("response", "message")
_CHAT_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
_RESPONSES_DELTAS = frozenset(
    {
        "response.output_text.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    }
)
_MESSAGES_TEXTS = ("text", "thinking", "partial_json")
_SLOT = re.compile(rb'"(?:content|reasoning_content|reasoning|text|arguments|thinking|partial_json)": ?"')
_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))+')
_ENDS = ("response.completed", "response.incomplete", "response.failed", "message_stop")


class AnswerReader:
    """Follows one answer. `feed` and `end` for an event stream as it passes, `read_body` for a plain JSON body."""

    def __init__(self) -> None:
        self.response_id: str | None = None
        self.finish_reason: str | None = None
        self.error: str | None = None
        """The engine's own words, if the answer holds an error."""

        self.complete = False
        """The stream's closing event came (`[DONE]` and its like), or the plain body was JSON."""

        self.finished_at_object: int | None = None
        """Number of the JSON object that gave the finish reason."""

        self.usage: dict[str, Any] | None = None
        """The last usage that was reported."""

        self.usage_at_object: int | None = None
        self.values: dict[str, tuple[int, Any]] = {}
        """Top-level key -> number of the last JSON object that carried it with a value, and that value."""

        self._objects = 0
        self._unreadable = 0
        self._events = SseReader()
        self._pattern = (b"", b"")
        self._repeated: bytes | None = None

    @property
    def damage(self) -> str | None:
        """What could not be read of the answer, if anything."""
        if self._events.damage is not None:
            return self._events.damage
        return f"{self._unreadable} parts of the answer are not JSON" if self._unreadable else None

    def feed(self, data: bytes) -> list[int]:
        """Takes the next bytes of an event stream.

        Returns for each event with a token that they completed how many bytes of the stream there were by then.
        """
        return self._take_events(self._events.feed(data))

    def end(self) -> list[int]:
        """The stream is over; the same of a last event without a closing empty line."""
        ends = self._take_events(self._events.end())
        self._take_repeated()
        return ends

    def read_body(self, body: bytes) -> None:
        """Takes a whole plain body; one that is no JSON object is damage."""
        found = _parse(body)
        if isinstance(found, dict):
            self.complete = True
            self._take(found)
        else:
            self._unreadable += 1

    def _take_events(self, events: list[Event]) -> list[int]:
        """Reads events; returns the ends of those with a token.

        Most events of a stream are one that was read but for a text that is empty in neither (`_pattern`: what stands
        before and behind it). Such an event is JSON again, holds a token again, and says nothing new; parsing it all
        the same would be most of the relay's work. Its place in the order counts, though: the last of them is read
        when another event comes.
        """
        ends: list[int] = []
        start, finish = self._pattern
        begin, behind = len(start), len(finish)
        for end, data in events:
            if (
                begin
                and data.startswith(start)
                and data.endswith(finish)
                and _STRING.fullmatch(data, begin, len(data) - behind)
            ):
                self._objects += 1
                self._repeated = data
                ends.append(end)
            elif self._take_event(data):
                ends.append(end)
                start, finish = self._pattern
                begin, behind = len(start), len(finish)
        return ends

    def _take_event(self, data: bytes) -> bool:
        self._take_repeated()
        if data.strip() == b"[DONE]":
            self.complete = True
            return False
        found = _parse(data)
        if not isinstance(found, dict):
            self._unreadable += 1
            return False
        self._take(found)
        if not has_token(found):
            return False
        texts = (_STRING.match(data, slot.end()) for slot in _SLOT.finditer(data))
        self._pattern = next(((data[: text.start()], data[text.end() :]) for text in texts if text), (b"", b""))
        return True

    def _take_repeated(self) -> None:
        if self._repeated is not None:
            found = _parse(self._repeated)
            self._repeated = None
            self._objects -= 1
            if isinstance(found, dict):
                self._take(found)

    def _take(self, found: dict[str, Any]) -> None:
        self._objects += 1
        inner: dict[str, Any] = next((part for key in _INNER if isinstance(part := found.get(key), dict)), {})
        values, number = self.values, self._objects
        for key, value in found.items():
            if value is not None and not isinstance(value, list) and (key in values or len(values) < _VALUE_KEYS):
                values[key] = (number, value)
        for holder in (found, inner):
            if self.response_id is None and isinstance(holder.get("id"), str):
                self.response_id = holder["id"][:200]
            if isinstance(holder.get("usage"), dict):
                # The messages API reports its counts in two halves, all others anew and whole each time.
                halves = found.get("type") == "message_delta" and self.usage is not None
                self.usage = {**(self.usage or {}), **holder["usage"]} if halves else holder["usage"]
                self.usage_at_object = self._objects
        for reason in _finish_reasons(found, inner):
            self.finish_reason = reason[:100]
            self.finished_at_object = self._objects
        if found.get("type") in _ENDS:
            self.complete = True
        if self.error is None:
            self.error = error_text(found) or error_text(inner)


def has_token(found: dict[str, Any]) -> bool:
    """Whether one JSON object of a stream holds at least one generated token."""
    kind = found.get("type")
    if isinstance(kind, str) and "choices" not in found:
        return _responses_token(kind, found) or _messages_token(kind, found)
    return any(_choice_token(choice) for choice in _dicts(found.get("choices")))


def error_text(found: dict[str, Any]) -> str | None:
    """The error that a JSON object reports, in the engine's words with its type and code; None when it reports none.

    Forms: `{"error": {...}}`, `{"error": "text"}`, `{"object": "error", "message": ...}`, `{"detail": ...}`.
    """
    error = found.get("error")
    if not error and (found.get("object") == "error" or found.get("type") == "error"):
        error = found
    if not error and "choices" not in found and found.get("detail"):
        error = found["detail"]
    if not error:
        return None
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else json.dumps(error))[:_TEXT_LIMIT]
    marks = [f"{key} {error[key]}" for key in ("type", "code") if isinstance(error.get(key), str | int)]
    message = error.get("message")
    said = message if isinstance(message, str) and message else json.dumps(error)
    return said[:_TEXT_LIMIT] + (f" ({', '.join(marks)})" if marks else "")


def body_error_text(body: bytes) -> str:
    """The error text of an HTTP error's body, whatever it is; empty for an empty body."""
    found = _parse(body)
    text = error_text(found) if isinstance(found, dict) else None
    return text or body[:_TEXT_LIMIT].decode("utf-8", "replace").strip()


def _finish_reasons(found: dict[str, Any], inner: dict[str, Any]) -> Iterator[str]:
    """Finish reasons in one object; of several choices the first one's counts."""
    reasons: list[Any] = [choice.get("finish_reason") for choice in _dicts(found.get("choices"))[:1]]
    delta = found.get("delta")
    if isinstance(delta, dict):
        reasons.append(delta.get("stop_reason"))
    if found.get("object") == "response":
        reasons.append(found.get("status"))
    if found.get("type") == "message":
        reasons.append(found.get("stop_reason"))
    if found.get("type") in _ENDS:
        reasons.append(inner.get("status"))
    return (reason for reason in reasons if isinstance(reason, str) and reason)


def _choice_token(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return _text(choice.get("text"))
    if any(_text(delta.get(key)) for key in _CHAT_TEXTS):
        return True
    functions = [call.get("function") for call in _dicts(delta.get("tool_calls"))]
    functions.append(delta.get("function_call"))
    return any(_text(call.get("name")) or _text(call.get("arguments")) for call in functions if isinstance(call, dict))


def _responses_token(kind: str, found: dict[str, Any]) -> bool:
    if kind in _RESPONSES_DELTAS:
        return _text(found.get("delta"))
    item = found.get("item")
    return kind == "response.output_item.added" and isinstance(item, dict) and _text(item.get("name"))


def _messages_token(kind: str, found: dict[str, Any]) -> bool:
    delta, block = found.get("delta"), found.get("content_block")
    if kind == "content_block_delta" and isinstance(delta, dict):
        return any(_text(delta.get(key)) for key in _MESSAGES_TEXTS)
    return kind == "content_block_start" and isinstance(block, dict) and _text(block.get("name"))


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parse(data: bytes) -> object:
    """The JSON value; None when it is none. Bad UTF-8 inside a text does not make it unreadable."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
