"""Reads opencode's event stream (`opencode run --format json --thinking`; seen from its version 1.18.33).

    step_start   one model call began
    text, reasoning, tool_use {part.state {status, time {start, end}}}   pieces of its answer, whole when they are done
    step_finish  part {reason, tokens {input, output, reasoning, cache {read, write}}}
    error        error {name, data {message}}

Its counts mean: `input` is what was neither read from the cache nor written to it, `output` EXCLUDES reasoning. Zeros
stand for both nothing and not told. No event names a response, a compaction or a second try.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.agents.adapters import EVENTS_FILE, AgentEvents, StreamEnd
from bench.agents.event_lines import EventLines
from bench.agents.told import (
    Claims,
    UnknownEvents,
    added,
    count,
    covered,
    final,
    from_milliseconds,
    mapping,
    name,
    text,
)

_UNUSABLE = "invalid"
"""The tool that opencode puts in place of a call that names none there is, or whose arguments cannot be read."""


def read_events(folder: Path, session: int) -> AgentEvents:
    """What a session's event stream says, of any quality."""
    lines = EventLines(folder / EVENTS_FILE)
    reader = _Reader(session)
    for event in lines:
        reader.read(event)
    end, detail = reader.end()
    made = reader.claims.made
    return AgentEvents(
        usage=tuple(made),
        requests=len(made),
        tool_calls=reader.tool_calls,
        compactions=None,
        final_text=final("\n".join(reader.texts)),
        end=end,
        end_detail=detail,
        damage=lines.damage,
        tool_seconds=covered(reader.spans),
        unknown=dict(reader.unknown),
        retries=None,
        unusable_turns=reader.unusable_turns,
    )


class _Reader:
    """Takes the events of one session, one by one."""

    def __init__(self, session: int) -> None:
        self.claims = Claims(session)
        self.tool_calls = self.unusable_turns = 0
        self.spans: list[tuple[float, float]] = []
        self.texts: list[str] = []
        self.unknown = UnknownEvents()
        self._calls = self._unusable = 0
        """Of the step that is under way."""

        self._thought = False
        self._stop: str | None = None
        self._error = ""

    def read(self, event: dict[str, Any]) -> None:
        part = mapping(event.get("part"))
        match event.get("type"):
            case "step_start":
                self.texts, self._thought, self._stop = [], False, None
                self._calls = self._unusable = 0
            case "text":
                self.texts.append(final(part.get("text")))
            case "reasoning":
                self._thought = True
            case "tool_use":
                self._tool(part)
            case "step_finish":
                self._finish(part)
            case "error":
                error = mapping(event.get("error"))
                said = text(mapping(error.get("data")).get("message")) or "not said"
                self._error = f"{text(error.get('name')) or 'error'}: {said}"
                self.claims.add(error=self._error)
            case kind:
                self.unknown.note(kind)

    def end(self) -> tuple[StreamEnd | None, str]:
        """It has no event for its own end: a last step that asked for no tools is the end, and so is an error."""
        if self._error:
            return "engine-error", self._error
        if self._stop == "stop":
            return "done", ""
        if self._stop == "length":
            return "length", ""
        if self._stop is None or self._stop == "tool-calls":
            return None, ""
        return "agent-error", f"its last step stopped for '{self._stop}'"

    def _tool(self, part: dict[str, Any]) -> None:
        self.tool_calls += 1
        self._calls += 1
        self._unusable += part.get("tool") == _UNUSABLE
        time = mapping(mapping(part.get("state")).get("time"))
        begin, end = (from_milliseconds(time.get(side)) for side in ("start", "end"))
        if begin is not None and end is not None and begin <= end:
            self.spans.append((begin, end))

    def _finish(self, part: dict[str, Any]) -> None:
        tokens = mapping(part.get("tokens"))
        cache = mapping(tokens.get("cache"))
        fresh, written, cached = count(tokens.get("input")), count(cache.get("write")), count(cache.get("read"))
        said, reasoning = count(tokens.get("output")), count(tokens.get("reasoning"))
        output = None if said is None else added(said, reasoning)
        if not fresh and not written and not cached:
            fresh = cached = written = None  # no prompt is empty: the answer came without usage
            output = output or None
        self._stop, self._error = name(part.get("reason")), ""
        self.unusable_turns = self.unusable_turns + 1 if self._calls and self._unusable == self._calls else 0
        self.claims.add(
            fresh=None if fresh is None else added(fresh, written),
            cached=cached,
            output=output,
            reasoning=None if output is None or (reasoning == 0 and self._thought) else reasoning,
            stop_reason=self._stop,
        )
