"""What are figures computed from? All that a run left behind, read into one object; nothing else enters a formula."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bench.contracts import CheckLine
from bench.engine_profile import EngineProfile
from bench.figures.cached_claims import without_untold_zeros
from bench.figures.one_source import OneSource, most_common, of_one_source
from bench.measure.endpoints import MODELS_PATH
from bench.measure.matching import ClaimMatching, match_claims
from bench.records.schema import (
    CaseResult,
    EngineSummary,
    JournalEntry,
    Match,
    MemorySample,
    RequestRecord,
    Scrape,
    SegmentRow,
    SessionRow,
    SourceClass,
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
    """Empty: only a project was scored, or nobody wrote down when sessions that were ingested ran."""

    tasks: tuple[TaskRow, ...] = ()
    tool_calls: int | None = None
    compactions: int | None = None
    retries: int | None = None
    """None of these: the agent does not tell."""

    checks: tuple[CheckLine, ...] | None = None
    """Of the project's last `verify --all` that the harness ran; None: it never ran."""

    counted_by: SourceClass = "engine-response"
    """Who told the requests' token counts: the answers that passed the relay, or, where no relay stood between, the
    engine's log."""

    scrapes: tuple[Scrape, ...] = ()
    summaries: tuple[EngineSummary, ...] = ()
    """What the engine itself says of all that it served, in counters and in its log; empty: nothing was kept."""

    refused: int | None = None
    """Requests that the relay let nobody have: paths and methods that are no model endpoint. None: not counted."""

    clock_step: str | None = None
    """What the machine's clock did, where it was set while the run went on."""

    whole: Evidence | None = None
    """The run that this is a part of, where it was narrowed to a scope."""

    @property
    def ran(self) -> bool:
        """Whether an agent ran at all; where not, only a project was scored."""
        return bool(self.segments or self.sessions)

    @cached_property
    def asked(self) -> tuple[RequestRecord, ...]:
        """Requests that asked the model something for an agent session."""
        return tuple(one for one in self.requests if one.session > 0 and one.path != MODELS_PATH)

    @cached_property
    def served(self) -> tuple[RequestRecord, ...]:
        """Those of them that were answered whole."""
        return tuple(one for one in self.asked if one.error is None)

    @cached_property
    def timing_source(self) -> SourceClass | None:
        """The class of the timings that most served requests of the whole run have."""
        return most_common(one.source for one in (self.whole or self).served)

    @cached_property
    def draft_source(self) -> SourceClass | None:
        """The same for counts of drafted tokens, by those that drafted.

        Answers in which nothing was drafted often do not say so; where counters say 0 instead, they must not outvote.
        """
        served = (self.whole or self).served
        return most_common(one.draft_source for one in served if one.drafted_tokens) or most_common(
            one.draft_source for one in served
        )

    @cached_property
    def timed(self) -> OneSource:
        """Served requests by where their timings came from."""
        return of_one_source(self.served, self.timing_source, lambda one: one.source)

    @cached_property
    def drafted(self) -> OneSource:
        """Served requests by where their counts of drafted tokens came from."""
        return of_one_source(self.served, self.draft_source, lambda one: one.draft_source)

    @cached_property
    def claims(self) -> tuple[UsageRecord, ...]:
        """What the agent claims, its error responses included, in its own words."""
        return tuple(one for one in self.usage if one.session > 0)

    @cached_property
    def uncounted(self) -> bool:
        """Whether the agent tells of answers, but of none how many tokens it took: it estimates, or has no idea."""
        whole = [one for one in self.claims if one.error is None]
        counts = ((one.input_tokens, one.cached_tokens, one.output_tokens) for one in whole)
        return bool(whole) and all(count is None for three in counts for count in three)

    @cached_property
    def split_claims(self) -> tuple[UsageRecord, ...]:
        """The same, as the prompt's split into fresh and cached tokens is taken: see `without_untold_zeros`."""
        if self.counted_by == "engine-log":  # no relay saw what the answers told
            return self.claims
        return without_untold_zeros(self.claims, self.asked, self.matches)

    @cached_property
    def agent_sessions(self) -> tuple[SessionRow, ...]:
        return tuple(one for one in self.sessions if one.session > 0)

    @cached_property
    def matching(self) -> ClaimMatching:
        return match_claims(self.asked, self.claims)

    @property
    def matches(self) -> tuple[Match, ...]:
        """Every asked request and every claim, in pairs or alone with the reason."""
        return self.matching.matches
