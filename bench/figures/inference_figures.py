"""How fast did the engine serve this run?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import fsum
from typing import Literal

from bench.engine_profile import Quantity
from bench.figures.measured import Formula, Formulas, Measured, absent, joined, no_relay, percentile_of
from bench.figures.one_source import OneSource
from bench.figures.run_evidence import Evidence
from bench.records.schema import RequestRecord


def _ttft(percent: int) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        timed = evidence.timed
        values = [one.ttft_seconds for one in timed.requests if one.ttft_seconds is not None]
        measured = percentile_of(
            values,
            percent,
            includes=joined(_includes(evidence, "ttft_seconds"), timed.missing(_has("ttft_seconds"))),
            nothing=lambda: _why_none(evidence, timed, "ttft_seconds"),
        )
        return replace(measured, source=timed.source)

    return compute


def _relay_ttft(percent: int) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        values = [one.first_token_at - one.sent_at for one in evidence.served if one.first_token_at is not None]
        return percentile_of(
            values,
            percent,
            includes="queueing and the way back included",
            nothing=lambda: _why_none_served(evidence) or no_relay(evidence) or "no served request was streamed",
        )

    return compute


def _relay_minus_engine(evidence: Evidence) -> Measured:
    timed = evidence.timed
    differences = [
        one.first_token_at - one.sent_at - one.ttft_seconds
        for one in timed.requests
        if one.first_token_at is not None and one.ttft_seconds is not None
    ]
    if evidence.profile is not None and evidence.profile.simulated:
        return absent("the engine's times are simulated, the relay's are not", len(differences))
    engine = _includes(evidence, "ttft_seconds")
    measured = percentile_of(
        differences,
        50,
        includes=joined(
            f"engine ({timed.source}): {engine or 'not stated what it includes'}", "relay: queueing and the way back"
        ),
        nothing=lambda: (
            no_relay(evidence)
            or _why_none(evidence, timed, "ttft_seconds", "no served request has a TTFT of both sides")
        ),
    )
    return replace(measured, source="relay")


def _decode_tps(evidence: Evidence) -> Measured:
    return _rate(evidence, least=1, tokens=lambda output: output)


def _decode_tps_after_first(evidence: Evidence) -> Measured:
    # An answer of one token has no time between tokens.
    return _rate(evidence, least=2, tokens=lambda output: output - 1)


def _rate(evidence: Evidence, *, least: int, tokens: Callable[[int], int]) -> Measured:
    timed = evidence.timed

    def carries(one: RequestRecord) -> bool:
        return one.decode_seconds is not None and one.output_tokens is not None and one.output_tokens >= least

    known = [
        (tokens(one.output_tokens), one.decode_seconds)
        for one in timed.requests
        if carries(one) and one.decode_seconds is not None and one.output_tokens is not None
    ]
    # fsum rounds once, so every Python gives the same last digit.
    seconds = fsum(spent for _, spent in known)
    if not known:
        return replace(absent(_why_none(evidence, timed, "decode_seconds")), source=timed.source)
    if seconds <= 0:
        return replace(absent("the engine reports no decode time at all", len(known)), source=timed.source)
    return Measured(
        value=sum(made for made, _ in known) / seconds,
        n=len(known),
        includes=joined(_includes(evidence, "decode_seconds"), timed.missing(carries)),
        source=timed.source,
    )


def _draft_acceptance(evidence: Evidence) -> Measured:
    chosen = evidence.drafted
    known = [
        (one.drafted_tokens, one.accepted_tokens)
        for one in chosen.requests
        if one.drafted_tokens is not None and one.accepted_tokens is not None
    ]
    drafted = sum(made for made, _ in known)
    if not drafted:
        why = "nothing was drafted" if known else _why_none(evidence, chosen, "drafted_tokens")
        return replace(absent(why, len(known)), source=chosen.source)
    accepted = sum(taken for _, taken in known)
    return Measured(
        value=accepted / drafted,
        n=len(known),
        includes=joined(f"{accepted:,} of {drafted:,} drafted tokens", chosen.missing(_has("accepted_tokens"))),
        source=chosen.source,
    )


def _unreported(kind: Literal["timings", "drafts"]) -> Formula:
    """Served requests that have none of the numbers, from whatever source."""

    def compute(evidence: Evidence) -> Measured:
        if nothing := _why_none_served(evidence):
            return absent(nothing)
        if kind == "timings":
            silent = [one for one in evidence.served if one.ttft_seconds is None and one.decode_seconds is None]
            source = evidence.timing_source
        else:
            silent = [one for one in evidence.served if one.drafted_tokens is None]
            source = evidence.draft_source
        return Measured(value=len(silent), n=len(evidence.served), source=source)

    return compute


NO_ENGINE = "no engine ran: only a project was scored"

INFERENCE: Formulas = {
    "ttft_median": _ttft(50),
    "ttft_p90": _ttft(90),
    "ttft_p99": _ttft(99),
    "relay_ttft_median": _relay_ttft(50),
    "relay_ttft_p90": _relay_ttft(90),
    "ttft_relay_minus_engine": _relay_minus_engine,
    "decode_tps": _decode_tps,
    "decode_tps_after_first": _decode_tps_after_first,
    "draft_acceptance": _draft_acceptance,
    "requests_without_timings": _unreported("timings"),
    "requests_without_drafts": _unreported("drafts"),
}


def _has(name: Literal["ttft_seconds", "accepted_tokens"]) -> Callable[[RequestRecord], bool]:
    return lambda one: getattr(one, name) is not None


def _includes(evidence: Evidence, key: Quantity) -> str | None:
    """What the profile says that this number includes, in the source that it came from."""
    profile = evidence.profile
    if profile is None:
        return None
    series = profile.metrics.series.get(key) if profile.metrics and evidence.timing_source == "engine-counter" else None
    return (series.includes if series else None) or profile.includes.get(key)


def _why_none(evidence: Evidence, chosen: OneSource, key: str, otherwise: str | None = None) -> str:
    """Why no request has this number: none was served, another source has it, the profile's word, or what most say."""
    if nothing := _why_none_served(evidence):
        return nothing
    if elsewhere := chosen.why_none(lambda one: getattr(one, key) is not None):
        return elsewhere
    if otherwise is not None and any(getattr(one, key) is not None for one in chosen.requests):
        return otherwise
    if evidence.profile is not None and key in evidence.profile.unavailable:
        return evidence.profile.unavailable[key]
    said = Counter(part for one in evidence.served for part in (one.reason or "").split("; ") if part.startswith(key))
    return said.most_common(1)[0][0] if said else f"no served request reports {key}"


def _why_none_served(evidence: Evidence) -> str | None:
    if not evidence.ran:
        return NO_ENGINE
    return None if evidence.served else "no request was answered whole"
