"""next_step as tables, and as properties over every possible course of a run."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import EvidenceError
from bench.loop.standing import standing
from bench.loop.steps import End, Step, next_step
from bench.records.schema import JournalEntry
from bench.spec import Limits

LIMITS = Limits(
    attempts_per_task=2,
    bootstrap_attempts=2,
    final_reviews=2,
    replans=1,
    sessions=200,
    wall_clock_seconds=1e9,
    session_seconds=60,
    no_progress_seconds=60,
    verify_seconds=5,
    output_tokens_per_request=1_000,
    output_tokens_per_run=10**9,
    requests_per_session=50,
    engine_errors_in_a_row=3,
    backoff_seconds=2,
)


def task(name, *depends_on, **more):
    return {"id": name, "title": name, "requirements": ["R001"], "depends_on": depends_on, "checks": ["c"], **more}


def plan(*tasks):
    return {"requirements": [{"id": "R001", "text": "t", "quote": "q"}], "tasks": tasks or (task("T001"),)}


class Course:
    """A journal that grows by saying how each next step ended."""

    def __init__(self, limits=LIMITS, drive="task-loop"):
        self.journal: list[JournalEntry] = []
        self.limits, self.drive, self.at = limits, drive, 0.0
        self.segment()

    def add(self, event, **fields):
        self.at += fields.pop("takes", 1.0)
        self.journal.append(JournalEntry(seq=len(self.journal) + 1, event=event, at=self.at, **fields))

    def segment(self, takes=1.0):
        self.add("segment-started", takes=takes)

    def next(self):
        return next_step(self.journal, self.limits, self.drive)

    def start(self):
        step = self.next()
        assert isinstance(step, Step), step
        place = {key: getattr(step, key) for key in ("session", "task", "attempt", "retry")}
        self.add("step-started", step=step.kind, **place)
        return step, place

    def end(self, outcome="done", **fields):
        step, place = self.start()
        self.add("step-finished", step=step.kind, outcome=outcome, **place, **fields)
        return self

    def planned(self, *tasks):
        return self.end().end(detail={"plan": plan(*tasks)})

    def built(self):
        """Builder, verify and reviewer of one task, all content."""
        return self.end().end("passed").end(verdict="ACCEPT")


def brief(step):
    return (step.kind, step.task, step.attempt, step.retry)


AGENT_ERROR = {"outcome": "agent-error", "kind": "crash", "detail": {"reason": "it crashed"}}
LIMIT = {"outcome": "limit", "kind": "seconds", "detail": {"reason": "too long"}}
CONTEXT = {"outcome": "engine-error", "kind": "context", "detail": {"reason": "prompt too long"}}
MEMORY = {"outcome": "engine-error", "kind": "memory", "detail": {"reason": "no memory"}}
NO_VERDICT = {"outcome": "agent-error", "kind": "no-verdict", "detail": {"reason": "no verdict"}}
CHANGES = {"verdict": "CHANGES", "detail": {"reasons": "1. wrong"}}


def test_a_run_begins_with_preflight_and_bootstrap():
    assert next_step([], LIMITS, "task-loop").kind == "preflight"
    course = Course()
    assert brief(course.next()) == ("preflight", None, 1, 0)
    course.end()
    step = course.next()
    assert (brief(step), step.session) == (("bootstrap", None, 1, 0), 1)
    assert step.reason == "there is no plan yet"


@pytest.mark.parametrize("failure", [AGENT_ERROR, LIMIT, CONTEXT], ids=lambda failure: failure["kind"])
def test_a_failed_bootstrap_is_tried_again_and_then_the_run_is_unconverged(failure):
    course = Course().end().end(**failure)
    step = course.next()
    assert brief(step) == ("bootstrap", None, 2, 0)
    assert failure["detail"]["reason"] in step.trouble[0]
    end = course.end(**failure).next()
    assert isinstance(end, End)
    assert end.kind == "unconverged"
    assert "2 bootstrap attempts" in end.reason


def test_tasks_come_in_dependency_order_one_after_the_other():
    course = Course()
    course.planned(task("T001", "T003"), task("T002"), task("T003"))
    seen = []
    for _ in range(3):
        seen.append(course.next().task)
        course.built()
    assert seen == ["T002", "T003", "T001"]
    assert brief(course.next()) == ("final-reviewer", None, 1, 0)
    end = course.end(verdict="ACCEPT").next()
    assert end == End(kind="complete", reason="")


def test_builder_verify_reviewer_follow_each_other():
    course = Course()
    course.planned()
    assert (brief(course.next()), course.next().session) == (("builder", "T001", 1, 0), 2)
    course.end()
    assert (brief(course.next()), course.next().session) == (("verify", "T001", 1, 0), None)
    course.end("passed")
    assert (brief(course.next()), course.next().session) == (("reviewer", "T001", 1, 0), 3)


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([AGENT_ERROR], "it crashed"),
        ([LIMIT], "too long"),
        ([CONTEXT], "prompt too long"),
        ([{}, {"outcome": "failed", "detail": {"problems": ["c is not ok"]}}], "c is not ok"),
        ([{}, {"outcome": "passed"}, CHANGES], "1. wrong"),
        ([{}, {"outcome": "passed"}, {"verdict": "CHANGES"}], "gave no reasons"),
    ],
    ids=["agent-error", "limit", "context", "verify", "changes", "changes-without-reasons"],
)
def test_what_uses_up_an_attempt_and_is_told_to_the_next(steps, told):
    course = Course()
    course.planned()
    for _ in range(2):
        assert course.next().kind == "builder"
        for step in steps:
            course.end(**step)
        assert told in standing(course.journal).tasks["T001"].trouble[0]
    assert brief(course.next()) == ("replan", "T001", 1, 0)
    assert course.next().reason == "T001 is not done after 2 attempts"


def test_the_reviewer_counts_its_own_attempts():
    course = Course()
    course.planned().end().end("failed").end().end("passed")
    assert brief(course.next()) == ("reviewer", "T001", 1, 0)
    course.end(**NO_VERDICT)
    step = course.next()
    assert brief(step) == ("reviewer", "T001", 2, 0)
    assert "without a verdict" in step.trouble[0]
    end = course.end(**NO_VERDICT).next()
    assert end == End(kind="unconverged", reason="no verdict on T001 in 2 reviews")


@pytest.mark.parametrize("role", ["builder", "reviewer", "bootstrap"])
def test_an_engine_error_is_the_same_attempt_again_after_a_longer_and_longer_wait(role):
    course = Course(replace(LIMITS, engine_errors_in_a_row=20)).end()
    if role != "bootstrap":
        course.end(detail={"plan": plan()})
    if role == "reviewer":
        course.end().end("passed")
    first = course.next()
    assert (first.kind, first.wait_seconds) == (role, 0.0)
    waits = []
    for retry in range(1, 9):
        course.end(**MEMORY)
        step = course.next()
        assert brief(step) == (*brief(first)[:3], retry)
        assert step.session == first.session + retry
        assert "no memory" in step.reason
        waits.append(step.wait_seconds)
    assert waits == [2, 4, 8, 16, 32, 64, 120, 120]
    course.end(detail={"plan": plan()} if role == "bootstrap" else {})
    assert course.next().retry == 0


@pytest.mark.parametrize(
    ("kind", "uncharged"),
    [
        *((kind, True) for kind in ("memory", "http-500", "http-503", "http-429", "error-in-answer", "reset", "stall")),
        *((kind, True) for kind in ("truncated", "refused", "malformed")),
        ("context", False),
    ],
)
def test_which_engine_errors_are_charged(kind, uncharged):
    course = Course()
    course.planned().end("engine-error", kind=kind, detail={"reason": "said"})
    assert brief(course.next()) == (("builder", "T001", 1, 1) if uncharged else ("builder", "T001", 2, 0))


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        *(("limit", kind) for kind in ("seconds", "no-progress", "requests", "output-tokens", "disk")),
        *(
            ("agent-error", kind)
            for kind in ("crash", "no-end", "empty", "tool-loop", "http-400", "http-500", "memory")
        ),
    ],
)
def test_limits_and_the_agents_errors_are_charged(outcome, kind):
    """Whatever the kind is called: an agent that hid the engine's failures is charged with them (decision 0009)."""
    course = Course()
    course.planned().end(outcome, kind=kind, detail={"reason": "said"})
    assert brief(course.next()) == ("builder", "T001", 2, 0)


