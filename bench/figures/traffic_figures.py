"""What were the requests for, and which of them came to nothing?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bench.figures.measured import Formula, Formulas, Measured, absent, joined, missing, no_relay
from bench.figures.run_evidence import Evidence
from bench.figures.session_figures import NO_RUN
from bench.measure.purpose import LENGTH_STOPS
from bench.records.schema import Purpose, RequestRecord

_BROKEN_OFF = "aborted"
"""How the relay's sentence begins where the client went away."""


def _nothing(evidence: Evidence) -> str | None:
    """Why no request of the relay's can be counted; None where some can."""
    if not evidence.asked:
        return "there was no request" if evidence.ran else NO_RUN
    return no_relay(evidence)


def _of_purpose(purpose: Purpose) -> Formula:
    return _counted(lambda one: one.purpose == purpose)


def _counted(meant: Callable[[RequestRecord], bool]) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        if nothing := _nothing(evidence):
            return absent(nothing)
        found = [one for one in evidence.asked if meant(one)]
        return Measured(value=len(found), n=len(evidence.asked), includes=_their_tokens(found))

    return compute


def _their_tokens(requests: Sequence[RequestRecord]) -> str | None:
    """`3,619 prompt and 20 output tokens`, and of how many that is not known; None where there are none."""
    if not requests:
        return None
    prompts = [one.prompt_tokens for one in requests if one.prompt_tokens is not None]
    outputs = [one.output_tokens for one in requests if one.output_tokens is not None]
    if not prompts and not outputs:
        return "tokens not reported"
    silent = sum(one.prompt_tokens is None or one.output_tokens is None for one in requests)
    return joined(
        f"{sum(prompts):,} prompt and {sum(outputs):,} output tokens", missing(silent, requests, "of them in full")
    )


def _length_stops(evidence: Evidence) -> Measured:
    if nothing := _nothing(evidence):
        return absent(nothing)
    cut = [one for one in evidence.served if one.finish_reason in LENGTH_STOPS]
    return Measured(value=len(cut), n=len(evidence.served), includes=_their_tokens(cut))


def _overflow_requests(evidence: Evidence) -> Measured:
    if nothing := _nothing(evidence):
        return absent(nothing)
    patterns = [re.compile(one) for one in evidence.profile.context_errors] if evidence.profile else []
    windows = _windows(evidence)
    refused = [
        one for one in evidence.asked if one.error is not None and any(say.search(one.error) for say in patterns)
    ]
    over = [
        one
        for one in evidence.asked
        if one.error is None and (one.prompt_tokens or 0) > windows.get(one.session, float("inf"))
    ]
    includes = f"{len(over)} of them were answered, their prompts reported longer than the window" if over else None
    return Measured(value=len(refused) + len(over), n=len(evidence.asked), includes=includes)


def _windows(evidence: Evidence) -> dict[int, int]:
    """Session -> tokens that the engine granted to one request in its segment, where that is known."""
    granted: list[int | None] = []
    for entry in evidence.journal:
        if entry.event == "segment-started":
            configuration = entry.detail.get("configuration")
            engine = configuration.get("engine") if isinstance(configuration, dict) else None
            window = engine.get("context_window") if isinstance(engine, dict) else None
            granted.append(window if type(window) is int else None)
    return {
        row.session: window
        for row in evidence.agent_sessions
        if row.segment <= len(granted) and (window := granted[row.segment - 1]) is not None
    }


def _agent_retries(evidence: Evidence) -> Measured:
    if not evidence.ran:
        return absent(NO_RUN)
    if evidence.retries is None:
        return absent("the agent does not report its retries")
    return Measured(value=evidence.retries, n=len(evidence.agent_sessions))


def _tokens_on_failures(evidence: Evidence) -> Measured:
    if nothing := _nothing(evidence):
        return absent(nothing)
    failed = [one for one in evidence.asked if one.error is not None]
    counts = [count for one in failed for count in (one.prompt_tokens, one.output_tokens)]
    known = [count for count in counts if count is not None]
    if failed and not known:
        return absent(f"none of {len(failed)} failed requests reports a count", len(failed))
    unknown = len(counts) - len(known)
    includes = f"{unknown} of their {len(counts)} counts were not reported" if unknown else None
    return Measured(value=sum(known), n=len(failed), includes=includes)


TRAFFIC: Formulas = {
    "retried_requests": _of_purpose("retry"),
    "side_requests": _of_purpose("side"),
    "compaction_requests": _of_purpose("compaction"),
    "aborted_requests": _counted(lambda one: (one.error or "").startswith(_BROKEN_OFF)),
    "length_stops": _length_stops,
    "overflow_requests": _overflow_requests,
    "agent_retries": _agent_retries,
    "tokens_on_failures": _tokens_on_failures,
}
