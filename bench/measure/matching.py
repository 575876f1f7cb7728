"""Which request of the relay and which claim of the agent speak of the same response? By response id, in one session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.records.schema import Match, RequestRecord, UsageRecord

_UNSEEN = "no request of this session was answered with this id"
_UNCLAIMED = "the agent claims no response with this id"


def match_requests(requests: Sequence[RequestRecord], usage: Sequence[UsageRecord]) -> tuple[Match, ...]:
    """Pairs first, then what stands alone on either side, each with its reason.

    An id that occurs twice on one side within a session proves nothing: those stay alone.
    """
    asked: Counter[tuple[int, str | None]] = Counter(
        (one.session, one.response_id) for one in requests if one.response_id is not None
    )
    claimed: Counter[tuple[int, str | None]] = Counter(
        (one.session, one.response_id) for one in usage if one.response_id is not None
    )
    by_key = {(one.session, one.response_id): one for one in usage}
    pairs, left = [], []
    for request in requests:
        key = (request.session, request.response_id)
        if asked[key] == claimed[key] == 1:
            pairs.append(
                Match(
                    session=request.session,
                    request_index=request.index,
                    usage_index=by_key[key].index,
                    how="response-id",
                )
            )
        else:
            why = _why_alone(request.response_id, request.error, asked[key], claimed[key], _UNCLAIMED)
            left.append(_alone(request.session, request=request.index, why=why))
    for claim in usage:
        key = (claim.session, claim.response_id)
        if not asked[key] == claimed[key] == 1:
            why = _why_alone(claim.response_id, claim.error, asked[key], claimed[key], _UNSEEN)
            left.append(_alone(claim.session, usage=claim.index, why=why))
    return (*pairs, *left)


def _why_alone(response_id: str | None, error: str | None, asked: int, claimed: int, otherwise: str) -> str:
    if response_id is None:
        return f"no response id: {error}" if error else "no response id"
    if asked > 1 or claimed > 1:
        return f"the id occurs {asked} times at the relay and {claimed} times at the agent"
    return otherwise


def _alone(session: int, *, why: str, request: int | None = None, usage: int | None = None) -> Match:
    return Match(session=session, request_index=request, usage_index=usage, how="unmatched", reason=why)
