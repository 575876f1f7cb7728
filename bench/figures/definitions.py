"""Which figures does a record hold, and what does each mean? docs/measures.md is this table in print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.records.schema import SourceClass


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One figure. `version` is raised whenever formula, unit, statistic, source or null rule changes what it says."""

    id: str
    version: int = 1
    title: str
    unit: str
    statistic: str
    source: SourceClass
    formula: str
    null_when: str
    """Besides: where no engine and no agent ran, every figure but the hidden cases is null."""

    group: Literal["inference", "session", "token", "check"]


_ROLES = ("bootstrap", "builder", "reviewer", "replan", "final-reviewer", "session")

_INFERENCE = (
    Definition(
        id="ttft_median",
        title="TTFT, median",
        unit="s",
        statistic="median",
        source="engine-response",
        formula="median over served requests of the engine's own time to its first token",
        null_when="no served request carries it",
        group="inference",
    ),
    Definition(
        id="ttft_p90",
        title="TTFT, p90",
        unit="s",
        statistic="p90",
        source="engine-response",
        formula="90th percentile of the same values",
        null_when="fewer than 50 served requests carry it",
        group="inference",
    ),
    Definition(
        id="ttft_p99",
        title="TTFT, p99",
        unit="s",
        statistic="p99",
        source="engine-response",
        formula="99th percentile of the same values",
        null_when="fewer than 500 served requests carry it",
        group="inference",
    ),
    Definition(
        id="relay_ttft_median",
        title="TTFT at the relay, median",
        unit="s",
        statistic="median",
        source="relay",
        formula="median over streamed served requests of (instant of the first token of any kind minus last byte of the request written)",
        null_when="no served request was streamed",
        group="inference",
    ),
    Definition(
        id="relay_ttft_p90",
        title="TTFT at the relay, p90",
        unit="s",
        statistic="p90",
        source="relay",
        formula="90th percentile of the same values",
        null_when="fewer than 50 served requests were streamed",
        group="inference",
    ),
    Definition(
        id="decode_tps",
        title="Decode, output-weighted",
        unit="tok/s",
        statistic="ratio of sums",
        source="engine-response",
        formula="Σ output tokens / Σ engine decode seconds, over served requests that report both",
        null_when="no served request reports both, or the seconds sum to 0",
        group="inference",
    ),
    Definition(
        id="decode_tps_after_first",
        title="Decode after the first token, output-weighted",
        unit="tok/s",
        statistic="ratio of sums",
        source="engine-response",
        formula="Σ (output tokens minus 1) / Σ engine decode seconds, over served requests of at least two output tokens that report both",
        null_when="no such request, or the seconds sum to 0",
        group="inference",
    ),
    Definition(
        id="draft_acceptance",
        title="Draft acceptance",
        unit="ratio",
        statistic="ratio of sums",
        source="engine-response",
        formula="Σ accepted draft tokens / Σ drafted tokens, over served requests that report both",
        null_when="no served request reports both, or nothing was drafted",
        group="inference",
    ),
    Definition(
        id="swapped_in_bytes",
        title="Swapped in during the run",
        unit="bytes",
        statistic="sum",
        source="harness",
        formula="Σ over segments of the growth of the system's swap-in counter between samples",
        null_when="the system does not tell, fewer than two samples in any segment, or the counter fell",
        group="inference",
    ),
    *(
        Definition(
            id=f"memory_pressure_{level}",
            title=f"Memory pressure {level}",
            unit="samples",
            statistic="count",
            source="harness",
            formula=f"samples at which the system's memory pressure was {level}; n counts the samples that have a level",
            null_when="no sample has a level",
            group="inference",
        )
        for level in ("warning", "critical")
    ),
)

