"""Which request of the relay, claim of the agent and summary of the engine's log speak of the same response?

By response id, where both sides know the same ids; else by token counts, in the order in which both sides say that the requests ended, and only where that
order leaves no other choice. What stands alone is listed with a reason whose first words, up to a colon, are its kind.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Literal, TypeVar

from bench.measure.pairing import Paired, Side, pair
from bench.measure.summed_claims import summed_claims
from bench.records.schema import EngineSummary, Match, RequestRecord, UsageRecord

How = Literal["response-id", "forced-order", "unmatched"]
Span = tuple[float, float]
Named = RequestRecord | UsageRecord | EngineSummary
Left = TypeVar("Left")
Right = TypeVar("Right")

_NO_SUMMARY = "the engine's log has no such summary"


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryMatch:
    """A summary of the engine's log and the request or claim that it speaks of, or one of them alone and why."""

    session: int | None
    index: int | None
    """Of the request at the relay, or of the claim where no relay saw it; None: the summary stands alone."""

    summary: EngineSummary | None
    how: How
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClaimMatching:
    """Requests of the relay and claims of the agent: pairs first, then what stands alone on either side."""

    matches: tuple[Match, ...]
    repeated_keys: int
    """How many token counts occur more than once among the pairs that order forced."""

    @property
    def unassigned(self) -> Mapping[str, int]:
        """Kind of reason -> how many stand alone for it."""
        return _kinds(match.reason for match in self.matches)


@dataclass(frozen=True, kw_only=True)
class SummaryMatching:
    """Requests, or claims, and summaries: pairs first, then what stands alone on either side."""

    matches: tuple[SummaryMatch, ...]
    repeated_keys: int

    @cached_property
    def summaries(self) -> Mapping[tuple[int, int], EngineSummary]:
        """(session, index) of a request or claim -> its summary."""
        return {
            (match.session, match.index): match.summary
            for match in self.matches
            if match.session is not None and match.index is not None and match.summary is not None
        }

    @property
    def unassigned_summaries(self) -> Mapping[str, int]:
        """Kind of reason -> how many summaries stand alone for it."""
        return _kinds(match.reason for match in self.matches if match.session is None)

    @property
    def unassigned_others(self) -> Mapping[str, int]:
        """Kind of reason -> how many requests, or claims, stand alone for it."""
        return _kinds(match.reason for match in self.matches if match.session is not None)


def match_requests(requests: Sequence[RequestRecord], usage: Sequence[UsageRecord]) -> tuple[Match, ...]:
    """The matches of `match_claims`."""
    return match_claims(requests, usage).matches


def match_claims(requests: Sequence[RequestRecord], claims: Sequence[UsageRecord]) -> ClaimMatching:
    """Pairs requests of the relay with claims of the agent, session by session."""
    ended = sorted(requests, key=lambda one: (one.session, _answered_at(one), one.index))
    told = sorted(claims, key=lambda one: one.session)
    with_ids, with_cached = _same_ids(ended, told), _both(ended, told)
    matches: list[Match] = []
    left: list[Match] = []
    repeated = 0
    for session, mine, theirs in _scopes(ended, told, lambda one: one.session, lambda one: one.session):
        found = pair(_requests_side(mine, with_ids, with_cached), _claims_side(theirs, with_ids, with_cached))
        repeated += found.repeated_keys
        summed = summed_claims(mine, theirs, found.partner)
        column_of = {row: column for row, column in enumerate(found.partner) if column >= 0}
        column_of.update((row, column) for column, rows in summed.rows.items() for row in rows)
        taken = set(column_of.values())
        for row, request in enumerate(mine):
            if (column := column_of.get(row, -1)) >= 0:
                several = len(summed.rows.get(column, ())) > 1
                matches.append(
                    Match(
                        session=session,
                        request_index=request.index,
                        usage_index=theirs[column].index,
                        how="response-id" if row in found.by_id else "summed" if several else "forced-order",
                    )
                )
            else:
                why = found.why_left.get(row) or _why_request(request, "the agent claims no such response")
                left.append(_alone(session, request=request.index, why=why))
        for place, claim in enumerate(theirs):
            if place not in taken:
                otherwise = summed.why.get(place, "the relay saw no such response")
                why = found.why_right.get(place) or _why_claim(claim, theirs, place, otherwise)
                left.append(_alone(session, usage=claim.index, why=why))
    return ClaimMatching(matches=(*matches, *left), repeated_keys=repeated)


