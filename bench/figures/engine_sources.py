"""Which engine gives which figure, and from where? Read off the profiles; docs/measures.md prints it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.engines.profile import ProfileFile
from bench.records.schema import SourceClass

NEEDED: Mapping[str, tuple[str, ...]] = {
    "`ttft_*`": ("ttft_seconds",),
    "`decode_*`": ("decode_seconds",),
    "`draft_acceptance`": ("drafted_tokens", "accepted_tokens"),
    "`prompt_cache_share`": ("cached_tokens",),
}
"""Figures -> the quantities of a request that they need besides its prompt and output tokens."""


@dataclass(frozen=True, kw_only=True)
class EngineSources:
    """One engine's row."""

    title: str
    checked: str
    sources: Mapping[str, tuple[SourceClass, ...]]
    """Figures -> where their numbers may come from, the first one first; empty: they are null."""

    null: Mapping[str, str]
    """Quantity that the engine does not tell -> why."""


def sources_of(profile: ProfileFile) -> EngineSources:
    """What a profile promises. Cached tokens are read from the answer's usage, or told by what was computed."""
    answered: set[str] = {*profile.response_fields}
    if "cached_tokens" not in profile.unavailable:
        answered.add("cached_tokens")
    places: tuple[tuple[SourceClass, set[str]], ...] = (
        ("engine-response", answered),
        ("engine-counter", {*(profile.metrics.series if profile.metrics else ())} - {"cached_tokens"}),
        ("engine-log", {*(profile.log_summary.quantities if profile.log_summary else ())} - {"cached_tokens"}),
    )
    return EngineSources(
        title=profile.title,
        checked=profile.checked,
        sources={
            figures: tuple(source for source, told in places if told.issuperset(needed))
            for figures, needed in NEEDED.items()
        },
        null={name: why for name, why in profile.unavailable.items() if any(name in one for one in NEEDED.values())},
    )
