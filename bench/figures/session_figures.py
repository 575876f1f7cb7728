"""What did it take: time, sessions, responses, tool calls?"""

from __future__ import annotations

from math import fsum
from typing import Literal

from bench.contracts import Role
from bench.figures.measured import Formula, Formulas, Measured, absent, joined, missing, no_relay
from bench.figures.run_evidence import Evidence
from bench.figures.told_twice import told_twice
from bench.records.schema import SourceClass

NO_RUN = "no agent ran: only a project was scored"


def _run_elapsed(evidence: Evidence) -> Measured:
    if not evidence.segments:
        return absent("nobody wrote down when the sessions ran" if evidence.ran else NO_RUN)
    if evidence.clock_step is not None:
        return absent(evidence.clock_step, len(evidence.segments))
    return Measured(
        value=fsum(segment.seconds for segment in evidence.segments),
        n=len(evidence.segments),
        includes=joined("waits after engine errors included, time spent blocked excluded", _cut(evidence)),
    )


def _cut(evidence: Evidence) -> str | None:
    """Of a segment that died with the harness nobody wrote down the end."""
    cut = [str(segment.segment) for segment in evidence.segments if segment.ended_at is None]
    return f"segment {', '.join(cut)} was cut and counts to the last thing that was written" if cut else None


def _agent_sessions(role: Role | None) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        if not evidence.ran:
            return absent(NO_RUN)
        sessions = [one for one in evidence.agent_sessions if role in (None, one.role)]
        return Measured(value=len(sessions), n=len(evidence.agent_sessions))

    return compute


def _engine_error_sessions(evidence: Evidence) -> Measured:
    if not evidence.ran:
        return absent(NO_RUN)
    ended = [one for one in evidence.agent_sessions if one.outcome == "engine-error"]
    by_segment = [sum(one.segment == segment.segment for one in ended) for segment in evidence.segments]
    parts = [
        f"{count} in segment {segment.segment}" for count, segment in zip(by_segment, evidence.segments, strict=True)
    ]
    return Measured(value=len(ended), n=len(evidence.agent_sessions), includes=", ".join(parts) if ended else None)


def _model_responses(evidence: Evidence) -> Measured:
    if not evidence.claims:
        return absent("the agent reports no response" if evidence.ran else NO_RUN)
    errors = sum(claim.error is not None for claim in evidence.claims)
    includes = f"{errors} error responses included" if errors else None
    return Measured(value=len(evidence.claims), n=len(evidence.claims), includes=includes)


def _served_requests(evidence: Evidence) -> Measured:
    if not evidence.asked:
        return absent("there was no request" if evidence.ran else NO_RUN)
    failed = len(evidence.asked) - len(evidence.served)
    includes = f"{failed} of {len(evidence.asked)} were not answered whole" if failed else None
    return Measured(value=len(evidence.served), n=len(evidence.asked), includes=includes, source=_seen_by(evidence))


def _seen_by(evidence: Evidence) -> SourceClass:
    """Who counted the requests: the relay, or the engine's log where none stood between."""
    return "engine-log" if evidence.counted_by == "engine-log" else "relay"


def _refused_requests(evidence: Evidence) -> Measured:
    if not evidence.ran:
        return absent(NO_RUN)
    if nothing := no_relay(evidence):
        return absent(nothing)
    if evidence.refused is None:
        return absent("the relay's count of refused requests was not kept")
    return Measured(value=evidence.refused, n=len(evidence.asked) + evidence.refused)


def _requests_begun(state: Literal["cold", "salted", "warm"]) -> Formula:
    """Requests in segments of which it is known how the cache was when they began."""

    def compute(evidence: Evidence) -> Measured:
        if not evidence.ran:
            return absent(NO_RUN)
        states = {row.segment: row.cache.partition(":")[0] for row in evidence.segments if row.cache is not None}
        if not states:
            return absent("no segment says how the engine's cache was when it began")
        segment_of = {row.session: row.segment for row in evidence.agent_sessions}
        known = [states[number] for one in evidence.asked if (number := segment_of.get(one.session)) in states]
        unknown = missing(len(evidence.asked) - len(known), evidence.asked, "requests' segments")
        return Measured(value=known.count(state), n=len(known), includes=unknown)

    return compute


def _matched_requests(evidence: Evidence) -> Measured:
    if not evidence.asked and not evidence.claims:
        return absent("there was no request" if evidence.ran else NO_RUN)
    pairs, alone = told_twice(evidence)
    whole = [one for one in pairs if one.claim.error is None and all(seen.error is None for seen in one.requests)]
    matched = sum(len(one.requests) for one in whole)
    disagreeing = sum(one.apart > 0 for one in whole)
    summed = sum(len(one.requests) for one in whole if len(one.requests) > 1)
    repeated = evidence.matching.repeated_keys
    includes = joined(
        f"{len(alone)} requests or claims stand alone" if alone else None,
        f"{disagreeing} pairs disagree on token counts" if disagreeing else None,
        f"{summed} compaction requests are summed up in fewer claims" if summed else None,
        f"{repeated} keys occur more than once, their order forced" if repeated else None,
    )
    return Measured(value=matched, n=len(evidence.asked), includes=includes, source=_seen_by(evidence))


def _unmatched_tokens(evidence: Evidence) -> Measured:
    if not evidence.asked and not evidence.claims:
        return absent("there was no request" if evidence.ran else NO_RUN)
    _, alone = told_twice(evidence)
    counts = [count for one in alone for count in one.counts]
    known = [count for count in counts if count is not None]
    if counts and not known:
        why = f"{len(alone)} stand alone, none with a token count"
        return Measured(value=None, n=len(alone), reason=why, source=_seen_by(evidence))
    unknown = len(counts) - len(known)
    includes = f"{unknown} of their {len(counts)} counts were not reported" if unknown else None
    return Measured(value=sum(known), n=len(alone), includes=includes, source=_seen_by(evidence))


def _told(name: str) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        count = evidence.tool_calls if name == "tool_calls" else evidence.compactions
        if not evidence.ran:
            return absent(NO_RUN)
        if count is None:
            return absent(f"the agent does not report its {name.replace('_', ' ')}")
        return Measured(value=count, n=len(evidence.agent_sessions))

    return compute


SESSIONS: Formulas = {
    "run_elapsed": _run_elapsed,
    "agent_sessions": _agent_sessions(None),
    "agent_sessions_bootstrap": _agent_sessions("bootstrap"),
    "agent_sessions_builder": _agent_sessions("builder"),
    "agent_sessions_reviewer": _agent_sessions("reviewer"),
    "agent_sessions_replan": _agent_sessions("replan"),
    "agent_sessions_final_reviewer": _agent_sessions("final-reviewer"),
    "agent_sessions_session": _agent_sessions("session"),
    "engine_error_sessions": _engine_error_sessions,
    "model_responses": _model_responses,
    "served_requests": _served_requests,
    "refused_requests": _refused_requests,
    "requests_begun_cold": _requests_begun("cold"),
    "requests_begun_salted": _requests_begun("salted"),
    "requests_begun_warm": _requests_begun("warm"),
    "matched_requests": _matched_requests,
    "unmatched_tokens": _unmatched_tokens,
    "tool_calls": _told("tool_calls"),
    "compactions": _told("compactions"),
}
