"""Reads the event stream of Codex (`codex exec --json`; seen from its version 0.171.0), and its session file.

    thread.started, turn.started, item.started, item.updated
    item.completed   item {type: agent_message, command_execution, file_change, mcp_tool_call, ...}
    turn.completed   usage, summed over the whole turn
    turn.failed      error {message}, without any usage
    error            message, e.g. of a second try

The stream tells only sums, so that what each response used stands in the session file alone, which the agent could
write itself: its sum is held against the stream's. Item errors are remarks (e.g. a model that Codex does not know).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from bench.agents.adapters import EVENTS_FILE, AgentEvents, StreamEnd
from bench.agents.codex_rollout import Rollout, claim_usage
from bench.agents.event_lines import EventLines
from bench.agents.told import UnknownEvents, count, final, mapping, text

ROLLOUT_FILE = "agent-rollout.jsonl"
"""The session file, in the evidence folder."""

_TOOLS = ("command_execution", "file_change", "mcp_tool_call", "collab_tool_call", "web_search")
_WORDS = ("agent_message", "reasoning", "todo_list", "error")
_AGAIN = "Reconnecting"
_CUT_SHORT = "Incomplete response returned, reason: max_output_tokens"
"""An answer at its output limit; what it used stands in the session file."""

_COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")


def read_events(folder: Path, session: int) -> AgentEvents:
    """What a session's event stream and session file say, of any quality."""
    lines = EventLines(folder / EVENTS_FILE)
    stream = _Stream()
    for event in lines:
        stream.read(event)
    rollout = Rollout(folder / ROLLOUT_FILE, session)
    claims = rollout.claims
    differences = _differences(stream, rollout)
    if not claims.made:
        for usage in stream.sums:
            claim_usage(claims, usage, response_id=None, thought=False)
    if stream.end == "engine-error":
        claims.add(error=stream.error)
    return AgentEvents(
        usage=tuple(claims.made),
        requests=len(claims.made),
        tool_calls=max(stream.tool_calls, rollout.tool_calls),  # the stream leaves out calls that were refused
        compactions=rollout.compactions if rollout.there else None,
        final_text=stream.words,
        end=stream.end,
        end_detail=stream.error,
        damage="; ".join(part for part in (lines.damage, _of_rollout(rollout)) if part) or None,
        tool_seconds=rollout.tool_seconds,
        retries=stream.retries,
        unknown=dict(stream.unknown),
        unusable_turns=rollout.unusable_turns,
        differences=differences,
    )


class _Stream:
    """Takes the events of one session, one by one."""

    def __init__(self) -> None:
        self.tool_calls = self.retries = 0
        self.words = self.error = ""
        self.end: StreamEnd | None = None
        self.sums: list[dict[str, Any]] = []
        self.unknown = UnknownEvents()

    def read(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "item.completed":
                self._item(mapping(event.get("item")))
            case "turn.completed":
                self.end = "done"
                self.sums.append(mapping(event.get("usage")))
            case "turn.failed":
                self.error = text(mapping(event.get("error")).get("message")) or "not said"
                self.end = "length" if self.error.startswith(_CUT_SHORT) else "engine-error"
            case "error":
                self.retries += text(event.get("message")).startswith(_AGAIN)
            case "turn.started":
                self.end, self.error = None, ""
            case "thread.started" | "item.started" | "item.updated":
                pass
            case kind:
                self.unknown.note(kind)

    def _item(self, item: dict[str, Any]) -> None:
        kind = item.get("type")
        if kind in _TOOLS:
            self.tool_calls += 1
        elif kind == "agent_message":
            self.words = final(item.get("text"))
        elif kind not in _WORDS:
            self.unknown.note(kind, "item ")


def _differences(stream: _Stream, rollout: Rollout) -> tuple[str, ...]:
    """The session file against the stream's sums, as far as the stream tells any."""
    if not rollout.claims.made:
        return ("Codex left no session file that tells what each response used",) if stream.sums else ()
    if stream.error or not stream.sums:
        return ()
    said = _summed(stream.sums)
    kept = _summed(
        {
            "input_tokens": (one.input_tokens or 0) + (one.cached_tokens or 0),
            "cached_input_tokens": one.cached_tokens or 0,
            "output_tokens": one.output_tokens or 0,
            "reasoning_output_tokens": one.reasoning_tokens or 0,
        }
        for one in rollout.claims.made
    )
    apart = [f"{key} {kept[key]:,} and {said[key]:,}" for key in _COUNTS if kept[key] != said[key]]
    return (f"Codex's session file and its event stream sum up differently: {', '.join(apart)}",) if apart else ()


def _summed(usages: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for usage in usages:
        total.update({key: count(usage.get(key)) or 0 for key in _COUNTS})
    return {key: total[key] for key in _COUNTS}


def _of_rollout(rollout: Rollout) -> str:
    return f"{ROLLOUT_FILE}: {rollout.damage}" if rollout.damage else ""
