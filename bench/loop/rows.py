"""The journal as a record lists it: segments, sessions, tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bench.loop.standing import elapsed_seconds, standing
from bench.records.schema import JournalEntry, SegmentRow, SessionRow, TaskRow

_CUT = "cut off: the harness stopped before the session ended"


def segment_rows(journal: Sequence[JournalEntry]) -> tuple[SegmentRow, ...]:
    """One row a segment. One that died with the harness ends, as far as is known, with its last entry: `interrupted`."""
    rows: list[SegmentRow] = []
    for start, entry in enumerate(journal):
        if entry.event != "segment-started":
            continue
        rest = journal[start + 1 :]
        until = next((index for index, other in enumerate(rest) if other.event == "segment-started"), len(rest))
        last = rest[until - 1] if until else entry
        ended = last.event == "segment-ended"
        rows.append(
            SegmentRow(
                segment=len(rows) + 1,
                started_at=entry.at,
                ended_at=last.at if ended else None,
                end=(last.outcome or "broken") if ended else "interrupted",
                seconds=elapsed_seconds(journal[start : start + 1 + until]),
                cache=_cache(entry),
            )
        )
    return tuple(rows)


def _cache(started: JournalEntry) -> str | None:
    said = started.detail.get("cache")
    return said if isinstance(said, str) else None


def session_rows(journal: Sequence[JournalEntry]) -> tuple[SessionRow, ...]:
    """One row an agent session, in the order of their numbers; token counts are left to the requests' evidence.

    Of a session that died with the harness the journal knows neither seconds (None) nor counts (0, until the evidence
    gives them); its outcome is `interrupted`.
    """
    rows: dict[int, SessionRow] = {}
    segment = 0
    for entry in journal:
        segment += entry.event == "segment-started"
        if entry.session is None or entry.step is None:
            continue
        finished = entry.event == "step-finished"
        rows[entry.session] = SessionRow(
            session=entry.session,
            role=entry.step,
            task=entry.task,
            attempt=entry.attempt,
            retry=entry.retry,
            outcome=str(entry.outcome) if finished else "interrupted",
            kind=entry.kind,
            reason=str(entry.detail.get("reason", "")) if finished else _CUT,
            requests=int(entry.detail.get("requests", 0)) if finished else 0,
            prompt_tokens=None,
            output_tokens=None,
            tool_calls=int(entry.detail.get("tool_calls", 0)) if finished else 0,
            seconds=float(entry.detail.get("seconds", 0.0)) if finished else None,
            segment=segment,
        )
    return tuple(rows.values())


def task_rows(journal: Sequence[JournalEntry]) -> tuple[TaskRow, ...]:
    """One row a task: those of the plan as it stands, then the repairs F001, F002 ..."""
    rows = []
    for task in standing(journal).tasks.values():
        status: Literal["done", "open", "blocked", "dropped", "split"] = (
            "done" if task.state == "done" else task.card.status
        )
        begun = task.failed + (task.state != "build") if task.card.status == "open" else task.failed
        rows.append(
            TaskRow(id=task.card.id, title=task.card.title, status=status, attempts=begun, changes=task.changes)
        )
    return tuple(rows)