def test_too_many_engine_errors_in_a_row_block_and_a_new_segment_goes_on():
    course = Course()
    course.planned().end(**MEMORY).end(**MEMORY)
    assert isinstance(course.next(), Step)
    end = course.end(**MEMORY).next()
    assert end == End(kind="blocked", reason="3 engine errors in a row, the last one: no memory")
    course.add("segment-ended", outcome="blocked")
    assert course.next().kind == "blocked"
    course.segment()
    assert course.next().kind == "preflight"
    step = course.end().next()
    assert (brief(step), step.wait_seconds) == (("builder", "T001", 1, 3), 0.0)


def test_an_engine_that_is_gone_blocks_at_once():
    course = Course()
    course.planned().end("engine-error", kind="engine-dead", detail={"reason": "killed by signal 9"})
    assert course.next() == End(kind="blocked", reason="the engine is gone: killed by signal 9")
    course.segment()
    course.end()
    assert brief(course.next()) == ("builder", "T001", 1, 1)


def test_other_sessions_break_the_row_of_engine_errors():
    course = Course()
    course.planned()
    for failure in (MEMORY, MEMORY, CONTEXT, MEMORY, MEMORY):
        course.end(**failure)
    assert brief(course.next()) == ("builder", "T001", 2, 2)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"sessions": 1}, "the limit of 1 sessions is reached"),
        ({"wall_clock_seconds": 4}, "the limit of 4 s of wall clock is reached"),
        ({"output_tokens_per_run": 50}, "the limit of 50 output tokens is reached (60)"),
    ],
)
def test_limits_end_the_run(changed, reason):
    course = Course(replace(LIMITS, **changed)).end()
    course.end(detail={"plan": plan(), "output_tokens": 60})
    assert course.next() == End(kind="limited", reason=reason)


