"""What a record holds. Frozen, keyword-only; seconds, bytes, tokens; None means not measured, never 0.

Format history of `record.json` (`schema_version`), newest first:
1  first format
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1

StepKind = Literal["preflight", "bootstrap", "builder", "verify", "reviewer", "replan", "final-reviewer", "session"]
EntryEvent = Literal["segment-started", "step-started", "step-finished", "segment-ended"]
RunEnd = Literal["complete", "unconverged", "limited", "blocked", "interrupted", "broken", "scored", "ingested"]
CaseOutcome = Literal["passed", "missed", "error", "not-run"]
Purpose = Literal["turn", "retry", "side", "compaction"]
"""`turn`: the conversation went on. `retry`: the same again after it failed. `side`: beside the conversation (a title,
a summary of a page). `compaction`: a summary of the conversation, which goes on from it."""

SourceClass = Literal["engine-response", "engine-counter", "engine-log", "relay", "agent", "harness"]


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """One line of journal.jsonl: a step began or ended, or a segment did."""

    seq: int
    event: EntryEvent
    at: float
    """Unix seconds."""

    step: StepKind | None = None
    session: int | None = None
    """Number of the agent session that the step ran, if it ran one."""

    task: str | None = None
    attempt: int = 1
    retry: int = 0
    outcome: str | None = None
    """Of a finished step: a session's outcome; `passed` or `failed` of a verify; the end of a segment."""

    kind: str | None = None
    """Finer kind of an error or limit."""

    verdict: Literal["ACCEPT", "CHANGES"] | None = None
    snapshot: str | None = None
    """Digest of the project's snapshot: before a started step, after a finished one."""

    detail: Mapping[str, Any] = field(default_factory=dict)
    """JSON data of the step: the plan, the checks, the reviewer's reasons, seconds, tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRecord:
    """One exchange between agent and engine. Instants are seconds of the relay's monotonic clock."""

    session: int
    role: str
    task: str | None
    attempt: int
    retry: int
    index: int
    """0, 1, 2 ... within the session."""

    engine_process: int
    """1, 2 ...: which launch of the engine served it."""

    path: str
    streamed: bool
    status: int | None
    response_id: str | None
    sent_at: float
    """Last byte of the request written to the engine."""

    first_byte_at: float | None
    first_token_at: float | None
    """First generated token of any kind: content, reasoning, tool-call argument."""

    last_token_at: float | None
    ended_at: float
    finish_reason: str | None
    error: str | None
    prompt_tokens: int | None
    """Whole prompt, cached part included."""

    cached_tokens: int | None
    output_tokens: int | None
    """Reasoning included."""

    reasoning_tokens: int | None
    drafted_tokens: int | None
    accepted_tokens: int | None
    ttft_seconds: float | None
    """The engine's own time to its first token; what it includes stands in the engine's profile."""

    prefill_seconds: float | None
    decode_seconds: float | None
    queue_seconds: float | None
    source: SourceClass | None
    """Where the engine's own timings (ttft, prefill, decode, queue) came from."""

    draft_source: SourceClass | None
    """Where the counts of drafted and accepted tokens came from."""

    reason: str | None
    """Why counts or timings are None, reasons joined by `; `; None where nothing is missing."""

    purpose: Purpose = "turn"
    """What the request was for, as far as its body and its fate tell."""


@dataclass(frozen=True, kw_only=True)
class Scrape:
    """One reading of an engine's metrics page. Instants are seconds of the relay's monotonic clock."""

    engine_process: int
    asked_at: float
    answered_at: float
    values: Mapping[str, float]
    """Quantity (contracts.Quantity) -> the counter's value in seconds or tokens; absent: not on the page."""

    problem: str | None
    """Why nothing could be read, or what on the page could not be believed."""

    rounded: bool = False
    """Every number on the page is written as one that was rounded to six digits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSummary:
    """What an engine's own log says of one finished request. Seconds and tokens."""

    engine_process: int
    order: int
    """0, 1, 2 ... within the process: the order in which the requests ended."""

    line: int
    """Line of the log, from 1, on which the summary was complete."""

    response_id: str | None
    prompt_tokens: int | None
    """Whole prompt, cached part included."""

    cached_tokens: int | None
    output_tokens: int | None
    drafted_tokens: int | None
    accepted_tokens: int | None
    ttft_seconds: float | None
    prefill_seconds: float | None
    decode_seconds: float | None
    queue_seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRecord:
    """What the agent claims for one response, normalised to one meaning."""

    session: int
    index: int
    response_id: str | None
    input_tokens: int | None
    """Fresh prompt tokens: cached ones excluded."""

    cached_tokens: int | None
    output_tokens: int | None
    """Reasoning included."""

    reasoning_tokens: int | None
    stop_reason: str | None
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """A request and a claim of usage that speak of the same response, or one of them alone and why."""

    session: int
    request_index: int | None
    usage_index: int | None
    how: Literal["response-id", "forced-order", "summed", "unmatched"]
    """`forced-order`: the only assignment that keeps the order in which both sides say that the requests ended.
    `summed`: one of several requests whose counts are the claim's when they are added up."""

    reason: str | None = None
    """Why one side stands alone: preflight, unrelated client, retried, aborted, ambiguous ..."""


