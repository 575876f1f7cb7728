"""Whether a session that ended by itself did what its role is there for: a usable plan, a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from bench.contracts import VerifyResult
from bench.loop.plan import Plan, first_plan_problems, replan_problems
from bench.loop.plan_file import MAX_BYTES, read_plan
from bench.loop.standing import Standing
from bench.loop.steps import Step
from bench.loop.taming import tame
from bench.loop.verdict import read_verdict
from bench.loop.workspace import Workspace

_NOT_RUNNABLE = (126, 127)
"""What a shell and `env` exit with where a program, or the interpreter in its first line, cannot be run."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A session's outcome, as far as the loop is concerned."""

    outcome: str
    kind: str | None = None
    reason: str = ""
    verdict: Literal["ACCEPT", "CHANGES"] | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


def judge_answer(final_text: str) -> Judged:
    """Of a reviewer: its verdict; without one, an agent error of the kind `no-verdict`."""
    found = read_verdict(final_text)
    if found is None:
        lines = final_text.strip().splitlines() or ["(nothing)"]
        return Judged(
            outcome="agent-error",
            kind="no-verdict",
            reason=f"no verdict: the answer ends with {tame(lines[-1], 120)!r}",
        )
    return Judged(outcome="done", verdict=found.verdict, detail={"reasons": tame(found.reasons, 20_000)})


def judge_plan(step: Step, now: Standing, workspace: Workspace, brief: str) -> Judged:
    """Of a bootstrap or replan session: the plan in the workspace's snapshot, or an agent error of the kind `plan`."""
    plan = read_plan(workspace.read("plan.json", at_most_bytes=MAX_BYTES))
    if not isinstance(plan, Plan):
        return unusable(plan)
    if now.plan is None:
        problems = [*first_plan_problems(plan, brief), *_verify_file_problems(workspace)]
    else:
        done = [name for name, task in now.tasks.items() if task.state == "done"]
        problems = list(replan_problems(now.plan, plan, failing=str(step.task), done=done))
    return unusable(problems) if problems else Judged(outcome="done", detail={"plan": asdict(plan)})


def unusable(problems: Sequence[str]) -> Judged:
    tamed = [tame(problem, 1_000) for problem in problems[:40]]
    more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    return Judged(outcome="agent-error", kind="plan", reason=f"{tamed[0]}{more}", detail={"problems": tamed})


def start_problem(trial: VerifyResult) -> str | None:
    """Why `verify` cannot be used at all. Failing checks are no reason: nothing is built yet."""
    if trial.exit_code is None or (trial.exit_code in _NOT_RUNNABLE and not trial.checks):
        return f"`./verify --all` could not be run: {trial.reason}\n\nIt printed:\n\n{trial.output or '(nothing)'}"
    return None


def _verify_file_problems(workspace: Workspace) -> list[str]:
    file = workspace.current.file("verify")
    if file is None:
        return ["There is no regular file `verify` in the project."]
    return [] if file.executable else ["`verify` is not executable; run `chmod +x verify`."]
