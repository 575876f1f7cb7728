"""What the loop does next. Pure: the journal and the limits decide, no clock and no file does.

    preflight -> bootstrap -> for each task: builder -> verify -> reviewer -> final reviewer -> COMPLETE

* A bootstrap, builder or replan session that ends in an agent error, on a limit or on a prompt over the context window
  is an attempt used up, and so is a failed verify or a review that returns CHANGES. The next attempt is told why.
* A task whose attempts are used up is replanned: the plan splits, drops or blocks it. A run with a blocked task cannot
  be complete; it ends unconverged once everything else is built.
* A final review that returns CHANGES makes the repair task F001 (F002 ...) of its reasons; then it is held again.
* A review that gives no verdict is held again, at most `attempts_per_task` times on the same work.
* A session that the engine failed is run again, uncharged, after a wait that doubles; too many in a row block the run, and so
  does an engine that is gone, at once.
* Every session that ended by itself counts against `sessions`, those that the engine failed too; cut ones do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bench.loop.plan import order
from bench.loop.standing import Standing, TaskStanding, standing
from bench.records.schema import JournalEntry, StepKind
from bench.spec import Drive, Limits

_LONGEST_WAIT = 60
"""As many times `backoff_seconds`."""


@dataclass(frozen=True, kw_only=True)
class Step:
    kind: StepKind
    reason: str
    """Why this step, in one sentence."""

    session: int | None = None
    """Number of the agent session to be run; None for preflight and verify."""

    task: str | None = None
    attempt: int = 1
    retry: int = 0
    wait_seconds: float = 0.0
    """To be waited before it begins."""

    trouble: tuple[str, ...] = ()
    """What the last attempt got wrong, for the prompt."""


@dataclass(frozen=True, kw_only=True)
class End:
    kind: Literal["complete", "unconverged", "limited", "blocked", "interrupted"]
    reason: str


def next_step(journal: Sequence[JournalEntry], limits: Limits, drive: Drive) -> Step | End:
    """The next step of a run, or its end. Raises EvidenceError where the journal's entries do not follow each other.

    `interrupted` is never returned: whoever performs the steps stops by himself, and the journal goes on from there.
    """
    now = standing(journal)
    wanted = _only_session(now) if drive == "session" else _task_loop(now, limits)
    if isinstance(wanted, End):
        return wanted
    if now.engine_gone:
        return End(kind="blocked", reason=f"the engine is gone: {now.last_error}")
    if now.errors_in_a_row and now.errors_in_a_row >= limits.engine_errors_in_a_row:
        return End(
            kind="blocked", reason=f"{now.errors_in_a_row} engine errors in a row, the last one: {now.last_error}"
        )
    session = None if wanted.kind == "verify" else now.last_session + 1
    if limit := _limit_reached(now, limits, session):
        return End(kind="limited", reason=limit)
    if not now.ready:
        return Step(kind="preflight", reason=f"segment {max(now.segment, 1)} begins")
    return _again(replace(wanted, session=session), now, limits)


def _limit_reached(now: Standing, limits: Limits, session: int | None) -> str | None:
    if now.elapsed_seconds >= limits.wall_clock_seconds:
        return f"the limit of {limits.wall_clock_seconds:,.0f} s of wall clock is reached"
    if now.output_tokens >= limits.output_tokens_per_run:
        return f"the limit of {limits.output_tokens_per_run:,} output tokens is reached ({now.output_tokens:,})"
    if session is not None and now.sessions >= limits.sessions:
        return f"the limit of {limits.sessions} sessions is reached"
    return None


def _again(step: Step, now: Standing, limits: Limits) -> Step:
    """The step as a retry after an engine error, or anew where it was cut."""
    if step.session is not None and now.retry:
        row = now.errors_in_a_row
        wait = limits.backoff_seconds * min(2 ** (row - 1), _LONGEST_WAIT) if row else 0.0
        step = replace(step, retry=now.retry, wait_seconds=wait, reason=f"run again, uncharged: {now.last_error}")
    if now.cut is not None:
        step = replace(step, reason=f"{now.cut.step} was cut and runs anew")
    return step


def _only_session(now: Standing) -> Step | End:
    ended = now.only_session
    if ended is None:
        return Step(kind="session", reason="the workload is driven by one session")
    if ended.outcome == "done":
        return End(kind="complete", reason="")
    said = str(ended.detail.get("reason") or ended.kind or ended.outcome)
    if ended.outcome == "agent-error":
        return End(kind="unconverged", reason=f"the session ended in an agent error: {said}")
    return End(kind="limited", reason=f"the session ended on a limit: {said}")


def _task_loop(now: Standing, limits: Limits) -> Step | End:
    if now.plan is None:
        return _bootstrap(now, limits)
    if now.final_changes and now.final_changes >= limits.final_reviews:
        return End(kind="unconverged", reason=f"not accepted after {now.final_changes} final reviews")
    names = [*order(now.plan), *(name for name, task in now.tasks.items() if task.repair)]
    for name in names:
        if now.tasks[name].state != "done":
            return _task_step(now, now.tasks[name], limits)
    blocked = [card for card in now.plan.tasks if card.status == "blocked"]
    if blocked:
        said = "; ".join(f"{card.id} is blocked: {card.reason}" for card in blocked)
        return End(kind="unconverged", reason=f"every other task is done, but {said}")
    return _final_review(now, limits)


def _bootstrap(now: Standing, limits: Limits) -> Step | End:
    if now.bootstraps >= limits.bootstrap_attempts:
        last = now.bootstrap_trouble[0] if now.bootstrap_trouble else "none was allowed"
        return End(kind="unconverged", reason=f"no usable plan after {now.bootstraps} bootstrap attempts: {last}")
    again = now.bootstrap_trouble
    return Step(
        kind="bootstrap",
        attempt=now.bootstraps + 1,
        reason=f"the last plan was not usable: {again[0]}" if again else "there is no plan yet",
        trouble=again,
    )


def _task_step(now: Standing, task: TaskStanding, limits: Limits) -> Step | End:
    name = task.card.id
    attempt = task.failed + 1
    if task.state == "verify":
        return Step(kind="verify", task=name, attempt=attempt, reason=f"the builder says that {name} is done")
    if task.state == "review":
        if task.unanswered >= limits.attempts_per_task:
            return End(kind="unconverged", reason=f"no verdict on {name} in {task.unanswered} reviews")
        return Step(
            kind="reviewer",
            task=name,
            attempt=task.reviews + 1,
            reason=f"the last review of {name} gave no verdict" if task.unanswered else f"verify passed for {name}",
            trouble=_no_verdict(task.unanswered),
        )
    if task.failed >= limits.attempts_per_task:
        return _replan(now, task, limits)
    return Step(
        kind="builder",
        task=name,
        attempt=attempt,
        reason=f"attempt {task.failed} at {name} failed" if task.failed else f"{name} is the next open task",
        trouble=task.trouble,
    )


def _replan(now: Standing, task: TaskStanding, limits: Limits) -> Step | End:
    name = task.card.id
    spent = f"{name} is not done after {task.failed} attempts"
    if task.repair:
        return End(kind="unconverged", reason=f"{spent}, and a repair is not replanned")
    if now.replans >= limits.replans:
        return End(kind="unconverged", reason=f"{spent}, and all {now.replans} replans are used up")
    return Step(
        kind="replan",
        task=name,
        attempt=task.replans + 1,
        reason=f"the last replan was not usable: {task.replan_trouble[0]}" if task.replan_trouble else spent,
        trouble=task.replan_trouble,
    )


def _final_review(now: Standing, limits: Limits) -> Step | End:
    if now.accepted:
        return End(kind="complete", reason="")
    if limits.final_reviews == 0:
        return End(kind="unconverged", reason="every task is done, but no final review is allowed")
    if now.final_unanswered >= limits.attempts_per_task:
        return End(kind="unconverged", reason=f"no verdict in {now.final_unanswered} final reviews")
    return Step(
        kind="final-reviewer",
        attempt=now.final_reviews + 1,
        reason="the last final review gave no verdict" if now.final_unanswered else "every task is done",
        trouble=_no_verdict(now.final_unanswered),
    )


def _no_verdict(unanswered: int) -> tuple[str, ...]:
    return ("The last review of this work ended without a verdict line.",) if unanswered else ()
