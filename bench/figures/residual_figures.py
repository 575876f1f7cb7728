"""Do the three streams agree: what the agent claims, what the relay saw, what the engine counted?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.figures.measured import Formulas, Measured, absent, joined, no_relay
from bench.figures.run_evidence import Evidence
from bench.figures.session_figures import NO_RUN
from bench.figures.told_twice import told_twice
from bench.measure.endpoints import MODELS_PATH
from bench.measure.matching import match_summaries
from bench.records.schema import EngineSummary, RequestRecord, Scrape, SourceClass, UsageRecord

_UNCOUNTED = "the agent gives no token counts"
_NO_ENGINE_STREAM = "neither the engine's counters nor its log were kept"


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """Tokens of one stream; `prompt` is the whole prompt, or only its computed part where the engine counts no other."""

    prompt: int
    output: int

    def minus(self, other: _Sums) -> _Sums:
        return _Sums(prompt=self.prompt - other.prompt, output=self.output - other.output)

    @property
    def residual(self) -> int:
        return abs(self.prompt) + abs(self.output)


def _agent_relay(evidence: Evidence) -> Measured:
    if not evidence.asked and not evidence.claims:
        return absent("there was no request" if evidence.ran else NO_RUN)
    if nothing := no_relay(evidence):
        return absent(nothing)
    if evidence.uncounted:
        return absent(_UNCOUNTED)
    pairs, alone = told_twice(evidence)
    residual = sum(one.apart for one in pairs) + sum(count or 0 for one in alone for count in one.counts)
    untold = sum(count is None for one in alone for count in one.counts)
    partly = sum(None in (*one.prompts, *one.outputs) for one in pairs)
    includes = joined(
        f"{len(alone)} stand alone" if alone else None,
        f"{untold} of their counts were not reported" if untold else None,
        f"{partly} of {len(pairs)} pairs compared in part only, for want of counts" if partly else None,
    )
    return Measured(value=residual, n=len(pairs) + len(alone), includes=includes)


def _difference(pairs: Iterable[tuple[int | None, int | None]]) -> int:
    return sum(abs(one - other) for one, other in pairs if one is not None and other is not None)


def _relay_engine(evidence: Evidence) -> Measured:
    if nothing := no_relay(evidence):
        return absent(nothing)
    if not evidence.summaries:
        return _against_engine(evidence, agent=False)
    matching = match_summaries(evidence.requests, evidence.summaries)
    requests = {(one.session, one.index): one for one in evidence.requests}
    residual = 0
    for match in matching.matches:
        seen = None if match.session is None or match.index is None else requests[match.session, match.index]
        if seen is not None and match.summary is not None:
            pairs = (
                (seen.prompt_tokens, match.summary.prompt_tokens),
                (seen.output_tokens, match.summary.output_tokens),
            )
            residual += _difference(pairs)
        else:
            residual += (_asked([seen]) if seen else _logged([match.summary] if match.summary else [])).residual
    parts = [f"{count} summaries alone: {why}" for why, count in matching.unassigned_summaries.items()]
    parts += [f"{count} requests alone: {why}" for why, count in matching.unassigned_others.items()]
    return Measured(value=residual, n=len(matching.matches), includes=joined(*parts), source="engine-log")


def _agent_engine(evidence: Evidence) -> Measured:
    return _against_engine(evidence, agent=True)


@dataclass(frozen=True, kw_only=True)
class _EngineStream:
    """What the engine says of all that it served."""

    sums: _Sums
    computed: bool
    """Of the prompts only what was computed."""

    source: SourceClass
    n: int
    """Summaries of the log, or readings of the counters."""


def _against_engine(evidence: Evidence, *, agent: bool) -> Measured:
    """The engine's sums minus those of what the agent claims, or of what passed the relay, the preflight included."""
    if not evidence.ran:
        return absent(NO_RUN)
    if agent and evidence.uncounted:
        return absent(_UNCOUNTED)
    engine = _engine_stream(evidence)
    if isinstance(engine, str):
        return absent(engine)
    silent = untold = mute = 0
    if agent:
        claims = evidence.split_claims if engine.computed else evidence.claims
        other = _claimed(claims, computed=engine.computed)
        preflight = _asked((one for one in evidence.requests if one.session == 0), computed=engine.computed)
        left = engine.sums.minus(preflight).minus(other)
        silent = sum(one.input_tokens is None and one.error is None for one in claims)
        untold = sum(one.output_tokens is None and one.error is None for one in claims)
        if silent:  # what the agent does not tell is no difference
            left = _Sums(prompt=0, output=left.output)
    else:
        left = engine.sums.minus(_asked(evidence.requests, computed=engine.computed))
        whole = [one for one in evidence.requests if one.error is None and one.path != MODELS_PATH]
        mute = sum(None in (one.prompt_tokens, one.output_tokens) for one in whole)
    told = f"engine minus {'agent' if agent else 'relay'}: {left.prompt:+,} prompt, {left.output:+,} output"
    return Measured(
        value=left.residual,
        n=engine.n,
        includes=joined(
            f"output tokens only: {silent} of {len(evidence.claims)} responses tell no fresh input" if silent else None,
            f"{untold} of {len(evidence.claims)} responses tell no output" if untold else None,
            f"{mute} requests do not report their tokens" if mute else None,
            "computed part of the prompts only" if engine.computed and not silent else None,
            told if left.residual else None,
        ),
        source=engine.source,
    )


