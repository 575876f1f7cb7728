"""The plan of a task-loop run and its rules: what is wrong with one, in sentences, and in which order it is built."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bench.errors import EvidenceError

TaskFate = Literal["open", "blocked", "dropped", "split"]

MAX_TASKS = 60
MAX_REQUIREMENTS = 300


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One numbered demand that the plan takes from the brief."""

    id: str
    text: str
    quote: str
    """The words of the brief it comes from, whitespace apart."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One card: what one builder session is asked for."""

    id: str
    title: str
    requirements: tuple[str, ...]
    depends_on: tuple[str, ...]
    checks: tuple[str, ...]
    """Ids that `./verify --task ID` must print."""

    text: str = ""
    status: TaskFate = "open"
    reason: str = ""
    """Why a replan blocked, dropped or split it."""

    replaced_by: tuple[str, ...] = ()
    """Of a split task: the tasks that stand in its place."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    requirements: tuple[Requirement, ...]
    tasks: tuple[Task, ...]

    def task(self, task_id: str) -> Task | None:
        return next((task for task in self.tasks if task.id == task_id), None)


def plan_from_data(data: Mapping[str, Any]) -> Plan:
    """The plan as the journal holds it (it was checked before it was stored). Raises EvidenceError on another shape."""
    try:
        return Plan(
            requirements=tuple(Requirement(**item) for item in data["requirements"]),
            tasks=tuple(Task(**_tupled(item)) for item in data["tasks"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise EvidenceError(
            f"the journal holds a plan of another form ({error}); this run cannot be resumed"
        ) from error


def _tupled(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()}


def order(plan: Plan) -> tuple[str, ...]:
    """Open tasks so that each stands after those it depends on, otherwise as the plan lists them.

    A dependency on a split task means all tasks in its place; one on a dropped task means nothing. Tasks that wait
    for each other, or for a blocked one, are left out.
    """
    cards = {task.id: task for task in plan.tasks}
    waiting = [task for task in plan.tasks if task.status == "open"]
    placed: list[str] = []
    while ready := next((task for task in waiting if _waits_for(task, cards) <= set(placed)), None):
        placed.append(ready.id)
        waiting.remove(ready)
    return tuple(placed)


def _waits_for(task: Task, cards: Mapping[str, Task]) -> set[str]:
    found: set[str] = set()
    seen: set[str] = set()
    queue = list(task.depends_on)
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        card = cards.get(name)
        if card is not None and card.status == "split":
            queue.extend(card.replaced_by)
        elif card is None or card.status != "dropped":
            found.add(name)
    return found


def first_plan_problems(plan: Plan, brief: str) -> tuple[str, ...]:
    """What is wrong with a bootstrap session's plan; each a sentence that the next attempt is shown."""
    problems = [*_shape_problems(plan), *_quote_problems(plan, brief)]
    problems += [
        f"{task.id} has the status {task.status}; in a first plan every task is open."
        for task in plan.tasks
        if task.status != "open"
    ]
    return tuple(problems) or _reference_problems(plan)


def replan_problems(old: Plan, new: Plan, *, failing: str, done: Iterable[str]) -> tuple[str, ...]:
    """What is wrong with a replan session's plan. It may drop, block or split open tasks, and nothing else is lost."""
    finished = set(done)
    problems = list(_shape_problems(new))
    if new.requirements != old.requirements:
        problems.append("The requirements must stay exactly as they were.")
    for task in old.tasks:
        card = new.task(task.id)
        if card is None:
            problems.append(f"{task.id} is missing; a task that is given up keeps its card, with status and reason.")
        elif (task.id in finished or task.status != "open") and card != task:
            state = "done" if task.id in finished else task.status
            problems.append(f"{task.id} is {state} and must stay as it is.")
    failed = new.task(failing)
    if failed is not None and failed.status == "open":
        problems.append(f"{failing} used up its attempts; it must get the status split, dropped or blocked.")
    known = {task.id for task in old.tasks}
    for task in new.tasks:
        if task.status != "open" and not task.reason.strip():
            problems.append(f"{task.id} is {task.status} without a reason.")
        stale = [name for name in task.replaced_by if name in known]
        if stale and old.task(task.id) != task:
            problems.append(
                f"{task.id} is replaced by {', '.join(stale)}; the parts of a split task must be new tasks."
            )
    return tuple(problems) or _reference_problems(new)


