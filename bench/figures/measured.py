"""How does a formula answer? With a value and what it rests on, or without one and why; percentiles and sums alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.figures.run_evidence import Evidence
from bench.records.schema import SourceClass


@dataclass(frozen=True, kw_only=True)
class Measured:
    value: float | int | None
    n: int | None
    """How many requests, responses, samples or rows the value rests on."""

    includes: str | None = None
    """What the source includes, and what is missing from a sum."""

    reason: str | None = None
    """Why there is no value; never given beside one."""

    source: SourceClass | None = None
    """Which of the definition's source classes it was; None: the first."""


Formula = Callable[[Evidence], Measured]
Formulas = Mapping[str, Formula]

SMALLEST_N = {50: 1, 90: 50, 99: 500}
"""Percentile -> how many values it needs: below that it would be the largest value under another name."""


def absent(reason: str, n: int | None = 0) -> Measured:
    return Measured(value=None, n=n, reason=reason)


def percentile(values: Sequence[float], percent: int) -> float:
    """Linear interpolation between the two nearest ranks; `values` in any order, at least one."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def percentile_of(
    values: Sequence[float], percent: int, *, includes: str | None, nothing: Callable[[], str]
) -> Measured:
    """The percentile if there are enough values; `nothing` says why there is none at all."""
    if not values:
        return absent(nothing())
    needed = SMALLEST_N[percent]
    if len(values) < needed:
        return absent(f"p{percent} needs {needed} values, there are {len(values)}", len(values))
    return Measured(value=percentile(values, percent), n=len(values), includes=includes)


def total(counts: Iterable[int | None], *, of_what: str, nothing: str) -> Measured:
    """The sum of what was reported, saying how many did not report; None when none did."""
    listed = list(counts)
    reported = [count for count in listed if count is not None]
    if not reported:
        return absent(f"reported by none of {len(listed)} {of_what}" if listed else nothing)
    return Measured(
        value=sum(reported), n=len(reported), includes=missing(len(listed) - len(reported), listed, of_what)
    )


def missing(count: int, listed: Sequence[object], of_what: str) -> str | None:
    """`not reported by 2 of 40 responses`; None when all did."""
    return f"not reported by {count} of {len(listed)} {of_what}" if count else None


def joined(*parts: str | None) -> str | None:
    """The parts that are there, as one sentence."""
    return "; ".join(part for part in parts if part) or None


def no_relay(evidence: Evidence) -> str | None:
    """Why nothing of the relay's can be known of a run that another program made; None where there was one."""
    return "no relay stood between agent and engine" if evidence.counted_by == "engine-log" else None
