"""Reads the session files of the Pi coding agent (`<time>_<id>.jsonl`, format 3; seen from its versions 0.73 and 1.6).

A file begins with a `session` entry. Then each entry has a type and an instant: `message` (of roles user, assistant,
toolResult, system), `compaction`, `usage` (a model call beside the conversation), `context_edit`, ... Calls that
summarise the history stand in the file from 1.x on, as the usage of the `compaction` entry. What the counts mean:
`pi_claims.py`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from bench.agents.event_lines import EventLines
from bench.agents.kept_sessions import KeptSession, SessionFiles, Span, unreadable
from bench.agents.pi_claims import FAILED, PiClaims
from bench.agents.told import count, from_milliseconds, mapping, name

FORMAT = 3


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
        self._told = PiClaims(session)
        self._started_at: float | None = None
        self._last_at: float | None = None
        self._model: str | None = None
        self._spans: list[Span | None] = []
        self._compactions = 0

    def read(self, entry: dict[str, Any]) -> None:
        at = _instant(entry.get("timestamp"))
        match entry.get("type"):
            case "session" if not self.begun:
                self.begun = True
                self._started_at = at
            case "message":
                self._message(mapping(entry.get("message")), at)
            case "compaction":
                self._compactions += 1
                self._beside(entry, at, "compaction")
            case "usage" | "branch_summary":
                self._beside(entry, at, name(entry.get("kind")) or str(entry["type"]))
            case "model_change":
                self._model = name(entry.get("modelId")) or self._model
        self._last_at = at if at is not None else self._last_at

    def result(self, damage: str | None) -> KeptSession:
        told = self._told
        done = told.stop is not None and told.stop not in (*FAILED, "toolUse")
        return KeptSession(
            started_at=self._started_at,
            ended_at=self._last_at,
            version=str(FORMAT),
            model=self._model,
            claims=tuple(told.claims),
            spans=_whole(self._spans),
            tool_calls=told.tool_calls,
            compactions=self._compactions,
            outcome="done" if done else "engine-error" if told.stop == "error" else "interrupted",
            reason="" if done else told.error or "its file ends before the agent gave an answer",
            damage="; ".join(part for part in (damage, told.nested_said) if part) or None,
        )

    def _message(self, message: dict[str, Any], at: float | None) -> None:
        if self._told.message(message):
            self._spans.append(_span(message, at))

    def _beside(self, entry: dict[str, Any], at: float | None, kind: str) -> None:
        """A model call that is no message of the conversation, where the entry tells its usage."""
        if self._told.beside(entry, kind):
            self._spans.append(None if at is None else (at if self._last_at is None else min(self._last_at, at), at))


def _span(message: dict[str, Any], at: float | None) -> Span | None:
    """From the request's beginning, which a message's own instant is, to the answer's end."""
    begun, lasted = from_milliseconds(message.get("timestamp")), count(message.get("durationMs"))
    begin = at if begun is None else begun
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


FILES = SessionFiles(patterns=("*.jsonl",), read=read_pi_session)