def _shape_problems(plan: Plan) -> list[str]:
    problems = []
    if not plan.requirements:
        problems.append("There is no requirement.")
    if not plan.tasks:
        problems.append("There is no task.")
    if len(plan.tasks) > MAX_TASKS:
        problems.append(f"There are {len(plan.tasks)} tasks; at most {MAX_TASKS} are allowed.")
    if len(plan.requirements) > MAX_REQUIREMENTS:
        problems.append(f"There are {len(plan.requirements)} requirements; at most {MAX_REQUIREMENTS} are allowed.")
    for letter, what, names in (
        ("R", "requirement", [item.id for item in plan.requirements]),
        ("T", "task", [item.id for item in plan.tasks]),
    ):
        problems += [
            f"{name!r} is no {what} id; expected the form {letter}001."
            for name in names
            if not re.fullmatch(rf"{letter}[0-9]{{3}}", name)
        ]
        problems += [f"The id {name} stands {count} times." for name, count in Counter(names).items() if count > 1]
    problems += [f"{item.id} has no text." for item in plan.requirements if not item.text.strip()]
    problems += [f"{task.id} has no title." for task in plan.tasks if not task.title.strip()]
    for task in plan.tasks:
        if not task.checks:
            problems.append(f"{task.id} has no checks.")
        problems += [
            f"{task.id}: {check!r} is no check id; expected one word without spaces, at most 120 characters."
            for check in task.checks
            if not re.fullmatch(r"\S{1,120}", check)
        ]
        if (task.status == "split") != bool(task.replaced_by):
            problems.append(f"{task.id}: replaced_by must list the new tasks of a split task, and only there.")
    return problems


def _quote_problems(plan: Plan, brief: str) -> list[str]:
    said = " ".join(brief.split())
    return [
        f"{item.id}: the quote does not stand in the brief word for word: {item.quote[:120]!r}."
        for item in plan.requirements
        if not item.quote.strip() or " ".join(item.quote.split()) not in said
    ]


def _reference_problems(plan: Plan) -> tuple[str, ...]:
    """Coverage and order; only asked of a plan whose ids are sound."""
    cards = {task.id: task for task in plan.tasks}
    requirements = {item.id for item in plan.requirements}
    problems = []
    for task in plan.tasks:
        problems += [
            f"{task.id} names the requirement {name}, which does not exist."
            for name in task.requirements
            if name not in requirements
        ]
        problems += [
            f"{task.id} names the task {name}, which does not exist."
            for name in (*task.depends_on, *task.replaced_by)
            if name not in cards
        ]
        if task.status == "split":
            parts = {name for part in task.replaced_by if part in cards for name in cards[part].requirements}
            lost = [name for name in task.requirements if name not in parts]
            problems += [f"{name} was a requirement of {task.id}, but none of its parts covers it." for name in lost]
    covered = {name for task in plan.tasks if task.status in ("open", "blocked") for name in task.requirements}
    problems += [f"{item.id} is covered by no task." for item in plan.requirements if item.id not in covered]
    stuck = [task for task in plan.tasks if task.status == "open" and task.id not in order(plan)]
    blocked = {task.id for task in plan.tasks if task.status == "blocked"}
    behind = [task for task in stuck if _waits_for(task, cards) & blocked]
    problems += [f"{task.id} depends on a blocked task; change that, or block it too." for task in behind]
    if stuck and not behind and not problems:
        problems.append(f"These tasks wait for each other: {', '.join(task.id for task in stuck)}.")
    return tuple(problems)
