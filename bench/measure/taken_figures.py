"""Which figures does a request take from counters or a log that it does not have from its own response?

A record has one source for all its timings and one for its draft counts: where the response gave any timing, no other
source adds one, and what it lacks stays None, so that no figure mixes what different sources include.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bench.engine_profile import EngineProfile
from bench.measure.reported import MOST_SECONDS, MOST_TOKENS, MOST_TOKENS_A_SECOND, impossible
from bench.records.schema import RequestRecord

TIMINGS = ("ttft_seconds", "prefill_seconds", "decode_seconds", "queue_seconds")
DRAFTS = ("drafted_tokens", "accepted_tokens")

_ROUNDING_SECONDS = 0.05
_NEXT_REASON = re.compile(r"; (?=[a-z_ ]+: )")


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a source says of one request. Seconds and tokens."""

    source: Literal["engine-counter", "engine-log"]
    values: Mapping[str, float] = field(default_factory=dict)
    """By the names in TIMINGS and DRAFTS; absent: the source does not say."""

    reasons: tuple[str, ...] = ()
    """Why the source says nothing, or not all."""


def lacking(record: RequestRecord) -> tuple[str, ...]:
    """The figures that a record may still take: none of a request that was not answered whole."""
    if record.error is not None:
        return ()
    timed = any(getattr(record, name) is not None for name in TIMINGS)
    return (*(() if timed else TIMINGS), *(DRAFTS if record.draft_source is None else ()))


def take(record: RequestRecord, offer: Offer, profile: EngineProfile) -> RequestRecord:
    """The record with what it lacks and can believe of an offer, and with the reasons for what it still lacks."""
    ceiling = None if profile.simulated else record.ended_at - record.sent_at
    taken: dict[str, Any] = {}
    doubts = []
    for name in lacking(record):
        if (value := offer.values.get(name)) is not None:
            doubt = _doubt(name, value, record, ceiling)
            if doubt is None:
                taken[name] = value if name in TIMINGS else int(value)
            else:
                doubts.append(f"{name}: {doubt}")
    wait = None if record.first_token_at is None else record.first_token_at - record.sent_at
    ttft, decode = taken.get("ttft_seconds"), taken.get("decode_seconds")
    for name, why in impossible(ttft, decode, first_token=wait, ceiling=ceiling).items():
        del taken[name]
        doubts.append(f"{name}: {why}")
    drafted, accepted = taken.get("drafted_tokens"), taken.get("accepted_tokens")
    if drafted is None or accepted is None or accepted > drafted:
        for name in DRAFTS:
            taken.pop(name, None)
        if drafted is not None and accepted is not None:
            doubts.append(f"accepted_tokens: {accepted} is more than the whole, {drafted}")
    reasons = [
        *(reason for reason in _NEXT_REASON.split(record.reason or "") if reason.partition(":")[0] not in taken),
        *doubts,
        *offer.reasons,
    ]
    return replace(
        record,
        **taken,
        source=offer.source if any(name in taken for name in TIMINGS) else record.source,
        draft_source=offer.source if "drafted_tokens" in taken else record.draft_source,
        reason=_joined(reasons),
    )


def _joined(reasons: Iterable[str]) -> str | None:
    return "; ".join(reason for reason in reasons if reason) or None


def _doubt(name: str, value: float, record: RequestRecord, ceiling: float | None) -> str | None:
    """Why a value cannot be what happened; None where it can."""
    if name in DRAFTS:
        return None if 0 <= value <= MOST_TOKENS and value == int(value) else f"{value:g} is no count of tokens"
    if not 0 <= value <= MOST_SECONDS:
        return f"{value:g} s is no duration"
    if ceiling is not None and value > ceiling * 1.01 + _ROUNDING_SECONDS:
        return f"{value:.3f} s is longer than the whole exchange ({ceiling:.3f} s)"
    if name == "decode_seconds" and (record.output_tokens or 0) - 1 > value * MOST_TOKENS_A_SECOND:
        return f"{record.output_tokens} tokens in {value:g} s cannot be"
    computed = (record.prompt_tokens or 0) - (record.cached_tokens or 0)
    if value == 0 and (name == "ttft_seconds" or (name == "prefill_seconds" and computed > 0)):
        return "0 s cannot be"
    return None
