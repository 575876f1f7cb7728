"""The loop as a whole: a scripted subject on real folders, killed and resumed at every point."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.errors import EngineStartError, EvidenceError
from bench.loop.journal import read_journal
from bench.loop.perform import drive
from bench.loop.rows import segment_rows, session_rows, task_rows


def story(entries):
    """What must not depend on where a run was cut: every step that ended by itself, and what became of it."""
    return [
        (entry.step, entry.task, entry.attempt, entry.retry, entry.outcome, entry.kind, entry.verdict, entry.snapshot)
        for entry in entries
        if entry.event == "step-finished" and entry.outcome != "interrupted" and entry.step != "preflight"
    ]


def eventful(subject):
    """One of each: bad plan, engine error, failed verify, CHANGES, no verdict, a final review that wants changes."""
    subject.files[("bootstrap", None, 1, 0)] = {"plan.json": "{}"}
    subject.answers[("builder", "T002", 1, 0)] = {"outcome": "engine-error", "kind": "memory", "reason": "full"}
    subject.verify_fails.add(("T001", 1))
    subject.answers[("reviewer", "T002", 1)] = {"final_text": "1. no number\nVERDICT: CHANGES"}
    subject.answers[("reviewer", "T002", 2)] = {"final_text": "looks good to me"}
    subject.answers[("final-reviewer", None, 1)] = {"final_text": "1. rude greeting\n**VERDICT: CHANGES**"}
    return subject


EVENTFUL = [
    ("bootstrap", None, 1, 0),
    ("bootstrap", None, 2, 0),
    ("builder", "T002", 1, 0),
    ("builder", "T002", 1, 1),
    ("reviewer", "T002", 1, 0),
    ("builder", "T002", 2, 0),
    ("reviewer", "T002", 2, 0),
    ("reviewer", "T002", 3, 0),
    ("builder", "T001", 1, 0),
    ("builder", "T001", 2, 0),
    ("reviewer", "T001", 1, 0),
    ("final-reviewer", None, 1, 0),
    ("builder", "F001", 1, 0),
    ("reviewer", "F001", 1, 0),
    ("final-reviewer", None, 2, 0),
]


def test_a_smooth_run_is_complete_and_says_what_it_does(bench, subject):
    parts = bench.parts(subject)
    end = drive(parts)
    assert (end.kind, end.reason) == ("complete", "")
    assert [key[:2] for key in subject.seen] == [
        ("bootstrap", None),
        ("builder", "T002"),
        ("reviewer", "T002"),
        ("builder", "T001"),
        ("reviewer", "T001"),
        ("final-reviewer", None),
    ]
    lines = [line.text for line in bench.lines]
    assert lines[:2] == ["preflight", "preflight ... engine answers"]
    assert "session 002 builder T002 attempt 1" in lines
    assert "session 002 builder T002 attempt 1 ... done in 1.5 s, 3 requests" in lines
    assert "verify T002 attempt 1 ... passed in 0.5 s, 1 checks" in lines
    assert lines[-1] == "session 006 final-reviewer attempt 1 ... ACCEPT in 1.5 s, 3 requests"
    project = {path.name for path in (bench.folder / "project").iterdir()}
    assert project == {"plan.json", "verify", "T001.log", "T002.log"}, "what reviewers and verify wrote is gone"
    reviews = [entry for entry in parts.journal.entries if entry.step == "reviewer" and entry.verdict]
    assert all(entry.detail["changed"] == ["review-notes"] for entry in reviews)
    verified = next(e for e in parts.journal.entries if e.step == "verify" and e.event == "step-finished")
    assert [run["arguments"] for run in verified.detail["runs"]] == [["--all"], ["--task", "T002"]]
    assert verified.detail["changed"] == ["verify-cache"]


def test_an_eventful_run_goes_its_way_and_tells_the_next_attempt(bench, subject):
    parts = bench.parts(eventful(subject))
    assert drive(parts).kind == "complete"
    assert subject.seen == EVENTFUL
    assert "plan.json: the key requirements is missing." in subject.prompts[("bootstrap", None, 2, 0)]
    assert "1. no number" in subject.prompts[("builder", "T002", 2, 0)]
    assert "without a verdict line" in subject.prompts[("reviewer", "T002", 3, 0)]
    assert "`./verify --all` did not pass: 1 checks are not ok" in subject.prompts[("builder", "T001", 2, 0)]
    assert "1. rude greeting" in subject.prompts[("builder", "F001", 1, 0)]
    assert sum(bench.slept) == pytest.approx(bench.limits.backoff_seconds)
    log = (bench.folder / "project" / "T002.log").read_text()
    assert log == "attempt 1\nattempt 2\n", "the session that the engine failed left nothing behind"
    tasks = {row.id: (row.status, row.attempts, row.changes) for row in task_rows(parts.journal.entries)}
    assert tasks == {"T001": ("done", 2, 0), "T002": ("done", 2, 1), "F001": ("done", 1, 0)}


def test_prompts_share_their_first_part(bench, subject):
    drive(bench.parts(subject))
    brief_and_rules = subject.prompts[("bootstrap", None, 1, 0)].split("# Your work")[0]
    assert all(prompt.startswith(brief_and_rules) for prompt in subject.prompts.values())
    one, other = (subject.prompts[("builder", name, 1, 0)] for name in ("T001", "T002"))
    assert one.split("# The task")[0] == other.split("# The task")[0]


@pytest.mark.slow
def test_cut_before_any_entry_and_resumed_the_run_is_the_same(bench_at, subject, tmp_path, killed):
    whole = bench_at(tmp_path / "whole")
    whole.folder.mkdir()
    parts = whole.parts(eventful(subject))
    assert drive(parts).kind == "complete"
    told, clocks = story(parts.journal.entries), whole.clocks
    for place in range(1, clocks + 1):
        cut = bench_at(tmp_path / f"cut-{place}")
        cut.folder.mkdir()
        cut.dies_at_clock = place
        with pytest.raises(killed):
            drive(cut.parts(eventful(type(subject)())))
        parts = cut.parts(eventful(type(subject)()))
        assert drive(parts).kind == "complete"
        assert story(parts.journal.entries) == told, f"cut before entry {place}"
        assert task_rows(parts.journal.entries) == task_rows(whole.parts(subject).journal.entries)


@pytest.mark.parametrize("key", EVENTFUL)
def test_killed_in_a_session_and_resumed_the_run_is_the_same(bench_at, subject, tmp_path, killed, key):
    whole = bench_at(tmp_path / "whole")
    whole.folder.mkdir()
    parts = whole.parts(eventful(subject))
    drive(parts)
    cut = bench_at(tmp_path / "cut")
    cut.folder.mkdir()
    dying = eventful(type(subject)())
    dying.dies = key
    with pytest.raises(killed):
        drive(cut.parts(dying))
    again = cut.parts(eventful(type(subject)()))
    assert drive(again).kind == "complete"
    assert story(again.journal.entries) == story(parts.journal.entries)
    rows = session_rows(again.journal.entries)
    assert [row.session for row in rows] == list(range(1, len(EVENTFUL) + 2))
    assert [(row.role, row.task, row.attempt, row.retry) for row in rows if row.outcome == "interrupted"] == [key]
    assert [row.end for row in segment_rows(again.journal.entries)] == ["interrupted", "complete"]
    assert not (cut.folder / "project" / "half-written").exists()


def test_endless_engine_errors_block_the_run_and_a_new_segment_counts_anew(bench, subject):
    subject.answers[("builder", "T002")] = {"outcome": "engine-error", "kind": "memory", "reason": "no memory"}
    end = drive(bench.parts(subject))
    assert end.kind == "blocked"
    assert "3 engine errors in a row" in end.reason
    assert "no memory" in end.reason
    assert sum(bench.slept) == pytest.approx(2 + 4)
    bench.slept.clear()
    parts = bench.parts(subject)
    assert drive(parts).kind == "blocked"
    assert [key for key in subject.seen if key[0] == "builder"] == [("builder", "T002", 1, n) for n in range(6)]
    assert sum(bench.slept) == pytest.approx(2 + 4), "the first session of a segment does not wait"
    del subject.answers[("builder", "T002")]
    parts = bench.parts(subject)
    assert drive(parts).kind == "complete"
    assert [row.end for row in segment_rows(parts.journal.entries)] == ["blocked", "blocked", "complete"]
    assert {row.attempts for row in task_rows(parts.journal.entries)} == {1}


def test_a_finished_run_stays_as_it_is(bench, subject):
    drive(bench.parts(subject))
    before = (bench.folder / "journal.jsonl").read_bytes()
    assert drive(bench.parts(subject)).kind == "complete"
    assert (bench.folder / "journal.jsonl").read_bytes() == before


def test_a_limited_run_goes_on_with_a_higher_limit_and_notes_the_change(bench, subject):
    bench.limits = replace(bench.limits, sessions=2)
    assert drive(bench.parts(subject)).kind == "limited"
    bench.limits = replace(bench.limits, sessions=50)
    parts = bench.parts(subject)
    assert drive(parts).kind == "complete"
    second = [entry for entry in parts.journal.entries if entry.event == "segment-started"][1]
    assert second.detail["changed"] == ["limits"]
    assert "changed since the last segment: limits" in [line.text for line in bench.lines]


def test_a_stop_ends_the_wait_and_the_run_can_go_on(bench, subject):
    subject.answers[("builder", "T002", 1, 0)] = {"outcome": "engine-error", "kind": "reset", "reason": "gone"}

    def sleep(_seconds):
        bench.stop = True

    end = drive(bench.parts(subject, sleep=sleep))
    assert end.kind == "interrupted"
    assert end.reason == "stopped before: session 003 builder T002 attempt 1 retry 1"
    bench.stop = False
    assert drive(bench.parts(subject)).kind == "complete"


def test_an_interrupted_session_leaves_nothing_and_runs_anew(bench, subject):
    subject.answers[("builder", "T002", 1)] = {"outcome": "interrupted", "reason": "Ctrl-C"}
    parts = bench.parts(subject)
    assert drive(parts).kind == "interrupted"
    assert not (bench.folder / "project" / "T002.log").exists()
    assert parts.journal.entries[-1].outcome == "interrupted"
    del subject.answers[("builder", "T002", 1)]
    parts = bench.parts(subject)
    assert drive(parts).kind == "complete"
    assert [row.outcome for row in session_rows(parts.journal.entries)][:3] == ["done", "interrupted", "done"]


def test_a_stop_during_verify_is_no_failed_attempt(bench, subject):
    def verify(request):
        result = subject.verify(request)
        if request.arguments[0] != "--task":
            return result
        bench.stop = True
        return replace(result, passed=False, reason="stopped with the run")

    assert drive(bench.parts(subject, run_verify=verify)).kind == "interrupted"
    bench.stop = False
    parts = bench.parts(subject)
    assert drive(parts).kind == "complete"
    assert {row.attempts for row in task_rows(parts.journal.entries)} == {1}


def test_a_stop_during_the_first_trial_of_verify_is_no_failed_bootstrap(bench, subject):
    def verify(request):
        bench.stop = True
        return replace(subject.verify(request), passed=False, exit_code=None, reason="stopped with the run")

    assert drive(bench.parts(subject, run_verify=verify)).kind == "interrupted"
    assert list((bench.folder / "project").iterdir()) == []
    bench.stop = False
    parts = bench.parts(subject)
    assert drive(parts).kind == "complete"
    assert ("bootstrap", None, 2, 0) not in subject.seen


def test_a_verify_that_cannot_run_is_no_plan(bench, subject):
    def verify(request):
        return replace(subject.verify(request), passed=False, checks=(), exit_code=127, reason="no check line")

    end = drive(bench.parts(subject, run_verify=verify))
    assert end.kind == "unconverged"
    assert "`./verify --all` could not be run" in end.reason
    assert list(subject.seen) == [("bootstrap", None, 1, 0), ("bootstrap", None, 2, 0)]


def test_checks_of_the_plan_that_verify_does_not_print_fail_the_attempt(bench, subject):
    def verify(request):
        result = subject.verify(request)
        return replace(result, checks=(replace(result.checks[0], id="other"),)) if result.checks else result

    parts = bench.parts(subject, run_verify=verify)
    end = drive(parts)
    assert end.kind == "unconverged"
    assert "did not print these checks of the plan: count" in subject.prompts[("builder", "T002", 2, 0)]


def test_a_replan_splits_the_task_that_does_not_converge(bench, subject, plan_data):
    subject.verify_fails |= {("T002", n) for n in (1, 2, 3)}
    parts_of = {"requirements": ["R002"], "depends_on": [], "title": "part"}
    plan_data["tasks"][1] |= {"status": "split", "reason": "too big", "replaced_by": ["T003"]}
    plan_data["tasks"].append({"id": "T003", "checks": ["T003"], **parts_of})
    subject.files[("replan", "T002", 2, 0)] = {"plan.json": json.dumps(plan_data), "T002.log": "mended\n" * 4}
    parts = bench.parts(subject)
    end = drive(parts)
    assert end.kind == "complete", end.reason
    assert [key for key in subject.seen if key[0] in ("replan", "builder")][3:] == [
        ("replan", "T002", 1, 0),
        ("replan", "T002", 2, 0),
        ("builder", "T003", 1, 0),
        ("builder", "T001", 1, 0),
    ]
    assert "T002 used up its attempts" in subject.prompts[("replan", "T002", 2, 0)]
    assert "1 checks are not ok" in subject.prompts[("replan", "T002", 1, 0)]
    assert {row.id: (row.status, row.attempts) for row in task_rows(parts.journal.entries)} == {
        "T001": ("done", 1),
        "T002": ("split", 3),
        "T003": ("done", 1),
    }


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({}, "complete"),
        ({"outcome": "agent-error", "kind": "crash", "reason": "died"}, "unconverged"),
        ({"outcome": "limit", "kind": "seconds", "reason": "too long"}, "limited"),
        ({"outcome": "engine-error", "kind": "context", "reason": "too long a prompt"}, "limited"),
        ({"outcome": "engine-error", "kind": "memory", "reason": "full"}, "blocked"),
    ],
)
def test_a_workload_of_one_session(bench, subject, answer, kind):
    subject.answers[("session",)] = answer
    starter = bench.folder / "starter"
    starter.mkdir()
    (starter / "given.txt").write_text("given")
    parts = bench.parts(subject)
    parts = replace(parts, workload=replace(parts.workload, drive="session", starter=starter))
    assert drive(parts).kind == kind
    assert subject.seen == [("session", None, 1, n) for n in range(3 if kind == "blocked" else 1)]
    assert (bench.folder / "project" / "given.txt").read_text() == "given"


def test_a_part_that_breaks_is_raised_and_noted(bench, subject):
    def preflight():
        raise EngineStartError("the engine went away")

    parts = bench.parts(subject, preflight=preflight)
    with pytest.raises(EngineStartError):
        drive(parts)
    last = read_journal(bench.folder / "journal.jsonl").entries[-1]
    assert (last.event, last.outcome, last.detail["reason"]) == ("segment-ended", "broken", "the engine went away")
    assert drive(bench.parts(subject)).kind == "complete"


def test_limits_reach_the_session(bench, subject):
    seen = []

    def session(request):
        seen.append((request.seconds, request.output_tokens_per_request, request.requests))
        return subject.session(request)

    bench.limits = replace(bench.limits, wall_clock_seconds=50.0, output_tokens_per_run=350)
    end = drive(bench.parts(subject, run_session=session))
    assert end.kind == "limited"
    assert "350 output tokens" in end.reason
    assert [tokens for _, tokens, _ in seen] == [350, 250, 150, 50]
    assert seen[0][0] == 47.0, "60 s a session, but only so much is left of the run"
    assert {requests for _, _, requests in seen} == {50}


def test_a_session_folder_that_stands_already_is_not_used_again(bench, subject):
    (bench.folder / "sessions" / "001").mkdir(parents=True)
    with pytest.raises(EvidenceError, match="session 1"):
        drive(bench.parts(subject))


def test_what_a_session_says_cannot_break_the_journal(bench, subject):
    subject.answers[("reviewer", "T002", 1)] = {"final_text": "1. \ud800\x00 odd\nVERDICT: CHANGES"}
    subject.answers[("builder", "T001", 1)] = {"outcome": "agent-error", "kind": "crash", "reason": "\udfff" * 9_000}
    parts = bench.parts(subject)
    assert drive(parts).kind == "complete"
    assert read_journal(bench.folder / "journal.jsonl").entries == tuple(parts.journal.entries)
    for prompt in subject.prompts.values():
        prompt.encode("utf-8")
