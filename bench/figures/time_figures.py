"""How much of the sessions' time was the engine's, its queue's, the tools', the agent's own?"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import Literal

from bench.figures.measured import Formula, Formulas, Measured, absent, joined, no_relay
from bench.figures.run_evidence import Evidence
from bench.figures.session_figures import NO_RUN
from bench.records.schema import SessionRow

_Part = Literal["engine", "waiting", "tool", "agent"]
_PARTS: tuple[_Part, ...] = ("engine", "waiting", "tool", "agent")
_UNTOLD: Mapping[_Part, str] = {
    "waiting": "the engine tells no queue time that could be held against the wall time; part of the time at the engine",
    "tool": "the agent does not tell how long its tools ran; part of the agent's own time",
}
"""Why a session that was split lacks a part; the engine's and the agent's it always has."""


def _time(part: _Part) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        if not evidence.ran:
            return absent(NO_RUN)
        if nothing := no_relay(evidence):
            return absent(nothing)
        split = [row for row in evidence.agent_sessions if row.engine_seconds is not None]
        if not split:
            return absent("no session ended of which the end is known")
        told = [value for row in split if (value := _of(row, part)) is not None]
        if not told:
            return absent(_UNTOLD[part], len(split))
        value, wall = fsum(told), fsum(row.seconds or 0.0 for row in split)
        cut = len(evidence.agent_sessions) - len(split)
        return Measured(
            value=value,
            n=len(told),
            includes=joined(
                f"{value / wall:.1%} of the sessions' wall time" if wall else None,
                f"{cut} sessions without a known end left out" if cut else None,
                f"not told of {len(split) - len(told)} of {len(split)} sessions" if len(told) < len(split) else None,
                "the time of tools included"
                if part == "agent" and any(row.tool_seconds is None for row in split)
                else None,
                "the queue included"
                if part == "engine" and all(row.waiting_seconds is None for row in split)
                else None,
            ),
            source=evidence.timing_source if part == "waiting" else None,
        )

    return compute


def _of(row: SessionRow, part: _Part) -> float | None:
    value: float | None = getattr(row, f"{part}_seconds")
    return value


TIMES: Formulas = {f"{part}_time": _time(part) for part in _PARTS}
