"""What an engine is and reports, as data: the shape of a profile under fixtures/engines/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["s", "ms", "us", "ns", "tokens"]


@dataclass(frozen=True, kw_only=True)
class ResponseField:
    """Where a figure stands in an engine's response: a dotted path from the (last) JSON object, and its unit."""

    path: str
    unit: Unit


Quantity = Literal[
    "prompt_tokens",
    "computed_prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "drafted_tokens",
    "accepted_tokens",
    "ttft_seconds",
    "prefill_seconds",
    "decode_seconds",
    "queue_seconds",
    "finished_requests",
]
"""What an engine may count. `prompt_tokens` is the whole prompt, `computed_prompt_tokens` what the cache did not have;
an engine counts one of them, or both."""


@dataclass(frozen=True, kw_only=True)
class MetricSeries:
    """One counter on a metrics page: the sum over all series of the first name that is there and whose labels agree."""

    names: tuple[str, ...]
    """Sample names as they stand on the page (`x_total`, `y_seconds_sum`), the newest engine version's first."""

    labels: Mapping[str, str] = field(default_factory=dict)
    unit: Unit
    includes: str | None = None
    """What this counter includes where it differs from `EngineProfile.includes` of the same quantity."""


@dataclass(frozen=True, kw_only=True)
class MetricsPage:
    """An engine's Prometheus page, as far as requests can be told from it."""

    path: str
    series: Mapping[Quantity, MetricSeries]
    late_seconds: float
    """How long after an answer the engine may take to count it; 0: the page is up to date when the answer ends."""

    read_seconds: float
    """How long reading the page may take before it counts as lost (some engines answer only between batches)."""


@dataclass(frozen=True, kw_only=True)
class LogSummary:
    """How an engine's own log tells of one finished request."""

    lines: tuple[str, ...]
    """Regular expressions, one a line of the summary, in order; the last one completes it, a line between the
    first and the last may be absent (no drafts). Named groups are quantities, with their unit where it is not the plain one (`decode_ms`),
    `response_id`, or `key`: what joins lines of one request."""

    starts: str | None
    """Regular expression of a line that only a new process writes; None: launches cannot be told apart."""


@dataclass(frozen=True, kw_only=True)
class CacheReset:
    """How an engine's prefix cache is emptied over HTTP."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    expect: str | None
    """Regular expression that the answer of status 200 must contain; None: the status is enough."""


@dataclass(frozen=True, kw_only=True)
class EngineProfile:
    """What an engine is and reports, as data; read from fixtures/engines/*.yaml."""

    name: str
    title: str
    simulated: bool
    checked: str = "documentation"
    """How far this profile was tried: `run here`, `recordings`, `documentation`."""

    apis: tuple[str, ...] = ("/v1/chat/completions",)
    """Paths of the model endpoints that it offers, as far as agents use them."""

    response_fields: Mapping[str, ResponseField]
    """Keys: ttft_seconds, prefill_seconds, decode_seconds, queue_seconds, drafted_tokens, accepted_tokens,
    computed_prompt_tokens, cached_tokens (only where it is not where OpenAI has it)."""

    metrics: MetricsPage | None = None
    log_summary: LogSummary | None = None
    reset: CacheReset | None = None
    """None: the cache cannot be emptied; a fresh process or a salt in the prompts has to do."""

    includes: Mapping[str, str]
    """Figure key -> what its source includes, e.g. `ttft_seconds: queueing excluded`."""

    unavailable: Mapping[str, str]
    """Figure key -> why this engine cannot give it."""

    memory_errors: tuple[str, ...]
    """Regular expressions, searched in an error answer's text: the engine ran out of memory."""

    context_errors: tuple[str, ...]
    """The same for prompts over the context window."""
