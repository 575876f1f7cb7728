"""Rows of a record from the journal of a run in three segments, one of which died with the harness."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.loop.perform import drive
from bench.loop.rows import segment_rows, session_rows, task_rows


@pytest.fixture
def journal(bench, subject, killed):
    """Segment 1 is killed in session 3, segment 2 is stopped in session 4, segment 3 comes to the end."""
    subject.dies = ("reviewer", "T002", 1, 0)
    with pytest.raises(killed):
        drive(bench.parts(subject))
    subject.dies = None
    subject.answers[("reviewer", "T002", 1)] = {"outcome": "interrupted", "reason": "stopped"}
    assert drive(bench.parts(subject)).kind == "interrupted"
    del subject.answers[("reviewer", "T002", 1)]
    bench.now += 10_000
    parts = bench.parts(subject)
    assert drive(parts).kind == "complete"
    return parts.journal.entries


def test_segments(journal):
    one, two, three = segment_rows(journal)
    assert [row.segment for row in (one, two, three)] == [1, 2, 3]
    assert (one.end, two.end, three.end) == ("interrupted", "interrupted", "complete")
    assert one.ended_at is None
    assert two.ended_at == two.started_at + two.seconds
    assert sum(row.seconds for row in (one, two, three)) < 100, "the time between segments does not count"


def test_a_segment_says_how_the_cache_was_when_it_began(journal):
    assert [row.cache for row in segment_rows(journal)] == [None, None, None]
    begun = [
        replace(entry, detail={**entry.detail, "cache": f"cold: launch {entry.seq}"})
        if entry.event == "segment-started"
        else entry
        for entry in journal
    ]
    assert [row.cache.partition(" launch")[0] for row in segment_rows(begun)] == ["cold:"] * 3
    odd = [replace(entry, detail={**entry.detail, "cache": 7}) for entry in journal[:1]]
    assert segment_rows(odd)[0].cache is None


def test_sessions(journal):
    rows = session_rows(journal)
    assert [row.session for row in rows] == list(range(1, 9))
    assert [row.segment for row in rows] == [1, 1, 1, 2, 3, 3, 3, 3]
    cut, stopped = rows[2], rows[3]
    assert (cut.outcome, cut.seconds, cut.requests) == ("interrupted", None, 0)
    assert cut.reason == "cut off: the harness stopped before the session ended"
    assert (stopped.outcome, stopped.reason, stopped.requests) == ("interrupted", "stopped", 3)
    last = rows[-1]
    assert (last.role, last.outcome, last.requests, last.tool_calls, last.seconds) == (
        "final-reviewer",
        "done",
        3,
        2,
        1.5,
    )
    assert last.prompt_tokens is None


def test_tasks(journal):
    assert [(row.id, row.title, row.status, row.attempts) for row in task_rows(journal)] == [
        ("T001", "greet", "done", 1),
        ("T002", "count", "done", 1),
    ]
    half = [entry for entry in journal if entry.seq <= 9]
    assert [(row.status, row.attempts) for row in task_rows(half)] == [("open", 0), ("open", 1)]


def test_an_empty_journal_has_no_rows():
    assert (segment_rows([]), session_rows([]), task_rows([])) == ((), (), ())
