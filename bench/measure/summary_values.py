"""What do the groups of a log pattern mean? Text of a request summary into counts and seconds that can be believed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench.errors import EvidenceError
from bench.records.schema import EngineSummary

COUNTS = (
    "prompt_tokens",
    "computed_prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "drafted_tokens",
    "accepted_tokens",
)
TIMES = ("ttft", "prefill", "decode", "queue")
UNITS = {"seconds": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds in each. A time's group is its name and its unit: `decode_seconds`, `decode_ms`."""

GROUPS = frozenset({"key", "response_id", *COUNTS, *(f"{time}_{unit}" for time in TIMES for unit in UNITS)})

_MOST_TOKENS = 100_000_000
_MOST_SECONDS = 7 * 86_400.0
_ID_CHARACTERS = 200
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+", re.ASCII)
_NUMBER = re.compile(r"\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)


def known_groups(pattern: re.Pattern[str]) -> None:
    """Raises EvidenceError where a pattern has a named group that means nothing."""
    if unknown := sorted(set(pattern.groupindex) - GROUPS):
        raise EvidenceError(
            f"log pattern {pattern.pattern!r}: unknown group '{unknown[0]}'; known: {', '.join(sorted(GROUPS))}"
        )


def summary_of(groups: Mapping[str, str], *, engine_process: int, order: int, line: int) -> EngineSummary | None:
    """One summary; None where it has neither a prompt nor an output count.

    What is no number, negative or absurdly large is None, and so is a part together with its whole where the part is
    the larger one. The prompt is the whole one: where a log counts its cached and computed parts, their sum.
    """
    counts = {name: _count(groups.get(name)) for name in COUNTS}
    prompt, cached = _prompt(counts["prompt_tokens"], counts["computed_prompt_tokens"], counts["cached_tokens"])
    drafted, accepted = counts["drafted_tokens"], counts["accepted_tokens"]
    if drafted is not None and accepted is not None and accepted > drafted:
        drafted = accepted = None
    if prompt is None and counts["output_tokens"] is None:
        return None
    return EngineSummary(
        engine_process=engine_process,
        order=order,
        line=line,
        response_id=(groups.get("response_id") or "")[:_ID_CHARACTERS] or None,
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=counts["output_tokens"],
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        ttft_seconds=_seconds(groups, "ttft"),
        prefill_seconds=_seconds(groups, "prefill"),
        decode_seconds=_seconds(groups, "decode"),
        queue_seconds=_seconds(groups, "queue"),
    )


def _prompt(prompt: int | None, computed: int | None, cached: int | None) -> tuple[int | None, int | None]:
    """The whole prompt and its cached part, of whichever two of the three counts there are."""
    if prompt is None and computed is not None and cached is not None:
        prompt = computed + cached
    elif cached is None and prompt is not None and computed is not None:
        cached = prompt - computed
    if prompt is not None and cached is not None and not 0 <= cached <= prompt:
        return None, None
    if prompt is not None and cached is not None and computed is not None and prompt != cached + computed:
        return None, None
    return prompt, cached


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if not text.isascii() or not text.isdecimal() or len(text) > 12:
        return None
    return count if (count := int(text)) <= _MOST_TOKENS else None


def _seconds(groups: Mapping[str, str], time: str) -> float | None:
    for unit, scale in UNITS.items():
        text = groups.get(f"{time}_{unit}")
        if text is not None and _NUMBER.fullmatch(text):
            seconds = float(text) * scale
            return seconds if seconds <= _MOST_SECONDS else None
    return None
