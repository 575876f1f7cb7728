"""Sessions, segments and tasks of a run that was not started by us: from its journal, else from the session files alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.agents.kept_sessions import KeptSession
from bench.contracts import CheckLine
from bench.errors import EvidenceError
from bench.figures.run_folder import last_checks
from bench.loop.rows import segment_rows, session_rows, task_rows
from bench.records.schema import JournalEntry, RequestRecord, SegmentRow, SessionRow, TaskRow, UsageRecord


@dataclass(frozen=True, kw_only=True)
class SessionSheet:
    """What is known of a session besides its file. Numbers count up from 1."""

    session: int
    file: str
    """Relative to the folder of sessions."""

    role: str
    task: str | None
    attempt: int
    retry: int
    segment: int


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a record lists of the run's course."""

    sessions: tuple[SessionRow, ...]
    segments: tuple[SegmentRow, ...]
    tasks: tuple[TaskRow, ...] = ()
    checks: tuple[CheckLine, ...] | None = None
    bounds: Mapping[int, tuple[float, float]]
    """When each session began and ended, Unix seconds."""

    def counted(self, requests: Sequence[RequestRecord], claims: Sequence[UsageRecord]) -> tuple[SessionRow, ...]:
        """The sessions with the counts of their requests: all that the agent claims, tokens of those that were matched."""
        rows = []
        for row in self.sessions:
            mine = [one for one in requests if one.session == row.session]
            rows.append(
                replace(
                    row,
                    requests=sum(one.session == row.session for one in claims),
                    prompt_tokens=_sum(one.prompt_tokens for one in mine),
                    output_tokens=_sum(one.output_tokens for one in mine),
                )
            )
        return tuple(rows)


def rows_of_journal(
    journal: Sequence[JournalEntry], sheets: Sequence[SessionSheet], kept: Mapping[int, KeptSession]
) -> Rows:
    """Rows as the journal tells them; sessions of which there is no file stay in the list.

    Raises EvidenceError where a file belongs to a session that the journal does not know.
    """
    sessions = session_rows(journal)
    known = {row.session for row in sessions}
    if strange := [sheet.file for sheet in sheets if sheet.session not in known]:
        raise EvidenceError(f"the journal knows no session of {strange[0]} ({len(strange)} of {len(sheets)} files)")
    return Rows(
        sessions=tuple(_with_calls(row, kept.get(row.session)) for row in sessions),
        segments=segment_rows(journal),
        tasks=task_rows(journal),
        checks=last_checks(tuple(journal)),
        bounds=bounds_of(journal),
    )


def bounds_of(journal: Sequence[JournalEntry]) -> dict[int, tuple[float, float]]:
    """Session -> when it began and when it ended, as far as the journal tells. Unix seconds."""
    found: dict[int, tuple[float, float]] = {}
    for entry in journal:
        if entry.session is not None:
            found[entry.session] = (found.get(entry.session, (entry.at, 0.0))[0], entry.at)
    return found


def _with_calls(row: SessionRow, kept: KeptSession | None) -> SessionRow:
    if kept is None or kept.tool_calls is None:
        return row
    return replace(row, tool_calls=kept.tool_calls)


def rows_of_sessions(sheets: Sequence[SessionSheet], kept: Mapping[int, KeptSession]) -> Rows:
    """Rows as the files alone tell them: how each session ended, and segments that last from first to last instant."""
    sessions = tuple(_session_row(sheet, kept[sheet.session]) for sheet in sheets)
    segments = []
    for number in sorted({sheet.segment for sheet in sheets}):
        mine = [kept[sheet.session] for sheet in sheets if sheet.segment == number]
        begins = [one.started_at for one in mine if one.started_at is not None]
        ends = [one.ended_at for one in mine if one.ended_at is not None]
        if begins and ends:
            begin, end = min(begins), max(*ends, min(begins))
            segments.append(
                SegmentRow(segment=number, started_at=begin, ended_at=end, end="ingested", seconds=end - begin)
            )
    bounds = {
        sheet.session: (one.started_at, one.ended_at)
        for sheet in sheets
        if (one := kept[sheet.session]).started_at is not None and one.ended_at is not None
    }
    return Rows(sessions=sessions, segments=tuple(segments), bounds=bounds)


def _session_row(sheet: SessionSheet, kept: KeptSession) -> SessionRow:
    timed = kept.started_at is not None and kept.ended_at is not None
    return SessionRow(
        session=sheet.session,
        role=sheet.role,
        task=sheet.task,
        attempt=sheet.attempt,
        retry=sheet.retry,
        outcome=kept.outcome,
        kind=None,
        reason=kept.reason,
        requests=0,
        prompt_tokens=None,
        output_tokens=None,
        tool_calls=kept.tool_calls or 0,
        seconds=max(0.0, (kept.ended_at or 0.0) - (kept.started_at or 0.0)) if timed else None,
        segment=sheet.segment,
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
