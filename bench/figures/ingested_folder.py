"""What is known of a run that was not started by us? Its kept files, read into the evidence that figures are computed from.

No relay stood between agent and engine. What the agent claims is matched with what the engine's log says, and each pair
becomes a request: its counts are the engine's, its instants the agent's. What was not matched is in no figure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from bench.agents.kept_sessions import KeptSession, session_files
from bench.engine_profile import EngineProfile
from bench.errors import EvidenceError
from bench.figures.compute import compute
from bench.figures.ingested_rows import SessionSheet, rows_of_journal, rows_of_sessions
from bench.figures.run_evidence import Evidence
from bench.figures.run_figures import RunFigures
from bench.figures.run_folder import read_stored_profile
from bench.loop.journal import read_journal
from bench.measure.attribution import attribute, attribute_summaries
from bench.measure.log_summaries import read_summaries
from bench.measure.matching import SummaryMatching, match_claims_to_summaries
from bench.measure.memory import read_samples
from bench.measure.scrape_lines import iterate_scrapes
from bench.records.schema import EngineSummary, JournalEntry, RequestRecord, Scrape, UsageRecord

SHEET = "ingested.json"
"""Which file is which session, of which role, task, attempt and segment."""

SESSIONS_FOLDER = "agent-sessions"
ENGINE_LOG = "engine/engine.log"
PROFILE = "engine/profile.json"
METRICS = "metrics.jsonl"
JOURNAL = "journal.jsonl"
MEMORY = "memory.jsonl"
FORMAT = 1

_NO_INSTANTS = (0.0, 0.0)
_PATH = "not seen"
"""Path of a request that no relay saw."""

Warn = Callable[[str], None]
Span = tuple[float, float]
Found = TypeVar("Found")


def figures_of_ingested(folder: Path) -> RunFigures:
    """Reads an ingested run's evidence and computes all figures; what the matching left over is among the warnings.

    Raises EvidenceError where the files that this program itself wrote are damaged.
    """
    warnings: list[str] = []
    evidence, matching = read_ingested(folder, warn=lambda text: warnings.append(text.replace(f"{folder}/", "")))
    told = (*_notes(evidence, matching), *warnings)
    return RunFigures(evidence=evidence, figures=compute(evidence), warnings=told)


def read_ingested(folder: Path, *, warn: Warn) -> tuple[Evidence, SummaryMatching]:
    """Reads an ingested run's folder: the evidence, and how claims and summaries were matched.

    Kept files that are damaged give what they can: `warn` is told, and figures that would rest on the rest are None.
    Raises EvidenceError where the files that this program itself wrote are damaged.
    """
    agent, sheets = read_sheet(folder / SHEET)
    profile = read_stored_profile(folder / PROFILE)
    kept = _kept(folder, agent, sheets, warn)
    journal = _damaged_is_none(lambda: _journal(folder, warn), warn) or ()
    rows = _damaged_is_none(lambda: rows_of_journal(journal, sheets, kept), warn) if journal else None
    if rows is None:
        rows, journal = rows_of_sessions(sheets, kept), ()
    claims, spans = _in_order(sheets, kept, warn)
    summaries = _summaries(folder, profile, warn)
    segment_of = {row.session: row.segment for row in rows.sessions}
    matching = match_claims_to_summaries(
        claims, summaries, spans=spans or None, segment_of=lambda session: segment_of.get(session, 0)
    )
    scrapes = _scrapes(folder, profile, warn)
    placed = spans or [rows.bounds.get(claim.session, _NO_INSTANTS) for claim in claims]
    requests = _requests(claims, placed, sheets, matching)
    if spans:
        requests = attribute(requests, scrapes, profile)
    requests = _matched(requests, matching, profile)
    counted = [one for one in kept.values() if one.tool_calls is not None and one.compactions is not None]
    evidence = Evidence(
        profile=profile,
        requests=requests,
        usage=tuple(sorted(claims, key=lambda one: (one.session, one.index))),
        journal=journal,
        memory=_damaged_is_none(lambda: read_samples(folder / MEMORY, warn=warn), warn) or (),
        sessions=rows.counted(requests, claims),
        segments=rows.segments,
        tasks=rows.tasks,
        tool_calls=sum(one.tool_calls or 0 for one in counted) if counted else None,
        compactions=sum(one.compactions or 0 for one in counted) if counted else None,
        checks=rows.checks,
        counted_by="engine-log",
        scrapes=scrapes,
        summaries=summaries,
    )
    return evidence, matching


def _notes(evidence: Evidence, matching: SummaryMatching) -> list[str]:
    """What the matching found and what it left over, for people."""
    found = f"{len(matching.summaries):,} of {len(evidence.usage):,} responses are matched to the engine's log"
    repeated = matching.repeated_keys
    notes = [f"{found}; {repeated} keys occur more than once, their order forced" if repeated else found]
    for what, kinds in (
        ("summaries of the engine's log", matching.unassigned_summaries),
        ("responses of the agent", matching.unassigned_others),
    ):
        if kinds:
            parts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            notes.append(f"{sum(kinds.values())} {what} stand alone: {parts}")
    return notes


def read_sheet(path: Path) -> tuple[str, tuple[SessionSheet, ...]]:
    """The agent's name and the sessions, by number. Raises EvidenceError."""
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != FORMAT:
            raise EvidenceError(f"{path}: format {data['format']} is not format {FORMAT}, which this version reads")
        return str(data["agent"]), tuple(SessionSheet(**one) for one in data["sessions"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{path}: the list of sessions cannot be read ({error})") from error


# --- streams -------------------------------------------------------------------------------------------------------


def _kept(folder: Path, agent: str, sheets: Sequence[SessionSheet], warn: Warn) -> dict[int, KeptSession]:
    files = session_files(agent)
    kept = {}
    for sheet in sheets:
        kept[sheet.session] = files.read(folder / SESSIONS_FOLDER / sheet.file, sheet.session)
        if damage := kept[sheet.session].damage:
            warn(f"{sheet.file}: {damage}")
    if not any(claim.cached_tokens for one in kept.values() for claim in one.claims):
        warn("no response has cached tokens: agents write 0 also where the engine does not report them")
    return kept


def _in_order(
    sheets: Sequence[SessionSheet], kept: Mapping[int, KeptSession], warn: Warn
) -> tuple[list[UsageRecord], list[Span]]:
    """Claims in the order in which the responses ended, with their instants; no instants where a file lacks them.

    A response that stands in a second file too, because that session went on with the first one's history, counts once.
    """
    told: list[tuple[UsageRecord, Span]] = []
    timed = all(one.spans is not None for one in kept.values() if one.claims)
    seen: dict[tuple[str, float], int] = {}
    copied = 0
    for sheet in sheets:
        one = kept[sheet.session]
        spans = one.spans if timed and one.spans is not None else (_NO_INSTANTS,) * len(one.claims)
        for claim, span in zip(one.claims, spans, strict=True):
            if claim.response_id is not None and timed:
                first = seen.setdefault((claim.response_id, span[0]), claim.session)
                if first != claim.session:
                    copied += 1
                    continue
            told.append((claim, span))
    if copied:
        warn(f"{copied} responses stand in a later session's file too; they are counted once")
    if timed:
        told.sort(key=lambda pair: (pair[1][1], pair[0].session, pair[0].index))
    return [claim for claim, _ in told], [span for _, span in told] if timed else []


def _summaries(folder: Path, profile: EngineProfile, warn: Warn) -> tuple[EngineSummary, ...]:
    if profile.log_summary is None:
        return ()
    return read_summaries(folder / ENGINE_LOG, profile.log_summary, warn=warn)


def _scrapes(folder: Path, profile: EngineProfile, warn: Warn) -> tuple[Scrape, ...]:
    """Readings as of one process, whatever the watch calls its launches: counters that fall tell a restart as well."""
    found: list[Scrape] = []
    if profile.metrics is None:
        return ()
    try:
        found.extend(iterate_scrapes(folder / METRICS, profile.metrics, warn=warn))
    except EvidenceError as error:
        warn(str(error))
    return tuple(replace(one, engine_process=1) for one in found)


def _journal(folder: Path, warn: Warn) -> tuple[JournalEntry, ...]:
    found = read_journal(folder / JOURNAL)
    if found.torn is not None:
        warn(found.torn)
    return found.entries


def _damaged_is_none(read: Callable[[], Found], warn: Warn) -> Found | None:
    """What `read` gives, or None where the file, which somebody else wrote, is damaged; `warn` is told."""
    try:
        return read()
    except EvidenceError as error:
        warn(f"left out: {error}")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        warn(f"left out: a file is not of the form that this program writes ({type(error).__name__}: {error})")
    return None


# --- requests ------------------------------------------------------------------------------------------------------


def _requests(
    claims: Sequence[UsageRecord], spans: Sequence[Span], sheets: Sequence[SessionSheet], matching: SummaryMatching
) -> tuple[RequestRecord, ...]:
    """All that was claimed as requests of one process, also those without a summary: nothing may disturb unseen."""
    sheet_of = {sheet.session: sheet for sheet in sheets}
    return tuple(
        _request(claim, span, sheet_of[claim.session], matching.summaries.get((claim.session, claim.index)))
        for claim, span in zip(claims, spans, strict=True)
    )


def _matched(
    requests: Sequence[RequestRecord], matching: SummaryMatching, profile: EngineProfile
) -> tuple[RequestRecord, ...]:
    """Those that have a summary, in the process that wrote it, with the timings of the log where others are missing."""
    found = [
        replace(one, engine_process=matching.summaries[one.session, one.index].engine_process)
        for one in requests
        if (one.session, one.index) in matching.summaries
    ]
    named = attribute_summaries(found, matching.summaries, profile)
    return tuple(sorted(named, key=lambda one: (one.session, one.index)))


def _request(claim: UsageRecord, span: Span, sheet: SessionSheet, summary: EngineSummary | None) -> RequestRecord:
    """A claim as the request that it speaks of. The log's drafts count, whatever the counters say: they are a request's own."""
    drafted = None if summary is None else summary.drafted_tokens
    accepted = None if summary is None else summary.accepted_tokens
    both = drafted is not None and accepted is not None
    return RequestRecord(
        session=claim.session,
        role=sheet.role,
        task=sheet.task,
        attempt=sheet.attempt,
        retry=sheet.retry,
        index=claim.index,
        engine_process=1,
        path=_PATH,
        streamed=False,
        status=None,
        response_id=claim.response_id,
        sent_at=span[0],
        first_byte_at=None,
        first_token_at=None,
        last_token_at=None,
        ended_at=span[1],
        finish_reason=claim.stop_reason,
        error=claim.error,
        prompt_tokens=None if summary is None else summary.prompt_tokens,
        cached_tokens=None if summary is None else summary.cached_tokens,
        output_tokens=None if summary is None else summary.output_tokens,
        reasoning_tokens=None,
        drafted_tokens=drafted if both else None,
        accepted_tokens=accepted if both else None,
        ttft_seconds=None,
        prefill_seconds=None,
        decode_seconds=None,
        queue_seconds=None,
        source=None,
        draft_source="engine-log" if both else None,
        reason="reasoning_tokens: the engine's log does not count them",
    )
