"""A run that is killed, interrupted or doubled leaves nothing running and loses nothing."""

from __future__ import annotations

import signal

import pytest

from tests.whole.running import begin, bench, children_of, journal, still_there, wait_for

pytestmark = pytest.mark.slow


def outcome(record):
    """What must not depend on whether the run was cut: cases, tasks with attempts, verdicts in order."""
    return (
        {case["id"]: case["outcome"] for case in record["cases"]},
        {task["id"]: (task["status"], task["attempts"], task["changes"]) for task in record["tasks"]},
    )


def verdicts(run):
    return [(entry["task"], entry["verdict"]) for entry in journal(run) if entry["verdict"]]


def sessions_begun(results):
    runs = [place for place in results.iterdir() if (place / "journal.jsonl").exists()]
    steps = journal(runs[0]) if runs else []
    return [entry for entry in steps if entry["event"] == "step-started" and entry["session"]]


def test_kill_9_and_resume_end_as_an_uncut_run(tmp_path):
    whole = bench("--workload", "prefix-cache", "--results", str(tmp_path / "whole"))
    assert whole.code == 0, whole.out
    cut = tmp_path / "cut"
    cut.mkdir()
    process = begin("--workload", "prefix-cache", "--results", str(cut), log=tmp_path / "log")
    try:
        # Killed while the sixth session's agent works: its prompt is there, and the journal does not know its end.
        wait_for(lambda: next(cut.glob("*/sessions/006/prompt.md"), None), 120, "the sixth session")
        children = children_of(process.pid)
        assert children
    finally:
        process.kill()
        process.wait()
    assert still_there(children) == []
    run = next(place for place in cut.iterdir() if (place / "journal.jsonl").exists())
    assert not (run / "record.json").exists()
    done = bench("--workload", "prefix-cache", "--results", str(cut), "--resume", run.name)
    assert done.code == 0, done.out
    assert outcome(done.record) == outcome(whole.record)
    assert verdicts(run) == verdicts(tmp_path / "whole" / whole.record["run_id"])
    cut_sessions = [row for row in done.record["sessions"] if row["outcome"] == "interrupted"]
    assert [row["session"] for row in cut_sessions] == [6]
    assert len(done.record["segments"]) == 2
    assert len(done.record["sessions"]) == len(whole.record["sessions"]) + len(cut_sessions)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_ends_children_and_says_how_to_resume(tmp_path, number):
    process = begin("--workload", "prefix-cache", "--results", str(tmp_path / "r"), log=tmp_path / "log")
    try:
        wait_for(
            lambda: (tmp_path / "r").exists() and len(sessions_begun(tmp_path / "r")) >= 3, 120, "the third session"
        )
        children = children_of(process.pid)
        process.send_signal(number)
        assert process.wait(30) == 2
    finally:
        process.kill()
        process.wait()
    assert still_there(children) == []
    text = (tmp_path / "log").read_text()
    assert "--resume " in text
    assert "Traceback" not in text
    done = bench("--workload", "prefix-cache", "--results", str(tmp_path / "r"), "--resume", "last")
    assert done.code == 0, done.out
    assert done.passed() == 8


def test_a_second_process_on_the_same_run_is_refused(tmp_path):
    process = begin("--workload", "prefix-cache", "--results", str(tmp_path / "r"), log=tmp_path / "log")
    try:
        wait_for(lambda: (tmp_path / "r").exists() and sessions_begun(tmp_path / "r"), 120, "the first session")
        done = bench("--workload", "prefix-cache", "--results", str(tmp_path / "r"), "--resume", "last")
        assert done.code == 4
        assert "another process" in done.out
        assert "Traceback" not in done.out
    finally:
        process.terminate()
        assert process.wait(60) == 2


def test_another_run_is_not_resumed_by_mistake(tmp_path):
    first = bench("--workload", "csv-totals", "--results", str(tmp_path))
    assert first.code == 0, first.out
    done = bench("--workload", "csv-totals", "--model", "float-sums", "--results", str(tmp_path), "--resume", "last")
    assert done.code == 4
    assert "model: sound then, float-sums now" in done.out
