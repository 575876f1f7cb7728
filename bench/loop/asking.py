"""Which facts each role's prompt is given: the plan, the task, what went wrong, what verify said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from bench.contracts import Role
from bench.errors import HarnessError
from bench.loop.plan import Plan
from bench.loop.prompting import render
from bench.loop.standing import Standing, TaskStanding, standing
from bench.loop.steps import Step
from bench.records.schema import JournalEntry
from bench.spec import Workload

_CHECKS_SHOWN = 200


def prompt_for(role: Role, step: Step, workload: Workload, journal: Sequence[JournalEntry]) -> str:
    """The whole prompt of the session that a step runs."""
    values: dict[str, Any] = {"brief": workload.brief.strip(), "trouble": step.trouble}
    if role == "session":
        return render(role, values)
    if role == "bootstrap":
        return render(role, {**values, "verify_seconds": f"{workload.limits.verify_seconds:g}"})
    now = standing(journal)
    if now.plan is None:
        raise HarnessError(f"a {role} session was asked for before there is a plan")
    values["requirements"] = now.plan.requirements
    if step.task is not None:
        task = now.tasks[step.task]
        values["task"] = task.card
        values.update(_MORE.get(role, _nothing_more)(now, now.plan, task, journal))
    return render(role, values)


def _nothing_more(_now: Standing, _plan: Plan, _task: TaskStanding, _journal: Sequence[JournalEntry]) -> dict[str, Any]:
    return {}


def _for_review(_now: Standing, plan: Plan, task: TaskStanding, journal: Sequence[JournalEntry]) -> dict[str, Any]:
    wanted = [item for item in plan.requirements if item.id in task.card.requirements]
    return {"requirements": wanted, "verified": _verified(journal)}


def _for_replan(now: Standing, plan: Plan, task: TaskStanding, _journal: Sequence[JournalEntry]) -> dict[str, Any]:
    done = [name for name, other in now.tasks.items() if other.state == "done"]
    return {
        "plan": json.dumps(asdict(plan), indent=1, ensure_ascii=False),
        "done": done,
        "task_trouble": task.trouble,
    }


_MORE: dict[Role, Callable[[Standing, Plan, TaskStanding, Sequence[JournalEntry]], dict[str, Any]]] = {
    "reviewer": _for_review,
    "replan": _for_replan,
}


def _verified(journal: Sequence[JournalEntry]) -> str:
    """What the harness's last verify found, a line a call."""
    last = next(
        (entry for entry in reversed(journal) if entry.step == "verify" and entry.event == "step-finished"), None
    )
    lines = []
    for run in last.detail["runs"] if last is not None else ():
        checks = run["checks"]
        ids = ", ".join(check["id"] for check in checks[:_CHECKS_SHOWN])
        more = f" and {len(checks) - _CHECKS_SHOWN} more" if len(checks) > _CHECKS_SHOWN else ""
        lines.append(f"- `./verify {' '.join(run['arguments'])}`: {len(checks)} checks, all ok: {ids}{more}")
    return "\n".join(lines)
