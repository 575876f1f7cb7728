"""Reads Pi's event stream (`--mode json`; docs/json.md of 1.6.0; seen from its versions 0.73 and 1.6), and holds its session file against it.

Of the events that it prints these count: `message_end` with an assistant's message (its usage, stop reason, response
id) or a tool's result (how long it ran), `compaction_end` (with a result and its usage, or why there is none), `entry_appended` where
the entry is a model call beside the conversation, `auto_retry_start`, `summarization_retry_scheduled`, `agent_end`
(0.73, where no retry follows) and `agent_settled` (1.6: the true end). Its exit code is 0 in JSON mode whatever
happened.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.agents.adapters import EVENTS_FILE, AgentEvents, StreamEnd
from bench.agents.event_lines import EventLines
from bench.agents.pi_claims import PiClaims
from bench.agents.pi_sessions import read_pi_session
from bench.agents.told import UnknownEvents, covered, from_milliseconds, mapping, name, seconds_of, text

SESSION_FILE = "agent-session.jsonl"
"""Pi's own session file, in the evidence folder."""

NOISE = tuple(
    b'{"type":"%b"' % kind
    for kind in (
        b"message_update",
        b"message_start",
        b"tool_execution_update",
        b"turn_start",
        b"turn_end",
        b"agent_end",
    )
)
"""Lines that repeat, with every piece of an answer or at every turn, what the kept ones say once."""

_KNOWN = frozenset(
    {
        "session", "agent_start", "turn_start", "turn_end", "message_start", "message_update", "tool_execution_start",
        "tool_execution_update", "tool_execution_end", "compaction_start", "auto_retry_end", "summarization_retry_attempt_start",
        "summarization_retry_finished", "queue_update", "session_info_changed", "thinking_level_changed",
    }
)  # fmt: skip
"""Events that say nothing which is counted here."""


def read_pi_events(folder: Path, session: int) -> AgentEvents:
    """What a session's event stream says, of any quality, and where its session file differs from it."""
    lines = EventLines(folder / EVENTS_FILE)
    reader = _Reader(session)
    for event in lines:
        reader.read(event)
    told = reader.told
    end, detail = reader.end()
    return AgentEvents(
        usage=tuple(told.claims),
        requests=len(told.claims),
        tool_calls=told.tool_calls,
        compactions=reader.compactions,
        final_text=told.text,
        end=end,
        end_detail=detail,
        damage="; ".join(part for part in (lines.damage, told.nested_said, reader.failed_compactions_said) if part)
        or None,
        tool_seconds=reader.tool_seconds,
        retries=reader.retries,
        unknown=dict(reader.unknown),
        unusable_turns=told.unusable_turns,
        after_answer=reader.after_answer,
        differences=_differences(folder / SESSION_FILE, session, reader),
    )


class _Reader:
    """Takes the events of one session, one by one."""

    def __init__(self, session: int) -> None:
        self.told = PiClaims(session)
        self.compactions = self.retries = 0
        self.after_answer = 0
        """Compactions since the last message."""

        self.unknown = UnknownEvents()
        self._tools: list[tuple[float, float]] = []
        self._untimed_tools = False
        self._settled = self._aborted = False
        self._failed_compactions = 0
        self._compaction_error = ""

    @property
    def tool_seconds(self) -> float | None:
        """Tools of one answer run beside each other, so their times are joined, not added; 0.73 tells none."""
        return None if self._untimed_tools else covered(self._tools)

    @property
    def failed_compactions_said(self) -> str | None:
        """Pi does not tell what a summary used that came to nothing."""
        if not self._failed_compactions:
            return None
        return (
            f"{self._failed_compactions} x compaction failed, and what it used is not told; "
            f"the last: {self._compaction_error}"
        )

    def read(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_end":
                message = mapping(event.get("message"))
                self.told.message(message)
                self._tool(message)
                self.after_answer = 0
            case "compaction_end":
                self._compaction(event)
            case "entry_appended":
                entry = mapping(event.get("entry"))
                if entry.get("type") == "usage":
                    self.told.beside(entry, name(entry.get("kind")) or "usage")
            case "auto_retry_start" | "summarization_retry_scheduled":
                self.retries += 1
            case "agent_end":
                self._settled = event.get("willRetry") is not True
            case "agent_settled":
                self._settled, self._aborted = True, event.get("aborted") is True
            case kind if not isinstance(kind, str) or kind not in _KNOWN:
                self.unknown.note(kind)

    def _tool(self, message: dict[str, Any]) -> None:
        """When a tool ran: its result's instant is its end, or that of the longest that ran beside it."""
        if message.get("role") != "toolResult":
            return
        at, lasted = from_milliseconds(message.get("timestamp")), message.get("durationMs")
        if at is not None and lasted is not None:
            self._tools.append((at - (seconds_of(lasted) or 0.0), at))
        elif message.get("isError") is not True:  # one that did not run has no duration
            self._untimed_tools = True

    def _compaction(self, event: dict[str, Any]) -> None:
        self.after_answer += 1
        if result := mapping(event.get("result")):
            self.compactions += 1
            self.told.beside(result, "compaction")
        else:
            self._failed_compactions += 1
            self._compaction_error = text(event.get("errorMessage"), 300) or "aborted"

    def end(self) -> tuple[StreamEnd | None, str]:
        """How the stream says that the session ended. Its last message decides: Pi's own words of success do not."""
        told = self.told
        if not self._settled or told.stop is None:
            return None, ""
        if self._aborted:
            return "agent-error", "Pi says that it was aborted"
        if told.stop == "error":
            return "engine-error", told.error
        if told.stop == "length":
            return "length", ""
        if told.stop == "stop":
            return "done", ""
        return "agent-error", f"its last message stopped for '{told.stop}'"


def _differences(path: Path, session: int, reader: _Reader) -> tuple[str, ...]:
    """Pi's session file against its event stream: the file is the agent's to write, the stream is ours."""
    if not path.exists():
        return ("Pi left no session file",) if reader.told.claims else ()
    kept = read_pi_session(path, session)
    if kept.damage is not None:
        return (f"Pi's session file is damaged ({kept.damage})",)
    said = []
    if len(kept.claims) != len(reader.told.claims):
        said.append(f"Pi's session file holds {len(kept.claims)} responses, its event stream {len(reader.told.claims)}")
    else:
        apart = [one.index for one, other in zip(reader.told.claims, kept.claims, strict=True) if one != other]
        said += [f"Pi's session file tells response {apart[0] + 1} otherwise than its event stream"] if apart else []
    if kept.compactions != reader.compactions:
        said.append(f"Pi's session file holds {kept.compactions} compactions, its event stream {reader.compactions}")
    return tuple(said)
