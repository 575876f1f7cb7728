"""Reads what mini-swe-agent says of its session: not in a stream, but in the trajectory that it writes after every step.

It lies in the agent's own folder, where the agent's commands could write, too; the relay's record is what it is held
against. What its standard output shows is made for people and not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.agents.adapters import AgentEvents, StreamEnd
from bench.agents.mini_trajectory import FINISHED, asks_once, claims_of, exit_status, load_trajectory, responses
from bench.agents.told import Claims, count, covered, final, instant, mapping, mappings, text

TRAJECTORY_FILE = "agent-trajectory.json"
"""The trajectory, in the evidence folder."""

_LOOP = "RepeatedFormatError"
"""It gives up after three answers in a row without a call that it can carry out."""

_LIMITS = ("LimitsExceeded", "TimeExceeded")


def read_events(folder: Path, session: int) -> AgentEvents:
    """What a session's trajectory says, of any quality."""
    data, damage = load_trajectory(folder / TRAJECTORY_FILE)
    messages = mappings(data.get("messages"))
    answered = responses(messages)
    claims = Claims(session)
    claims.made += claims_of(answered, session)
    asked = count(mapping(mapping(data.get("info")).get("model_stats")).get("api_calls"))
    end, detail = _end(data, messages, failed=asked is not None and asked > len(answered))
    if end == "engine-error":
        claims.add(error=detail)
    return AgentEvents(
        usage=tuple(claims.made),
        requests=len(claims.made),
        tool_calls=sum(len(mappings(one.get("tool_calls"))) for one in answered),
        compactions=0,
        final_text=_final_text(answered, messages),
        end=end,
        end_detail=detail,
        damage=None if damage is None else f"{TRAJECTORY_FILE}: {damage}",
        retries=0 if asks_once(data) else None,
        tool_seconds=None if damage else covered(_tool_spans(messages)),
        ended_by_call=end == "done",
    )


def _end(data: dict[str, Any], messages: list[dict[str, Any]], *, failed: bool) -> tuple[StreamEnd | None, str]:
    """`failed`: one call of the model more was begun than answers came."""
    status = exit_status(data)
    if not status:
        return None, ""
    if status == FINISHED:
        return "done", ""
    if status in _LIMITS:
        return "limit", status
    if status == _LOOP:
        return "agent-error", f"tool-loop: {status}: answers in a row without a call that could be carried out"
    said = text(mapping(messages[-1].get("extra")).get("exception_str")) if messages else ""
    detail = f"{text(status)}: {said}" if said else text(status)
    return ("engine-error" if failed else "agent-error"), detail


def _final_text(answered: list[dict[str, Any]], messages: list[dict[str, Any]]) -> str:
    """The words beside the last answer's call, and what the agent submitted."""
    parts = [final(answered[-1].get("content"))] if answered else []
    parts += [final(mapping(messages[-1].get("extra")).get("submission"))] if messages else []
    return final("\n".join(part for part in parts if part))


def _tool_spans(messages: list[dict[str, Any]]) -> Iterator[tuple[float, float]]:
    """From an answer to the first of its results: the results are noted when the last command has ended."""
    answered_at = None
    for message in messages:
        at = instant(mapping(message.get("extra")).get("timestamp"))
        if message.get("role") == "assistant":
            answered_at = at
        elif answered_at is not None:
            if message.get("role") == "tool" and at is not None and at >= answered_at:
                yield answered_at, at
            answered_at = None
