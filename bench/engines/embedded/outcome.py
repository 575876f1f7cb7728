"""What a client is told at the end of an answer: the same figures as the truth's, whatever the API calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.engines.embedded.truth_log import TruthLine


@dataclass(frozen=True, kw_only=True)
class Usage:
    prompt_tokens: int
    """Cached ones included."""

    cached_tokens: int
    output_tokens: int
    """Reasoning included."""

    reasoning_tokens: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    finish_reason: str
    """`stop`, `tool_calls` or `length`."""

    usage: Usage | None
    """None, as with `timings`: not told."""

    timings: dict[str, Any] | None
    """Milliseconds and counts, named as llama.cpp's server names its own."""


def outcome_of(line: TruthLine, finish_reason: str) -> Outcome:
    """Of a request that was served; what it did not come to counts as 0."""
    prompt, cached, output = line.prompt_tokens or 0, line.cached_tokens or 0, line.output_tokens or 0
    usage = Usage(
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
        reasoning_tokens=line.reasoning_tokens or 0,
    )
    timings = {
        "queue_ms": _milliseconds(line.queue_seconds),
        "ttft_ms": _milliseconds(line.ttft_seconds),
        "prompt_n": prompt - cached,
        "cache_n": cached,
        "prompt_ms": _milliseconds(line.prefill_seconds),
        "predicted_n": output,
        "predicted_ms": _milliseconds(line.decode_seconds),
        "draft_n": line.drafted_tokens,
        "draft_n_accepted": line.accepted_tokens,
    }
    return Outcome(finish_reason=finish_reason, usage=usage, timings=timings)


def _milliseconds(seconds: float | None) -> float:
    return round((seconds or 0.0) * 1e3, 3)
