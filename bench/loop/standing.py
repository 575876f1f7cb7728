"""Where a run stands: the journal read from its first entry to its last. Pure; nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import fsum
from typing import Literal

from bench.errors import EvidenceError
from bench.loop.plan import Plan, Task, plan_from_data
from bench.records.schema import JournalEntry


@dataclass(frozen=True, kw_only=True)
class TaskStanding:
    """One task: what it waits for next, and what it has cost."""

    card: Task
    state: Literal["build", "verify", "review", "done"] = "build"
    failed: int = 0
    """Attempts that were used up."""

    reviews: int = 0
    """Reviewer sessions that ended by themselves, verdict or not."""

    unanswered: int = 0
    """Reviewer sessions without a verdict on the work as it stands."""

    changes: int = 0
    """Reviews that returned CHANGES."""

    replans: int = 0
    trouble: tuple[str, ...] = ()
    """What the last attempt got wrong."""

    replan_trouble: tuple[str, ...] = ()
    """What was wrong with the last replan for it."""

    @property
    def repair(self) -> bool:
        """Made by the harness from a final review's reasons, not by the plan."""
        return self.card.id.startswith("F")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The whole run. Seconds and tokens are sums over all segments."""

    plan: Plan | None = None
    tasks: Mapping[str, TaskStanding] = field(default_factory=dict)
    """By id: the plan's tasks in its order, then the repair tasks F001, F002 ..."""

    bootstraps: int = 0
    """Bootstrap attempts that were used up."""

    bootstrap_trouble: tuple[str, ...] = ()
    replans: int = 0
    final_reviews: int = 0
    """Final reviewer sessions that ended by themselves, verdict or not."""

    final_changes: int = 0
    final_unanswered: int = 0
    """Final reviewer sessions without a verdict since the last change of the project."""

    accepted: bool = False
    """The final reviewer accepted."""

    only_session: JournalEntry | None = None
    """How the one session of a session-driven workload ended."""

    retry: int = 0
    """Engine errors since the attempt at hand began."""

    errors_in_a_row: int = 0
    """Engine errors in a row within this segment."""

    last_error: str = ""
    engine_gone: bool = False
    """The engine died in this segment: running the session again can only help once it is launched again."""

    cut: JournalEntry | None = None
    """The start of a step that never ended by itself and is to be run anew, if that is the last thing that happened."""

    segment: int = 0
    ready: bool = False
    """This segment's preflight is done."""

    sessions: int = 0
    """Sessions that ended by themselves: engine errors included, cut ones not."""

    last_session: int = 0
    output_tokens: int = 0
    elapsed_seconds: float = 0.0


def standing(journal: Sequence[JournalEntry]) -> Standing:
    """Reads the journal. Raises EvidenceError where its entries do not follow each other."""
    now = Standing(elapsed_seconds=elapsed_seconds(journal))
    running: JournalEntry | None = None
    for entry in journal:
        if entry.event == "step-finished":
            if running is None or _place(running) != _place(entry):
                raise EvidenceError(f"journal entry {entry.seq}: {entry.step} finished without having started")
            now = _cut(now, running) if entry.outcome == "interrupted" else _after(now, entry)
            running = None
            continue
        if running is not None:
            if entry.event == "step-started":
                raise EvidenceError(f"journal entry {entry.seq}: {entry.step} started while {running.step} ran")
            now = _cut(now, running)
            running = None
        if entry.event == "step-started":
            running = entry
            now = replace(now, last_session=max(now.last_session, entry.session or 0))
        elif entry.event == "segment-started":
            now = replace(now, segment=now.segment + 1, ready=False, errors_in_a_row=0, engine_gone=False)
    return now if running is None else _cut(now, running)


def elapsed_seconds(journal: Sequence[JournalEntry]) -> float:
    """Time that passed within segments; what lies between two of them does not count, nor a clock that was set back."""
    return fsum(  # rounds once, so that every Python gives the same last digit
        max(0.0, entry.at - before.at) for before, entry in pairwise(journal) if entry.event != "segment-started"
    )


def engine_error(entry: JournalEntry) -> bool:
    """The engine failed a session through no fault of the subject.

    A prompt over the context window is the subject's own doing: a fresh session that is told so can do better, and the
    same session run again cannot. It is charged as an attempt.
    """
    return entry.outcome == "engine-error" and entry.kind != "context"


def _place(entry: JournalEntry) -> tuple[object, ...]:
    return entry.step, entry.session, entry.task, entry.attempt, entry.retry