_SESSION = (
    Definition(
        id="run_elapsed",
        title="Run elapsed",
        unit="s",
        statistic="sum",
        source="harness",
        formula="Σ seconds of the segments: waits after engine errors included, time spent blocked excluded",
        null_when="there was no segment",
        group="session",
    ),
    Definition(
        id="agent_sessions",
        title="Agent sessions",
        unit="sessions",
        statistic="count",
        source="harness",
        formula="agent sessions of all roles, interrupted ones included",
        null_when="there was no segment",
        group="session",
    ),
    *(
        Definition(
            id=f"agent_sessions_{role.replace('-', '_')}",
            title=f"Agent sessions, {role}" if role != "session" else "Agent sessions, single-session drive",
            unit="sessions",
            statistic="count",
            source="harness",
            formula=f"those of role {role}; n counts all agent sessions",
            null_when="there was no segment",
            group="session",
        )
        for role in _ROLES
    ),
    Definition(
        id="engine_error_sessions",
        title="Sessions ended by engine errors",
        unit="sessions",
        statistic="count",
        source="harness",
        formula="agent sessions whose outcome is engine-error",
        null_when="there was no segment",
        group="session",
    ),
    Definition(
        id="model_responses",
        title="Model responses",
        unit="responses",
        statistic="count",
        source="agent",
        formula="responses that the agent claims, error responses included",
        null_when="the agent reports none",
        group="session",
    ),
    Definition(
        id="matched_requests",
        title="Matched model requests",
        unit="requests",
        statistic="count",
        source="relay",
        formula="requests answered whole that match a successful claim of the agent by response id within the session, each id once on either side; n counts all requests",
        null_when="there was neither a request nor a claim",
        group="session",
    ),
    Definition(
        id="unmatched_tokens",
        title="Tokens on one side only",
        unit="tokens",
        statistic="sum",
        source="relay",
        formula="Σ prompt and output tokens of the requests and claims that stand alone; n counts those",
        null_when="there was neither a request nor a claim, or those that stand alone have no counts",
        group="session",
    ),
    Definition(
        id="tool_calls",
        title="Tool calls",
        unit="calls",
        statistic="sum",
        source="agent",
        formula="tool calls over all agent sessions; n counts the sessions",
        null_when="the agent does not report them",
        group="session",
    ),
    Definition(
        id="compactions",
        title="Context compactions",
        unit="compactions",
        statistic="sum",
        source="agent",
        formula="times that the agent shortened its own history, over all agent sessions; n counts the sessions",
        null_when="the agent does not report them",
        group="session",
    ),
)

_TOKEN = (
    Definition(
        id="max_prompt_tokens",
        title="Maximum prompt context",
        unit="tokens",
        statistic="max",
        source="engine-response",
        formula="largest prompt, cached part included, over served requests",
        null_when="no served request reports it",
        group="token",
    ),
    Definition(
        id="fresh_input_tokens",
        title="Fresh input",
        unit="tokens",
        statistic="sum",
        source="agent",
        formula="Σ uncached prompt tokens that the agent claims",
        null_when="no response reports it",
        group="token",
    ),
    Definition(
        id="cached_input_tokens",
        title="Cached input",
        unit="tokens",
        statistic="sum",
        source="agent",
        formula="Σ cached prompt tokens that the agent claims",
        null_when="no response reports it",
        group="token",
    ),
    Definition(
        id="prompt_cache_share",
        title="Prompt-cache token share",
        unit="ratio",
        statistic="ratio of sums",
        source="engine-response",
        formula="Σ cached tokens / Σ prompt tokens, over served requests that report both",
        null_when="no served request reports both",
        group="token",
    ),
    Definition(
        id="output_tokens",
        title="Output",
        unit="tokens",
        statistic="sum",
        source="agent",
        formula="Σ output tokens that the agent claims, reasoning included",
        null_when="no response reports it",
        group="token",
    ),
    Definition(
        id="reasoning_tokens",
        title="of which reasoning",
        unit="tokens",
        statistic="sum",
        source="agent",
        formula="Σ reasoning tokens that the agent claims",
        null_when="no response reports it",
        group="token",
    ),
)

_CHECK = (
    Definition(
        id="tasks_done",
        title="Tasks completed",
        unit="tasks",
        statistic="count",
        source="harness",
        formula="task cards with status done; n counts all cards",
        null_when="there was no plan",
        group="check",
    ),
    Definition(
        id="reviews_changes",
        title="Reviews returning changes",
        unit="reviews",
        statistic="count",
        source="harness",
        formula="reviews, final ones included, whose verdict was CHANGES; n counts the verdicts",
        null_when="no review ended with a verdict",
        group="check",
    ),
    Definition(
        id="project_checks_passing",
        title="Project checks passing",
        unit="checks",
        statistic="count",
        source="harness",
        formula="lines `ok` of the last `verify --all` that the harness ran; n counts its checks",
        null_when="it was never run, or printed no check",
        group="check",
    ),
    Definition(
        id="hidden_cases_passed",
        title="Hidden acceptance cases passed",
        unit="cases",
        statistic="count",
        source="harness",
        formula="cases of the score group that passed; n counts the group",
        null_when="a case of the group was not judged",
        group="check",
    ),
)

DEFINITIONS: tuple[Definition, ...] = (*_INFERENCE, *_SESSION, *_TOKEN, *_CHECK)
"""In the order of a record and of every table."""
