"""Where did a session's time go? Its wall time in four parts: engine, waiting in the engine's queue, tools, agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.records.schema import RequestRecord
from bench.records.spans import covered_seconds


@dataclass(frozen=True, kw_only=True)
class SessionTime:
    """Seconds; those that are not None add up to the wall time. What they mean: `SessionRow`."""

    engine: float | None = None
    waiting: float | None = None
    tool: float | None = None
    agent: float | None = None


def split_time(
    wall_seconds: float | None,
    requests: Sequence[RequestRecord],
    *,
    tool_seconds: float | None,
    simulated: bool,
) -> SessionTime:
    """The parts of one session's wall time; all None where nobody knows when it ended.

    `requests` are the session's own, on the relay's clock; of those at the engine at once each second counts once.
    A queue of which the times are simulated has nothing to do with the wall time. `tool_seconds` is the agent's word,
    so it gets no more than the requests leave; None: the part `agent` contains what tools took.
    """
    if wall_seconds is None:
        return SessionTime()
    queues = [0.0 if simulated else one.queue_seconds or 0.0 for one in requests]
    told = not simulated and any(one.queue_seconds is not None for one in requests)
    there = covered_seconds((one.sent_at, one.ended_at) for one in requests)
    worked = covered_seconds((one.sent_at + queue, one.ended_at) for one, queue in zip(requests, queues, strict=True))
    left = max(0.0, wall_seconds)
    engine = min(worked, left)
    left -= engine
    waiting = min(max(0.0, there - worked), left) if told else None
    left -= waiting or 0.0
    tool = None if tool_seconds is None else min(max(0.0, tool_seconds), left)
    return SessionTime(engine=engine, waiting=waiting, tool=tool, agent=left - (tool or 0.0))