def _engine_stream(evidence: Evidence) -> _EngineStream | str:
    """The engine's stream from its log, else from its counters; or why there is none."""
    if evidence.summaries:
        return _EngineStream(
            sums=_logged(evidence.summaries), computed=False, source="engine-log", n=len(evidence.summaries)
        )
    for name, computed in (("prompt_tokens", False), ("computed_prompt_tokens", True)):
        usable = [one for one in evidence.scrapes if name in one.values and "output_tokens" in one.values]
        if usable:
            grown = _growth(usable, name)
            if grown is None:
                return "a counter of the engine fell"
            return _EngineStream(sums=grown, computed=computed, source="engine-counter", n=len(usable))
    return _NO_ENGINE_STREAM


def _growth(readings: Sequence[Scrape], prompt: str) -> _Sums | None:
    """How far the counters came from the first to the last reading of each engine process; None where one fell."""
    grown = {prompt: 0.0, "output_tokens": 0.0}
    ordered = sorted(readings, key=lambda one: (one.engine_process, one.answered_at))
    for before, after in pairwise(ordered):
        if before.engine_process == after.engine_process:
            for name in grown:
                step = after.values[name] - before.values[name]
                if step < 0:
                    return None
                grown[name] += step
    return _Sums(prompt=round(grown[prompt]), output=round(grown["output_tokens"]))


def _logged(summaries: Iterable[EngineSummary]) -> _Sums:
    listed = list(summaries)
    return _Sums(
        prompt=sum(one.prompt_tokens or 0 for one in listed), output=sum(one.output_tokens or 0 for one in listed)
    )


def _asked(requests: Iterable[RequestRecord], *, computed: bool = False) -> _Sums:
    listed = list(requests)
    cached = sum(one.cached_tokens or 0 for one in listed) if computed else 0
    return _Sums(
        prompt=sum(one.prompt_tokens or 0 for one in listed) - cached,
        output=sum(one.output_tokens or 0 for one in listed),
    )


def _claimed(claims: Iterable[UsageRecord], *, computed: bool = False) -> _Sums:
    listed = list(claims)
    cached = 0 if computed else sum(one.cached_tokens or 0 for one in listed)
    return _Sums(
        prompt=sum(one.input_tokens or 0 for one in listed) + cached,
        output=sum(one.output_tokens or 0 for one in listed),
    )


RESIDUALS: Formulas = {
    "residual_agent_relay_tokens": _agent_relay,
    "residual_relay_engine_tokens": _relay_engine,
    "residual_agent_engine_tokens": _agent_engine,
}