def test_time_between_segments_does_not_count():
    course = Course(replace(LIMITS, wall_clock_seconds=10)).end()
    course.add("segment-ended", outcome="interrupted")
    course.segment(takes=1e6)
    assert course.next().kind == "preflight"
    assert standing(course.journal).elapsed_seconds == 3


def test_a_clock_that_is_set_back_gives_no_time_away():
    course = Course()
    course.add("step-started", step="preflight", takes=-500.0)
    assert standing(course.journal).elapsed_seconds == 0


def test_a_complete_run_is_complete_even_at_its_limits():
    course = Course()
    course.planned().built().end(verdict="ACCEPT")
    course.limits = replace(LIMITS, sessions=1, wall_clock_seconds=1)
    assert course.next().kind == "complete"


def test_a_cut_step_runs_anew_with_a_new_session_number():
    course = Course()
    course.planned()
    cut, _ = course.start()
    course.segment()
    assert course.next().kind == "preflight"
    step = course.end().next()
    assert (brief(step), step.session) == (brief(cut), cut.session + 1)
    assert step.reason == "builder was cut and runs anew"
    course.end("interrupted")
    assert (brief(course.next()), course.next().session) == (brief(cut), cut.session + 2)
    assert standing(course.journal).sessions == 1


def test_a_replan_that_splits_drops_or_blocks():
    course = Course()
    course.planned(task("T001"), task("T002", "T001")).end(**AGENT_ERROR).end(**AGENT_ERROR)
    assert course.next().kind == "replan"
    split = task("T001", status="split", reason="too big", replaced_by=["T003", "T004"])
    course.end(detail={"plan": plan(split, task("T002", "T001"), task("T003"), task("T004"))})
    seen = []
    for _ in range(3):
        seen.append(course.next().task)
        course.built()
    assert seen == ["T003", "T004", "T002"]
    assert course.next().kind == "final-reviewer"


def test_a_run_with_a_blocked_task_builds_the_rest_and_is_not_complete():
    course = Course()
    course.planned(task("T001"), task("T002")).end(**AGENT_ERROR).end(**AGENT_ERROR)
    blocked = task("T001", status="blocked", reason="no browser here")
    course.end(detail={"plan": plan(blocked, task("T002"))})
    assert course.next().task == "T002"
    end = course.built().next()
    assert end.kind == "unconverged"
    assert "T001 is blocked: no browser here" in end.reason


def test_replans_are_counted_whether_they_are_usable_or_not():
    course = Course(replace(LIMITS, replans=2))
    course.planned().end(**AGENT_ERROR).end(**AGENT_ERROR)
    course.end("agent-error", kind="plan", detail={"problems": ["T001 is open still"]})
    step = course.next()
    assert (brief(step), step.trouble) == (("replan", "T001", 2, 0), ("T001 is open still",))
    end = course.end(**LIMIT).next()
    assert end.kind == "unconverged"
    assert "all 2 replans are used up" in end.reason


def test_final_reviews_make_repairs_until_they_are_used_up():
    course = Course()
    course.planned().built().end(**CHANGES)
    step = course.next()
    assert brief(step) == ("builder", "F001", 1, 0)
    assert standing(course.journal).tasks["F001"].card.text == "1. wrong"
    course.built()
    assert brief(course.next()) == ("final-reviewer", None, 2, 0)
    end = course.end(**CHANGES).next()
    assert end == End(kind="unconverged", reason="not accepted after 2 final reviews")


