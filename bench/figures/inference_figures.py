"""How fast did the engine serve this run, and how much memory did that cost the machine?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

from bench.figures.measured import Formula, Formulas, Measured, absent, joined, missing, percentile_of
from bench.figures.run_evidence import Evidence
from bench.records.schema import MemorySample, RequestRecord


def _ttft(percent: int) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        values = [one.ttft_seconds for one in _timed(evidence) if one.ttft_seconds is not None]
        return percentile_of(
            values,
            percent,
            includes=joined(_includes(evidence, "ttft_seconds"), _untimed(evidence, len(values))),
            nothing=lambda: _why_none(evidence, "ttft_seconds"),
        )

    return compute


def _relay_ttft(percent: int) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        values = [one.first_token_at - one.sent_at for one in evidence.served if one.first_token_at is not None]
        return percentile_of(
            values,
            percent,
            includes="queueing and the way back included",
            nothing=lambda: _why_none_served(evidence) or "no served request was streamed",
        )

    return compute


def _decode_tps(evidence: Evidence) -> Measured:
    return _rate(evidence, least=1, tokens=lambda output: output)


def _decode_tps_after_first(evidence: Evidence) -> Measured:
    # An answer of one token has no time between tokens.
    return _rate(evidence, least=2, tokens=lambda output: output - 1)


def _rate(evidence: Evidence, *, least: int, tokens: Callable[[int], int]) -> Measured:
    known = [
        (tokens(one.output_tokens), one.decode_seconds)
        for one in _timed(evidence)
        if one.decode_seconds is not None and one.output_tokens is not None and one.output_tokens >= least
    ]
    seconds = sum(spent for _, spent in known)
    if not known:
        return absent(_why_none(evidence, "decode_seconds"))
    if seconds <= 0:
        return absent("the engine reports no decode time at all", len(known))
    includes = joined(_includes(evidence, "decode_seconds"), _untimed(evidence, len(known)))
    return Measured(value=sum(made for made, _ in known) / seconds, n=len(known), includes=includes)


def _draft_acceptance(evidence: Evidence) -> Measured:
    known = [
        (one.drafted_tokens, one.accepted_tokens)
        for one in _timed(evidence)
        if one.drafted_tokens is not None and one.accepted_tokens is not None
    ]
    drafted = sum(made for made, _ in known)
    if not drafted:
        return absent("nothing was drafted" if known else _why_none(evidence, "drafted_tokens"), len(known))
    accepted = sum(taken for _, taken in known)
    return Measured(value=accepted / drafted, n=len(known), includes=f"{accepted:,} of {drafted:,} drafted tokens")


def _swapped_in(evidence: Evidence) -> Measured:
    counted = [sample for sample in evidence.memory if sample.swapped_in_bytes is not None]
    steps = [step for segment in _samples_by_segment(evidence, counted) for step in _steps(segment)]
    if not steps:
        return absent(_no_samples(evidence, counted, "how much was swapped in"), len(counted))
    if any(step < 0 for step in steps):
        return absent("the system's counter fell within a segment", len(counted))
    return Measured(
        value=sum(steps), n=len(counted), includes="all processes of the machine, time spent blocked excluded"
    )


def _pressure(level: Literal["warning", "critical"]) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        levels = [sample.pressure for sample in evidence.memory if sample.pressure is not None]
        if not levels:
            return absent(_no_samples(evidence, levels, "its memory pressure"))
        return Measured(value=levels.count(level), n=len(levels))

    return compute


NO_ENGINE = "no engine ran: only a project was scored"

INFERENCE: Formulas = {
    "ttft_median": _ttft(50),
    "ttft_p90": _ttft(90),
    "ttft_p99": _ttft(99),
    "relay_ttft_median": _relay_ttft(50),
    "relay_ttft_p90": _relay_ttft(90),
    "decode_tps": _decode_tps,
    "decode_tps_after_first": _decode_tps_after_first,
    "draft_acceptance": _draft_acceptance,
    "swapped_in_bytes": _swapped_in,
    "memory_pressure_warning": _pressure("warning"),
    "memory_pressure_critical": _pressure("critical"),
}


def _timed(evidence: Evidence) -> tuple[RequestRecord, ...]:
    """Served requests whose timings came with the response: sources are never mixed in one figure."""
    return tuple(one for one in evidence.served if one.source == "engine-response")


def _untimed(evidence: Evidence, known: int) -> str | None:
    return missing(len(evidence.served) - known, evidence.served, "requests")


def _includes(evidence: Evidence, key: str) -> str | None:
    return None if evidence.profile is None else evidence.profile.includes.get(key)


def _why_none(evidence: Evidence, key: str) -> str:
    """Why no served request has this figure: the profile's word, else the commonest reason."""
    if evidence.profile is not None and key in evidence.profile.unavailable:
        return evidence.profile.unavailable[key]
    if nothing := _why_none_served(evidence):
        return nothing
    said = Counter(part for one in evidence.served for part in (one.reason or "").split("; ") if part.startswith(key))
    return said.most_common(1)[0][0] if said else f"no served request reports {key}"


def _why_none_served(evidence: Evidence) -> str | None:
    if not evidence.segments:
        return NO_ENGINE
    return None if evidence.served else "no request was answered whole"


def _samples_by_segment(evidence: Evidence, samples: list[MemorySample]) -> Iterator[list[MemorySample]]:
    for segment in evidence.segments:
        end = float("inf") if segment.ended_at is None else segment.ended_at
        later = [other.started_at for other in evidence.segments if other.started_at > segment.started_at]
        end = min(end, *later) if later else end
        yield [sample for sample in samples if segment.started_at <= sample.at <= end]


def _steps(samples: list[MemorySample]) -> Iterator[int]:
    for before, after in pairwise(sorted(samples, key=lambda sample: sample.at)):
        if before.swapped_in_bytes is not None and after.swapped_in_bytes is not None:
            yield after.swapped_in_bytes - before.swapped_in_bytes


def _no_samples(evidence: Evidence, told: Sequence[object], what: str) -> str:
    if not evidence.segments:
        return NO_ENGINE
    if not evidence.memory:
        return "no memory sample was taken"
    return "fewer than two samples in any segment" if told else f"the system does not tell {what}"