def _cut(now: Standing, started: JournalEntry) -> Standing:
    """A step that was stopped or died with the harness changes nothing; it is only remembered."""
    return now if started.step == "preflight" else replace(now, cut=started)


def _after(now: Standing, entry: JournalEntry) -> Standing:
    """What a step that ended by itself changes."""
    if entry.step == "preflight":
        return replace(now, ready=True)
    now = replace(now, cut=None)
    if entry.session is not None:
        now = replace(
            now,
            sessions=now.sessions + 1,
            output_tokens=now.output_tokens + int(entry.detail.get("output_tokens") or 0),
        )
        if engine_error(entry):
            return replace(
                now,
                retry=now.retry + 1,
                errors_in_a_row=now.errors_in_a_row + 1,
                last_error=_fault(entry),
                engine_gone=entry.kind == "engine-dead",
            )
        now = replace(now, retry=0, errors_in_a_row=0)
    if entry.step == "session":
        return replace(now, only_session=entry)
    if entry.step == "bootstrap":
        return _after_bootstrap(now, entry)
    if entry.step == "final-reviewer":
        return _after_final_review(now, entry)
    task = now.tasks.get(entry.task or "")
    if task is None or now.plan is None:
        raise EvidenceError(f"journal entry {entry.seq}: {entry.step} of {entry.task}, which no plan names")
    if entry.step == "replan":
        return _after_replan(now, now.plan, task, entry)
    return replace(now, tasks={**now.tasks, task.card.id: _after_task_step(task, entry)})


def _after_bootstrap(now: Standing, entry: JournalEntry) -> Standing:
    if entry.outcome != "done":
        return replace(now, bootstraps=now.bootstraps + 1, bootstrap_trouble=_trouble(entry))
    plan = plan_from_data(entry.detail["plan"])
    return replace(now, plan=plan, tasks={card.id: TaskStanding(card=card) for card in plan.tasks})


def _after_replan(now: Standing, old: Plan, task: TaskStanding, entry: JournalEntry) -> Standing:
    task = replace(task, replans=task.replans + 1, replan_trouble=_trouble(entry))
    tasks = {**now.tasks, task.card.id: task}
    plan = old
    if entry.outcome == "done":
        plan = plan_from_data(entry.detail["plan"])
        tasks = {card.id: replace(tasks.get(card.id, TaskStanding(card=card)), card=card) for card in plan.tasks}
    return replace(now, plan=plan, tasks=tasks, replans=now.replans + 1)


def _after_final_review(now: Standing, entry: JournalEntry) -> Standing:
    now = replace(now, final_reviews=now.final_reviews + 1)
    if entry.outcome != "done":
        return replace(now, final_unanswered=now.final_unanswered + 1)
    if entry.verdict == "ACCEPT":
        return replace(now, accepted=True)
    changes = now.final_changes + 1
    reasons = str(entry.detail.get("reasons") or "The final reviewer gave no reasons.")
    card = Task(
        id=f"F{changes:03d}",
        title="Mend what the final review found",
        requirements=tuple(item.id for item in now.plan.requirements) if now.plan else (),
        depends_on=(),
        checks=(),
        text=reasons,
    )
    return replace(
        now,
        final_changes=changes,
        final_unanswered=0,
        tasks={**now.tasks, card.id: TaskStanding(card=card)},
    )


def _after_task_step(task: TaskStanding, entry: JournalEntry) -> TaskStanding:
    failed = replace(task, state="build", failed=task.failed + 1, unanswered=0, trouble=_trouble(entry))
    if entry.step == "builder":
        return replace(task, state="verify", unanswered=0) if entry.outcome == "done" else failed
    if entry.step == "verify":
        return replace(task, state="review") if entry.outcome == "passed" else failed
    reviews = task.reviews + 1
    if entry.outcome != "done":
        return replace(task, reviews=reviews, unanswered=task.unanswered + 1)
    if entry.verdict == "ACCEPT":
        return replace(task, reviews=reviews, state="done", trouble=())
    return replace(failed, reviews=reviews, changes=task.changes + 1)


def _trouble(entry: JournalEntry) -> tuple[str, ...]:
    """What a charged step got wrong, as the next attempt is shown it; nothing where it went well."""
    found = [str(item) for item in entry.detail.get("problems") or ()]
    if entry.verdict == "CHANGES":
        found.append(str(entry.detail.get("reasons") or "The reviewer asked for changes and gave no reasons."))
    elif entry.outcome not in ("done", "passed") and not found:
        found.append(f"The session ended early: {_fault(entry)}")
    return tuple(found)


def _fault(entry: JournalEntry) -> str:
    return str(entry.detail.get("reason") or entry.kind or entry.outcome)