@dataclass(frozen=True, kw_only=True)
class MemorySample:
    """The machine's memory at one instant."""

    at: float
    """Unix seconds."""

    boundary: bool
    """Taken where a session began or ended, not by the clock."""

    swapped_in_bytes: int | None
    """Counter since boot."""

    pressure: Literal["normal", "warning", "critical"] | None
    engine_rss_bytes: int | None
    available_bytes: int | None
    gpu_used_bytes: int | None = None
    """Used on all GPUs together, by whichever process; None: the system does not tell."""


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """One hidden case, judged or not."""

    id: str
    group: str
    outcome: CaseOutcome
    brief: str
    """The sentence of the brief that the case checks."""

    observed: str | None
    expected: str | None
    reason: str | None
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number of a record with everything that is needed to trust or compare it."""

    id: str
    title: str
    value: float | int | None
    unit: str
    statistic: str
    """`sum`, `ratio`, `median`, `p90`, `max`, `count` ..."""

    n: int | None
    """How many requests, samples or sessions it rests on."""

    version: int
    """Of the definition in docs/measures.md."""

    source: SourceClass
    includes: str | None
    reason: str | None
    """Why the value is None."""

    group: Literal["inference", "session", "token", "check"]
    scope: str | None = None
    """None: the whole run; else the part that the figure is about: `role:builder`, `prompt:8k-32k`."""


@dataclass(frozen=True, kw_only=True)
class SessionRow:
    """One agent session, as the record lists it."""

    session: int
    role: str
    task: str | None
    attempt: int
    retry: int
    outcome: str
    kind: str | None
    reason: str
    requests: int
    prompt_tokens: int | None
    output_tokens: int | None
    tool_calls: int
    seconds: float | None
    """None: the session died with the harness, which could not say when."""

    segment: int
    engine_seconds: float | None = None
    """While at least one request was at the engine and not waiting there: the wall time is split into four parts."""

    tool_seconds: float | None = None
    """While no request was at the engine and tools ran; None: the agent does not tell."""

    waiting_seconds: float | None = None
    """In the engine's queue, where it tells; None: not told, and then part of `engine_seconds`."""

    agent_seconds: float | None = None
    """The rest: the agent's start, its own work, its end."""


@dataclass(frozen=True, kw_only=True)
class TaskRow:
    id: str
    title: str
    status: Literal["done", "open", "blocked", "dropped", "split"]
    attempts: int
    changes: int
    """Reviews that returned CHANGES."""


@dataclass(frozen=True, kw_only=True)
class SegmentRow:
    segment: int
    started_at: float
    ended_at: float | None
    end: str
    seconds: float
    cache: str | None = None
    """State of the engine's prefix cache when the segment began, and how that is known: `cold: fresh process, empty
    disk cache`, `cold: reset`, `salted: ...`, `warm: ...`; None: no engine ran."""


@dataclass(frozen=True, kw_only=True)
class EvidenceFile:
    path: str
    """Relative to the run's folder."""

    bytes: int
    sha256: str
    derived: bool = False
    """Made of the other evidence when the record was written, and can be made again from it."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The record of one run; written as `record.json`."""

    schema_version: int
    run_id: str
    end: RunEnd
    reason: str
    """Why it ended so; empty for `complete`."""

    valid: bool
    simulated: bool
    created_at: str
    """ISO 8601, UTC."""

    identity: Mapping[str, Any]
    """What decides the cohort: workload, revision, hidden digest, engine, model, agent, isolation, simulated."""

    configuration: Mapping[str, Any]
    """What was asked and what was granted: limits, argv, versions, context window, host."""

    segments: tuple[SegmentRow, ...]
    sessions: tuple[SessionRow, ...]
    tasks: tuple[TaskRow, ...]
    cases: tuple[CaseResult, ...]
    figures: tuple[Figure, ...]
    warnings: tuple[str, ...]
    deviations: tuple[str, ...]
    """What differs from a full run: no sandbox, weaker isolation, limits overridden."""

    evidence: tuple[EvidenceFile, ...]
