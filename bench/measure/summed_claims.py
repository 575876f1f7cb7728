"""Which requests does a claim for a compaction speak of?

Agents give such claims no response id, and may sum several calls up in one. Their place between the responses that are
paired already tells which calls they can mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.records.schema import RequestRecord, UsageRecord

COMPACTION = "compaction"
"""Purpose of a request, and stop reason of a claim, of a call that summed the conversation up."""

_MEANT = (COMPACTION, "retry")
"""A summary that was asked for again counts as a retry."""


@dataclass(frozen=True, kw_only=True)
class Summed:
    """What could be said of the compactions of one session."""

    rows: Mapping[int, tuple[int, ...]]
    """Position of a claim -> positions of the requests that it speaks of."""

    why: Mapping[int, str]
    """Position of a claim that speaks of none that could be told -> why."""


def summed_claims(requests: Sequence[RequestRecord], claims: Sequence[UsageRecord], partner: Sequence[int]) -> Summed:
    """Joins compaction claims with compaction requests that stand alone, both of one session.

    `requests` in the order of their ends, `claims` in the agent's order; `partner` is position of a request ->
    position of its claim, below 0: it stands alone. Between two responses that are paired, claims take requests in
    order: as many as sum up to the claim's counts; a single claim takes a single request whatever their counts.
    """
    rows: dict[int, tuple[int, ...]] = {}
    why: dict[int, str] = {}
    for columns, between in _gaps(requests, claims, partner):
        found = _shared_out(columns, between, requests, claims)
        rows.update(found)
        for column in columns:
            if column not in found:
                why[column] = (
                    f"compaction: its counts are no sum of the {len(between)} compaction requests there"
                    if between
                    else "compaction: the relay saw no such request there"
                )
    return Summed(rows=rows, why=why)


def _gaps(
    requests: Sequence[RequestRecord], claims: Sequence[UsageRecord], partner: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Lonely compaction claims between two paired responses, and the lonely compaction requests between the same two."""
    row_of = {column: row for row, column in enumerate(partner) if column >= 0}
    alone = [
        row
        for row, one in enumerate(requests)
        if partner[row] < 0 and one.purpose in _MEANT and one.error is None and one.prompt_tokens is not None
    ]
    columns: list[int] = []
    low = -1
    for column, claim in enumerate(claims):
        if column in row_of:
            if columns:
                yield columns, [row for row in alone if low < row < row_of[column]]
            columns, low = [], max(low, row_of[column])
        elif claim.stop_reason == COMPACTION and claim.error is None:
            columns.append(column)
    if columns:
        yield columns, [row for row in alone if low < row]


def _shared_out(
    columns: Sequence[int], between: Sequence[int], requests: Sequence[RequestRecord], claims: Sequence[UsageRecord]
) -> dict[int, tuple[int, ...]]:
    """Claims with the requests that they take, in order."""
    if len(columns) == len(between) == 1:
        return {columns[0]: (between[0],)}
    found: dict[int, tuple[int, ...]] = {}
    start = 0
    for column in columns:
        for begin in range(start, len(between)):
            end = _end_of_sum(claims[column], [requests[row] for row in between[begin:]])
            if end is not None:
                found[column] = tuple(between[begin : begin + end])
                start = begin + end
                break
    return found


def _end_of_sum(claim: UsageRecord, requests: Sequence[RequestRecord]) -> int | None:
    """How many of the requests, from the first, sum up to the claim's counts; None where no number of them does."""
    if claim.input_tokens is None or claim.output_tokens is None:
        return None
    prompt, output = claim.input_tokens + (claim.cached_tokens or 0), claim.output_tokens
    for count, one in enumerate(requests, 1):
        if one.prompt_tokens is None or one.output_tokens is None:
            return None
        prompt, output = prompt - one.prompt_tokens, output - one.output_tokens
        if prompt == output == 0:
            return count
        if prompt < 0 or output < 0:
            return None
    return None
