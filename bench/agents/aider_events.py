"""Reads the log of events that aider keeps (`--analytics-log`), after its source (version 0.86.2).

    message_send_starting    one exchange with the model begins
    message_send             it is over; its token counts are aider's own estimates
    message_send_exception   it failed
    exit                     reason

Since an estimate is no count, the claims have none. aider has no tools, and names no response.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.agents.adapters import AgentEvents, StreamEnd
from bench.agents.event_lines import EventLines
from bench.agents.told import Claims, UnknownEvents, mapping, text

LOG_FILE = "agent-analytics.jsonl"
"""aider's log of events, in the evidence folder."""

NOT_COUNTED = "aider's counts are its own estimates"
"""Why its claims hold none."""

_FINISHED = "Completed --message"
_QUIET = ("launched", "repo", "no-repo", "cli session", "auto_commits", "model warning", "message_send_starting")


def read_events(folder: Path, session: int) -> AgentEvents:
    """What a session's log of events says, of any quality."""
    lines = EventLines(folder / LOG_FILE)
    claims = Claims(session)
    unknown = UnknownEvents()
    end: StreamEnd | None = None
    detail = ""
    for event in lines:
        properties: dict[str, Any] = mapping(event.get("properties"))
        match event.get("event"):
            case "message_send":
                claims.add(stop_reason=NOT_COUNTED)
                detail = ""
            case "message_send_exception":
                detail = text(properties.get("exception")) or "not said"
                claims.add(error=detail)
            case "exit":
                reason = text(properties.get("reason"))
                done = reason.startswith(_FINISHED)
                end = "engine-error" if detail else "done" if done else "agent-error"
                detail = detail or ("" if done else reason or "not said")
            case kind if kind not in _QUIET:
                unknown.note(kind)
    return AgentEvents(
        usage=tuple(claims.made),
        requests=len(claims.made),
        tool_calls=0,
        compactions=None,
        final_text="",
        end=end,
        end_detail=detail,
        damage=lines.damage,
        retries=None,
        unknown=dict(unknown),
    )