def match_summaries(requests: Sequence[RequestRecord], summaries: Sequence[EngineSummary]) -> SummaryMatching:
    """Pairs requests of the relay, those of the preflight included, with the summaries of the engine that served them."""
    ended = sorted(requests, key=lambda one: (one.engine_process, _answered_at(one), one.session, one.index))
    told = sorted(summaries, key=lambda one: (one.engine_process, one.order))
    with_ids, with_cached = _same_ids(ended, told), _both(ended, told)
    collected = _Collected()
    for _, mine, theirs in _scopes(ended, told, lambda one: one.engine_process, lambda one: one.engine_process):
        found = pair(_requests_side(mine, with_ids, with_cached), _summaries_side(theirs, with_ids, with_cached))
        collected.add(found, mine, theirs, _why_requests(mine), lambda _: 0)
    return collected.result()


def match_claims_to_summaries(
    claims: Sequence[UsageRecord],
    summaries: Sequence[EngineSummary],
    *,
    spans: Sequence[Span] | None = None,
    segment_of: Callable[[int], int] = lambda _: 0,
) -> SummaryMatching:
    """Pairs what an agent claims with what an engine's log says, where no relay stood between them.

    `claims` stand in the order in which the responses ended, `spans` say when each began and ended where sessions may
    have run side by side. `segment_of` gives a session's segment: a summary between two of them belongs to neither.
    """
    told = sorted(summaries, key=lambda one: (one.engine_process, one.order))
    with_ids, with_cached = _same_ids(claims, told), _both(claims, told)
    found = pair(_claims_side(claims, with_ids, with_cached, spans), _summaries_side(told, with_ids, with_cached))
    collected = _Collected()
    collected.add(found, claims, told, lambda row: _why_claim(claims[row], claims, row, _NO_SUMMARY), segment_of)
    return collected.result()


# --- sides ---------------------------------------------------------------------------------------------------------


def _scopes(
    left: Sequence[Left], right: Sequence[Right], left_of: Callable[[Left], int], right_of: Callable[[Right], int]
) -> Iterator[tuple[int, Sequence[Left], Sequence[Right]]]:
    """The entries of one session, or of one engine process, on both sides; both lists are sorted by it."""
    lefts = {scope: list(mine) for scope, mine in groupby(left, left_of)}
    rights = {scope: list(theirs) for scope, theirs in groupby(right, right_of)}
    for scope in sorted({*lefts, *rights}):
        yield scope, lefts.pop(scope, ()), rights.pop(scope, ())


def _requests_side(requests: Sequence[RequestRecord], with_ids: bool, with_cached: bool) -> Side:
    return Side(
        ids=_ids(requests, with_ids),
        keys=(_key(one.prompt_tokens, one.output_tokens, one.cached_tokens, with_cached) for one in requests),
        begins=array("d", (one.sent_at for one in requests)),
        ends=array("d", (_answered_at(one) for one in requests)),
    )


def _answered_at(one: RequestRecord) -> float:
    """When the answer was whole: a connection may end later than that of the next answer does."""
    if one.streamed and one.error is None and one.last_token_at is not None:
        return one.last_token_at
    return one.ended_at


def _claims_side(
    claims: Sequence[UsageRecord], with_ids: bool, with_cached: bool, spans: Sequence[Span] | None = None
) -> Side:
    return Side(
        ids=_ids(claims, with_ids),
        keys=(_claim_key(one, with_cached) for one in claims),
        begins=None if spans is None else array("d", (begin for begin, _ in spans)),
        ends=None if spans is None else array("d", (end for _, end in spans)),
    )


def _summaries_side(summaries: Sequence[EngineSummary], with_ids: bool, with_cached: bool) -> Side:
    return Side(
        ids=_ids(summaries, with_ids),
        keys=(_key(one.prompt_tokens, one.output_tokens, one.cached_tokens, with_cached) for one in summaries),
    )


def _same_ids(one: Sequence[Named], other: Sequence[Named]) -> bool:
    """Whether both sides name responses alike. Engines log ids of their own that no answer shows; those say nothing."""
    known = {item.response_id for item in other}
    return any(item.response_id is not None and item.response_id in known for item in one)


def _ids(entries: Sequence[Named], with_ids: bool) -> list[str | None] | None:
    return [one.response_id for one in entries] if with_ids else None


def _both(one: Sequence[RequestRecord | UsageRecord], other: Sequence[UsageRecord | EngineSummary]) -> bool:
    """Whether both sides tell cached tokens at all; where one does not, whole prompt and output must do."""
    return any(item.cached_tokens is not None for item in one) and any(item.cached_tokens is not None for item in other)


def _claim_key(one: UsageRecord, with_cached: bool) -> int | None:
    if one.error is not None or one.input_tokens is None or one.cached_tokens is None:
        return None
    return _key(one.input_tokens + one.cached_tokens, one.output_tokens, one.cached_tokens, with_cached)


