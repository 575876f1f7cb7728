"""Reads the session files of the Pi coding agent (`<time>_<id>.jsonl`, format 3; seen from its versions 0.73 and 1.6).

A file begins with a `session` entry. Then each entry has a type and an instant: `message` (of roles user, assistant,
toolResult, system), `compaction`, `usage` (a model call beside the conversation), `context_edit`, ... Pi's counts mean:
`input` is what was neither read from the cache nor written to it, `cacheWrite` what was written, so the prompt is
`input + cacheRead + cacheWrite`; `output` includes reasoning. Zeros stand for both nothing and not told:

* a response whose counts are all 0 was answered without usage; none of its counts is known
* `reasoning` 0 beside thinking that is there was not told; version 0.73 never tells it
* calls that summarise the history stand in the file from 1.x on, as the usage of the `compaction` entry
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from bench.agents.event_lines import EventLines
from bench.agents.kept_sessions import KeptSession, SessionFiles, Span, unreadable
from bench.records.schema import UsageRecord

FORMAT = 3
_TOKENS_MAX = 10**9
_TEXT_CHARACTERS = 4_000
_NAME_CHARACTERS = 200
_FAILED = ("error", "aborted")


def read_pi_session(path: Path, session: int) -> KeptSession:
    """One session file of any quality; a file that does not begin as one of format 3 gives nothing but its damage."""
    lines = EventLines(path)
    reader = _Reader(session)
    for entry in lines:
        if not reader.begun:
            if entry.get("type") != "session":
                return unreadable("it does not begin with an entry of type 'session'")
            if entry.get("version") != FORMAT:
                return unreadable(f"format {str(entry.get('version'))[:20]} is not format {FORMAT}, which can be read")
        reader.read(entry)
    if not reader.begun:
        return unreadable(lines.damage or "it is empty")
    return reader.result(lines.damage)


class _Reader:
    """Takes the entries of one file, one by one."""

    def __init__(self, session: int) -> None:
        self.begun = False
        self._session = session
        self._started_at: float | None = None
        self._last_at: float | None = None
        self._model: str | None = None
        self._claims: list[UsageRecord] = []
        self._spans: list[Span | None] = []
        self._tool_calls = self._compactions = self._nested = 0
        self._stop: str | None = None
        self._error = ""

    def read(self, entry: dict[str, Any]) -> None:
        at = _instant(entry.get("timestamp"))
        match entry.get("type"):
            case "session" if not self.begun:
                self.begun = True
                self._started_at = at
            case "message":
                self._message(_mapping(entry.get("message")), at)
            case "compaction":
                self._compactions += 1
                self._beside(entry, at, "compaction")
            case "usage" | "branch_summary":
                self._beside(entry, at, _name(entry.get("kind")) or str(entry["type"]))
            case "model_change":
                self._model = _name(entry.get("modelId")) or self._model
        self._last_at = at if at is not None else self._last_at

    def result(self, damage: str | None) -> KeptSession:
        done = self._stop is not None and self._stop not in (*_FAILED, "toolUse")
        nested = f"{self._nested} tool results carry the usage of calls of their own, which is not counted"
        return KeptSession(
            started_at=self._started_at,
            ended_at=self._last_at,
            version=str(FORMAT),
            model=self._model,
            claims=tuple(self._claims),
            spans=_whole(self._spans),
            tool_calls=self._tool_calls,
            compactions=self._compactions,
            outcome="done" if done else "engine-error" if self._stop == "error" else "interrupted",
            reason="" if done else self._error or "its file ends before the agent gave an answer",
            damage="; ".join(part for part in (damage, nested if self._nested else None) if part) or None,
        )

    def _message(self, message: dict[str, Any], at: float | None) -> None:
        if message.get("role") == "toolResult":
            self._nested += bool(_mapping(message.get("usage")))
        if message.get("role") != "assistant":
            return
        content = message.get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        self._tool_calls += sum(part.get("type") == "toolCall" for part in parts)
        thought = any(part.get("type") == "thinking" and part.get("thinking") for part in parts)
        self._stop = _name(message.get("stopReason"))
        failed = self._stop in _FAILED
        self._error = _text(message.get("errorMessage")) or "not said" if failed else ""
        self._claim(
            _mapping(message.get("usage")),
            thought=thought,
            response_id=_name(message.get("responseId")),
            stop_reason=self._stop,
            error=self._error if failed else None,
        )
        self._spans.append(_span(message, at))

    def _beside(self, entry: dict[str, Any], at: float | None, kind: str) -> None:
        """A model call that is no message of the conversation, where the entry tells its usage."""
        usage = _mapping(entry.get("usage"))
        if not usage:
            return
        self._claim(usage, thought=False, response_id=_name(entry.get("responseId")), stop_reason=kind, error=None)
        self._spans.append(None if at is None else (at if self._last_at is None else min(self._last_at, at), at))

    def _claim(
        self,
        usage: dict[str, Any],
        *,
        thought: bool,
        response_id: str | None,
        stop_reason: str | None,
        error: str | None,
    ) -> None:
        fresh, written, cached = (_count(usage.get(name)) for name in ("input", "cacheWrite", "cacheRead"))
        output, reasoning = _count(usage.get("output")), _count(usage.get("reasoning"))
        if not fresh and not written and not cached:
            fresh = cached = None  # no prompt is empty
            output = output or None
        if output is None or (reasoning is not None and (reasoning > output or (reasoning == 0 and thought))):
            reasoning = None
        self._claims.append(
            UsageRecord(
                session=self._session,
                index=len(self._claims),
                response_id=response_id,
                input_tokens=None if fresh is None else fresh + (written or 0),
                cached_tokens=cached,
                output_tokens=output,
                reasoning_tokens=reasoning,
                stop_reason=stop_reason,
                error=error,
            )
        )


def _span(message: dict[str, Any], at: float | None) -> Span | None:
    """From the request's beginning, which a message's own instant is, to the answer's end."""
    begun, lasted = message.get("timestamp"), _count(message.get("durationMs"))
    begin = begun / 1000 if type(begun) is int and 0 < begun < 10**14 else at
    if begin is None:
        return None
    end = begin + lasted / 1000 if lasted is not None else at
    return begin, max(begin, end if end is not None else begin)


def _whole(spans: list[Span | None]) -> tuple[Span, ...] | None:
    known = tuple(span for span in spans if span is not None)
    return known if len(known) == len(spans) else None


def _instant(value: Any) -> float | None:
    """Unix seconds of `2026-11-30T07:34:39.933Z`."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) and len(value) <= 40 else None
    except (ValueError, OverflowError, OSError):
        return None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _TOKENS_MAX else None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _name(value: Any) -> str | None:
    return _text(value)[:_NAME_CHARACTERS] or None


def _text(value: Any) -> str:
    return value[:_TEXT_CHARACTERS].encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


FILES = SessionFiles(patterns=("*.jsonl",), read=read_pi_session)
