"""What are figures computed from? All that a run left behind, read into one object; nothing else enters a formula."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bench.contracts import CheckLine, EngineProfile
from bench.measure.endpoints import MODELS_PATH
from bench.measure.matching import match_requests
from bench.records.schema import (
    CaseResult,
    JournalEntry,
    Match,
    MemorySample,
    RequestRecord,
    SegmentRow,
    SessionRow,
    TaskRow,
    UsageRecord,
)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything of one run. The preflight (session 0) may be in it; no figure looks at it."""

    profile: EngineProfile | None
    """None: no engine ran, only a project was scored."""

    requests: tuple[RequestRecord, ...] = ()
    usage: tuple[UsageRecord, ...] = ()
    journal: tuple[JournalEntry, ...] = ()
    memory: tuple[MemorySample, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    score_group: str = ""
    """Group of the hidden cases that are the score of record."""

    sessions: tuple[SessionRow, ...] = ()
    segments: tuple[SegmentRow, ...] = ()
    """Empty: no run, only a project was scored."""

    tasks: tuple[TaskRow, ...] = ()
    tool_calls: int | None = None
    compactions: int | None = None
    """None of either: the agent does not tell."""

    checks: tuple[CheckLine, ...] | None = None
    """Of the project's last `verify --all` that the harness ran; None: it never ran."""

    @cached_property
    def asked(self) -> tuple[RequestRecord, ...]:
        """Requests that asked the model something for an agent session."""
        return tuple(one for one in self.requests if one.session > 0 and one.path != MODELS_PATH)

    @cached_property
    def served(self) -> tuple[RequestRecord, ...]:
        """Those of them that were answered whole."""
        return tuple(one for one in self.asked if one.error is None)

    @cached_property
    def claims(self) -> tuple[UsageRecord, ...]:
        """What the agent claims, its error responses included."""
        return tuple(one for one in self.usage if one.session > 0)

    @cached_property
    def agent_sessions(self) -> tuple[SessionRow, ...]:
        return tuple(one for one in self.sessions if one.session > 0)

    @cached_property
    def matches(self) -> tuple[Match, ...]:
        """Every asked request and every claim, in pairs or alone with the reason."""
        return match_requests(self.asked, self.claims)