def _key(prompt: int | None, output: int | None, cached: int | None, with_cached: bool) -> int | None:
    """The counts as one number, which takes half the room of a tuple; none of them is over 32 bits long."""
    if prompt is None or output is None or (with_cached and cached is None):
        return None
    return (prompt << 64) | (output << 32) | (cached if with_cached and cached is not None else 0)


# --- what stands alone ---------------------------------------------------------------------------------------------


def _kinds(reasons: Iterable[str | None]) -> Mapping[str, int]:
    return Counter(reason.partition(":")[0] for reason in reasons if reason)


def _alone(session: int, *, why: str, request: int | None = None, usage: int | None = None) -> Match:
    return Match(session=session, request_index=request, usage_index=usage, how="unmatched", reason=why)


def _why_request(request: RequestRecord, otherwise: str) -> str:
    if request.error is not None:
        kind = "aborted" if request.error.startswith("aborted") else "error response"
        return f"{kind}: {request.error}"
    if request.session == 0:
        return "preflight"
    if request.prompt_tokens is None or request.output_tokens is None:
        return "no token counts: the answer has none"
    return otherwise


def _why_requests(requests: Sequence[RequestRecord]) -> Callable[[int], str]:
    return lambda row: _why_request(requests[row], _NO_SUMMARY)


def _why_claim(claim: UsageRecord, claims: Sequence[UsageRecord], place: int, otherwise: str) -> str:
    if claim.error is not None:
        again = any(one.session == claim.session for one in claims[place + 1 : place + 2])
        kind = "aborted" if claim.stop_reason == "aborted" else "error response"
        return f"{kind}, retried: {claim.error}" if again else f"{kind}: {claim.error}"
    if claim.input_tokens is None or claim.cached_tokens is None or claim.output_tokens is None:
        return "no token counts: the agent gives none"
    return otherwise


class _Collected:
    """Pairs and leftovers of one engine process after the other."""

    def __init__(self) -> None:
        self._pairs: list[SummaryMatch] = []
        self._alone: list[SummaryMatch] = []
        self._repeated = 0

    def add(
        self,
        found: Paired,
        others: Sequence[RequestRecord | UsageRecord],
        told: Sequence[EngineSummary],
        why_other: Callable[[int], str],
        segment_of: Callable[[int], int],
    ) -> None:
        sessions: list[int | None] = [None] * len(told)
        for row, other in enumerate(others):
            if (column := found.partner[row]) >= 0:
                sessions[column] = other.session
                how: How = "response-id" if row in found.by_id else "forced-order"
                self._pairs.append(
                    SummaryMatch(session=other.session, index=other.index, summary=told[column], how=how)
                )
            else:
                why = found.why_left.get(row) or why_other(row)
                self._alone.append(
                    SummaryMatch(session=other.session, index=other.index, summary=None, how="unmatched", reason=why)
                )
        for column, why in _lonely_summaries(told, sessions, segment_of).items():
            reason = found.why_right.get(column) or why
            self._alone.append(
                SummaryMatch(session=None, index=None, summary=told[column], how="unmatched", reason=reason)
            )
        self._repeated += found.repeated_keys

    def result(self) -> SummaryMatching:
        return SummaryMatching(matches=(*self._pairs, *self._alone), repeated_keys=self._repeated)


def _lonely_summaries(
    told: Sequence[EngineSummary], sessions: Sequence[int | None], segment_of: Callable[[int], int]
) -> dict[int, str]:
    """Where among the matched ones each summary stands that no request accounts for: position -> what that means."""
    served = {one.engine_process for one, session in zip(told, sessions, strict=True) if session is not None}
    following: list[int | None] = [None] * len(told)
    after: int | None = None
    for column in range(len(told) - 1, -1, -1):
        following[column] = after
        after = after if sessions[column] is None else sessions[column]
    reasons = {}
    before: int | None = None
    for column, one in enumerate(told):
        if sessions[column] is not None:
            before = sessions[column]
            continue
        later = following[column]
        if one.prompt_tokens is None or one.output_tokens is None:
            reasons[column] = "no token counts: the request was refused, aborted or cut"
        elif one.engine_process not in served:
            reasons[column] = "another launch: this process of the engine served no session"
        elif before is None:
            reasons[column] = "before the first request: a preflight, or another client"
        elif later is None:
            reasons[column] = "after the last request: another client"
        elif segment_of(before) != segment_of(later):
            reasons[column] = "between two segments: a preflight, or another client"
        else:
            reasons[column] = "another client: between requests of the sessions"
    return reasons
