"""Which of an agent's cached counts of 0 were told at all? Agents write 0, too, where the engine reports no such count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.records.schema import Match, RequestRecord, UsageRecord


def without_untold_zeros(
    claims: Sequence[UsageRecord], requests: Iterable[RequestRecord], matches: Iterable[Match]
) -> tuple[UsageRecord, ...]:
    """The claims in their order; cached and fresh tokens are None where a 0 stands for a count that no answer told.

    The whole prompt is then known, but not how it splits. A claim that is matched with requests is judged by those,
    one that stands alone by the served requests of its session: none of them told one.
    """
    asked = {(one.session, one.index): one for one in requests}
    meant: dict[tuple[int, int], list[RequestRecord]] = {}
    for match in matches:
        if match.request_index is not None and match.usage_index is not None:
            seen = asked[match.session, match.request_index]
            meant.setdefault((match.session, match.usage_index), []).append(seen)
    served = {one.session for one in asked.values() if one.error is None}
    telling = {one.session for one in asked.values() if one.cached_tokens is not None}
    believed = []
    for claim in claims:
        seen_of = meant.get((claim.session, claim.index))
        alone_untold = claim.session in served - telling
        untold = any(one.cached_tokens is None for one in seen_of) if seen_of else alone_untold
        zero = claim.cached_tokens == 0
        believed.append(replace(claim, input_tokens=None, cached_tokens=None) if zero and untold else claim)
    return tuple(believed)