def test_a_repair_is_not_replanned():
    course = Course()
    course.planned().built().end(**CHANGES).end(**AGENT_ERROR).end(**AGENT_ERROR)
    end = course.next()
    assert end.kind == "unconverged"
    assert "a repair is not replanned" in end.reason


def test_a_final_review_without_a_verdict_is_held_again_and_is_bounded():
    course = Course()
    course.planned().built().end(**NO_VERDICT)
    assert brief(course.next()) == ("final-reviewer", None, 2, 0)
    end = course.end(**NO_VERDICT).next()
    assert end == End(kind="unconverged", reason="no verdict in 2 final reviews")


@pytest.mark.parametrize("name", ["attempts_per_task", "bootstrap_attempts", "final_reviews", "replans", "sessions"])
def test_a_limit_of_nothing_ends_the_run_and_does_not_break_it(name):
    course = Course(replace(LIMITS, **{name: 0}))
    random_walk(course, random.Random(3))
    assert course.next().kind in ("unconverged", "limited", "complete")


def test_a_journal_out_of_order_is_refused():
    course = Course()
    course.planned()
    with pytest.raises(EvidenceError, match="finished without having started"):
        standing([*course.journal, replace(course.journal[-1], seq=99)])
    course.start()
    with pytest.raises(EvidenceError, match="started while builder ran"):
        standing([*course.journal, course.journal[-1]])
    stray = replace(course.journal[-1], event="step-finished", task="T009", outcome="done")
    with pytest.raises(EvidenceError, match="which no plan names"):
        standing([*course.journal[:-1], replace(stray, event="step-started"), stray])


# --- every course ---------------------------------------------------------------------------------------------------

OUTCOMES = {
    "preflight": [{}],
    "bootstrap": [{"detail": {"plan": plan(task("T001", "T002"), task("T002"))}}, AGENT_ERROR, MEMORY],
    "builder": [{}, {}, {}, AGENT_ERROR, LIMIT, CONTEXT, MEMORY],
    "verify": [{"outcome": "passed"}, {"outcome": "passed"}, {"outcome": "failed"}],
    "reviewer": [{"verdict": "ACCEPT"}, {"verdict": "ACCEPT"}, CHANGES, NO_VERDICT, MEMORY],
    "final-reviewer": [{"verdict": "ACCEPT"}, CHANGES, NO_VERDICT, MEMORY],
    "session": [{}, AGENT_ERROR, LIMIT, MEMORY],
}


def random_outcome(course, step, seed):
    """The same for the same place in a run, whichever session number it has: as a deterministic subject answers."""
    rng = random.Random(f"{seed} {brief(step)}")
    if step.kind != "replan":
        return rng.choice(OUTCOMES[step.kind])
    cards = standing(course.journal).plan.tasks
    status = rng.choice(["dropped", "blocked", "open"])
    if status == "open":
        return AGENT_ERROR
    tasks = [
        task(
            card.id,
            *(name for name in card.depends_on if name != step.task),
            status=status if card.id == step.task else card.status,
            reason="r",
        )
        for card in cards
    ]
    return {"detail": {"plan": plan(*tasks)}}


def random_walk(course, rng, cut_at=None):
    """Goes on to the end; with `cut_at`, the harness dies when the journal has so many entries, and is resumed."""
    seed = rng if isinstance(rng, int) else rng.randrange(100)
    for _ in range(500):
        step = course.next()
        if isinstance(step, End):
            return step
        course.end(**random_outcome(course, step, seed))
        if cut_at is not None and len(course.journal) >= cut_at:
            del course.journal[cut_at:]
            cut_at = None
            course.segment()
    raise AssertionError("the run does not end")


def told(course):
    return [
        (entry.step, entry.task, entry.attempt, entry.retry, entry.outcome, entry.verdict)
        for entry in course.journal
        if entry.event == "step-finished" and entry.step != "preflight"
    ]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 120), drive=st.sampled_from(["task-loop", "session"]))
def test_every_run_ends_and_a_cut_changes_nothing(seed, cut, drive):
    whole = Course(drive=drive)
    end = random_walk(whole, seed)
    if end.kind == "blocked":
        # A cut begins the row of engine errors anew, as it should; the rest of the story may then be longer.
        assert standing(whole.journal).errors_in_a_row == 3
        return
    resumed = Course(drive=drive)
    assert random_walk(resumed, seed, cut_at=min(cut, len(whole.journal))) == end
    assert told(resumed) == told(whole)
    assert standing(resumed.journal).tasks == standing(whole.journal).tasks
    numbers = [entry.session for entry in resumed.journal if entry.event == "step-started" and entry.session]
    assert numbers == sorted(set(numbers))
