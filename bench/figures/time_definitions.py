"""What do the figures of the sessions' time mean: how much of it was the engine's, the tools', the agent's own?"""

from __future__ import annotations

from bench.figures.definition import ENGINE, Definition

_UNSPLIT = "no session's wall time could be split: no relay stood between, or nobody knows when a session ended"

TIME_DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        id="engine_time",
        title="Time at the engine",
        unit="s",
        statistic="sum",
        sources=("relay",),
        formula="Σ over agent sessions: seconds in which at least one request was at the engine and not in its queue; "
        "from the last byte sent to the end of the answer, overlapping requests counted once, at most the wall time",
        null_when=_UNSPLIT,
        group="session",
    ),
    Definition(
        id="waiting_time",
        title="Time in the engine's queue",
        unit="s",
        statistic="sum",
        sources=ENGINE,
        formula="Σ over agent sessions: seconds in which requests were at the engine and all of them in its queue, the "
        "queue being the first queue_seconds of a request",
        null_when="the engine tells no queue time or its times are simulated (then it is part of the time at the "
        "engine), or as for engine_time",
        group="session",
    ),
    Definition(
        id="tool_time",
        title="Time in tools",
        unit="s",
        statistic="sum",
        sources=("agent",),
        formula="Σ over agent sessions: seconds in which the agent says that tools ran, at most what the requests "
        "leave of the wall time",
        null_when="the agent does not tell (then it is part of the agent's own time), or as for engine_time",
        group="session",
    ),
    Definition(
        id="agent_time",
        title="The agent's own time",
        unit="s",
        statistic="sum",
        sources=("harness",),
        formula="Σ over agent sessions: wall seconds less engine, queue and tools; start and end of the process included",
        null_when=_UNSPLIT,
        group="session",
    ),
)
"""The four that are not null add up to the wall time of the sessions that could be split."""
