"""Runs a workload step by step: asks `next_step`, writes down that a step starts, performs it, writes down how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.contracts import (
    Progress,
    ProgressSink,
    Role,
    SessionLabel,
    SessionRequest,
    SessionResult,
    SessionRunner,
    VerifyRequest,
    VerifyResult,
    VerifyRunner,
)
from bench.errors import EvidenceError, RuncardError
from bench.loop.asking import prompt_for
from bench.loop.journal import Journal, last_snapshot
from bench.loop.judging import Judged, judge_answer, judge_plan, start_problem, unusable
from bench.loop.prompting import prompts_digest
from bench.loop.standing import standing
from bench.loop.steps import End, Step, next_step
from bench.loop.taming import tame
from bench.loop.workspace import Workspace
from bench.records.schema import EntryEvent
from bench.spec import Workload

_WAIT_SLICE_SECONDS = 0.1
_READ_ONLY = ("reviewer", "final-reviewer")


@dataclass(frozen=True, kw_only=True)
class LoopParts:
    """What a run is made of, bound together by the caller."""

    workload: Workload
    run_id: str
    journal: Journal
    workspace: Workspace
    run_session: SessionRunner
    run_verify: VerifyRunner
    preflight: Callable[[], str]
    """Probes the engine before the first session of a segment and says what it found; raises where it cannot serve."""

    model: str
    context_window: int | None
    sessions_folder: Path
    """Evidence of session 7 goes to `007/` in it."""

    progress: ProgressSink
    stop_requested: Callable[[], bool]
    clock: Callable[[], float]
    """Unix seconds."""

    sleep: Callable[[float], None]
    cache: str | None = None
    """State of the engine's prefix cache as this segment begins, and how it is known."""

    salt: str | None = None
    """A line that every prompt begins with; None: none is needed."""

    configuration: Mapping[str, Any] = field(default_factory=dict)
    """What else a segment is run with (engine version, harness digest ...), as JSON; changes between segments are noted."""


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """How a step ended, as the journal is told."""

    outcome: str
    said: str
    """What the progress line says of it: `done in 3.2 s, 6 requests`."""

    kind: str | None = None
    verdict: Literal["ACCEPT", "CHANGES"] | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


def drive(parts: LoopParts) -> End:
    """Goes on with a run until it ends or is stopped, and says how it ended.

    A run that is complete, unconverged or limited already is left as it is: no segment begins. Raises what the parts
    raise; the journal then says that the segment broke, unless it is the journal or its evidence that did.
    """
    journal = parts.journal
    if journal.entries:
        step = next_step(journal.entries, parts.workload.limits, parts.workload.drive)
        if isinstance(step, End) and step.kind != "blocked":
            return step
    _open_segment(parts)
    try:
        end = _loop(parts)
    except EvidenceError:
        raise
    except RuncardError as error:
        _close_segment(parts, "broken", str(error))
        raise
    _close_segment(parts, end.kind, end.reason)
    return end


def _loop(parts: LoopParts) -> End:
    while not isinstance(step := next_step(parts.journal.entries, parts.workload.limits, parts.workload.drive), End):
        if not _waited(parts, step):
            return End(kind="interrupted", reason=f"stopped before: {_name(step)}")
        if _perform(parts, step).outcome == "interrupted":
            return End(kind="interrupted", reason=f"stopped in: {_name(step)}")
    return step


def _open_segment(parts: LoopParts) -> None:
    entries = parts.journal.entries
    digest = last_snapshot(entries)
    if digest is None:
        parts.workspace.begin(parts.workload.starter)
    else:
        parts.workspace.go_back(digest)
    configuration = {
        "prompts": prompts_digest(),
        "workload": f"{parts.workload.id} revision {parts.workload.revision}",
        "brief": parts.workload.brief_sha256,
        "limits": asdict(parts.workload.limits),
        "model": parts.model,
        "context_window": parts.context_window,
        **parts.configuration,
    }
    earlier = next((item.detail for item in reversed(entries) if item.event == "segment-started"), None)
    before = earlier.get("configuration", {}) if earlier else configuration
    changed = sorted(key for key in {*before, *configuration} if before.get(key) != configuration.get(key))
    detail: dict[str, Any] = {"configuration": configuration, "changed": changed}
    detail |= {"cache": parts.cache, "salt": parts.salt}
    if parts.journal.torn is not None:
        detail["torn"] = parts.journal.torn
        parts.progress(Progress(text=parts.journal.torn))
    if changed:
        parts.progress(Progress(text=f"changed since the last segment: {', '.join(changed)}"))
    parts.journal.append("segment-started", at=parts.clock(), detail=detail)


def _close_segment(parts: LoopParts, outcome: str, reason: str) -> None:
    parts.journal.append("segment-ended", at=parts.clock(), outcome=outcome, detail={"reason": tame(reason, 2_000)})


def _waited(parts: LoopParts, step: Step) -> bool:
    """Waits before a step; False as soon as the run is to stop."""
    if step.wait_seconds > 0:
        parts.progress(Progress(text=f"waiting {step.wait_seconds:.1f} s after an engine error"))
    left = step.wait_seconds
    while not parts.stop_requested():
        if left <= 0:
            return True
        parts.sleep(min(left, _WAIT_SLICE_SECONDS))
        left -= _WAIT_SLICE_SECONDS
    return False


def _perform(parts: LoopParts, step: Step) -> _Ended:
    def note(event: EntryEvent, **more: Any) -> None:
        parts.journal.append(
            event,
            at=parts.clock(),
            step=step.kind,
            session=step.session,
            task=step.task,
            attempt=step.attempt,
            retry=step.retry,
            snapshot=parts.workspace.current.digest,
            **more,
        )

    note("step-started", detail={"reason": step.reason})
    parts.progress(Progress(text=_name(step)))
    if step.kind == "preflight":
        found = parts.preflight()
        ended = _Ended(outcome="done", said=found, detail={"found": found})
    elif step.kind == "verify":
        ended = _verify(parts, step)
    else:
        ended = _session(parts, step)
    note("step-finished", outcome=ended.outcome, kind=ended.kind, verdict=ended.verdict, detail=ended.detail)
    parts.progress(Progress(text=f"{_name(step)} ... {ended.said}"))
    return ended


def _verify(parts: LoopParts, step: Step) -> _Ended:
    """The project's own checks, all of them and then those of the task; what they write is thrown away."""
    card = standing(parts.journal.entries).tasks[str(step.task)].card
    calls = [("--all",), ("--task", card.id)] if card.checks else [("--all",)]
    results = [(call, _run_verify(parts, call)) for call in calls]
    settled = parts.workspace.settle(keep=False)
    problems = [problem for call, result in results if (problem := _verify_problem(call, result))]
    printed = {check.id for check in results[-1][1].checks}
    missing = [check for check in card.checks if check not in printed]
    if missing and not problems:
        problems.append(f"`./verify --task {card.id}` did not print these checks of the plan: {', '.join(missing)}.")
    outcome = "failed" if problems else "passed"
    if problems and parts.stop_requested():
        outcome = "interrupted"
    seconds = sum(result.seconds for _, result in results)
    count = len({check.id for _, result in results for check in result.checks})
    return _Ended(
        outcome=outcome,
        said=f"{outcome} in {seconds:.1f} s, {count} checks",
        detail={
            "runs": [{"arguments": list(call), **asdict(result)} for call, result in results],
            "problems": problems,
            "seconds": seconds,
            "changed": list(settled.changed),
        },
    )


def _run_verify(parts: LoopParts, arguments: tuple[str, ...]) -> VerifyResult:
    return parts.run_verify(
        VerifyRequest(
            project=parts.workspace.project, arguments=arguments, seconds=parts.workload.limits.verify_seconds
        )
    )


def _verify_problem(arguments: tuple[str, ...], result: VerifyResult) -> str | None:
    if result.passed:
        return None
    return f"`./verify {' '.join(arguments)}` did not pass: {result.reason}\n\nIt printed:\n\n{result.output or '(nothing)'}"


def _session(parts: LoopParts, step: Step) -> _Ended:
    number = step.session or 0
    role: Role = step.kind  # type: ignore[assignment]  # verify, the one kind that is no role, is performed elsewhere
    limits = parts.workload.limits
    now = standing(parts.journal.entries)
    evidence = parts.sessions_folder / f"{number:03d}"
    try:
        evidence.mkdir(parents=True)
    except OSError as error:
        raise EvidenceError(f"{evidence}: the folder of session {number} cannot be made ({error.strerror})") from error
    result = parts.run_session(
        SessionRequest(
            label=SessionLabel(
                run_id=parts.run_id,
                session=number,
                role=role,
                task=step.task,
                attempt=step.attempt,
                retry=step.retry,
            ),
            prompt=_salted(prompt_for(role, step, parts.workload, parts.journal.entries), parts.salt),
            project=parts.workspace.project,
            evidence=evidence,
            model=parts.model,
            context_window=parts.context_window,
            output_tokens_per_request=min(
                limits.output_tokens_per_request, limits.output_tokens_per_run - now.output_tokens
            ),
            requests=limits.requests_per_session,
            output_tokens=limits.output_tokens_per_run - now.output_tokens,
            seconds=max(1.0, min(limits.session_seconds, limits.wall_clock_seconds - now.elapsed_seconds)),
            no_progress_seconds=limits.no_progress_seconds,
        )
    )
    return _after_session(parts, step, result)


def _salted(prompt: str, salt: str | None) -> str:
    """A prompt that no earlier run can have sent."""
    return prompt if salt is None else f"{salt}\n\n{prompt}"


def _after_session(parts: LoopParts, step: Step, result: SessionResult) -> _Ended:
    """Settles the workspace and judges what the session was there for."""
    before = parts.workspace.current.digest
    charged = result.outcome not in ("interrupted", "engine-error") or result.kind == "context"
    settled = parts.workspace.settle(keep=charged and step.kind not in _READ_ONLY)
    judged = Judged(outcome=result.outcome, kind=result.kind, reason=tame(result.reason, 2_000))
    if result.outcome == "done":
        judged = _judge(parts, step, result)
    if judged.outcome == "interrupted":
        parts.workspace.go_back(before)
    detail: dict[str, Any] = {
        **judged.detail,
        "reason": judged.reason,
        "exit_code": result.exit_code,
        "session_started_at": result.started_at,
        "seconds": result.seconds,
        "requests": result.requests,
        "output_tokens": result.output_tokens,
        "tool_calls": result.tool_calls,
        "changed": list(settled.changed),
        "rejected": list(settled.rejected),
    }
    if result.stream_damage is not None:
        detail["stream_damage"] = tame(result.stream_damage, 4_000)
    said = judged.verdict or judged.outcome
    why = f": {judged.reason}" if judged.reason else ""
    return _Ended(
        outcome=judged.outcome,
        kind=judged.kind,
        verdict=judged.verdict,
        said=f"{said} in {result.seconds:.1f} s, {result.requests} requests{why}",
        detail=detail,
    )


def _judge(parts: LoopParts, step: Step, result: SessionResult) -> Judged:
    if step.kind in _READ_ONLY:
        return judge_answer(result.final_text)
    if step.kind not in ("bootstrap", "replan"):
        return Judged(outcome="done")
    now = standing(parts.journal.entries)
    judged = judge_plan(step, now, parts.workspace, parts.workload.brief)
    if step.kind == "replan" or judged.outcome != "done":
        return judged
    # One trial of verify before anything is built: a program that cannot run would fail every task to come.
    problem = start_problem(_run_verify(parts, ("--all",)))
    parts.workspace.settle(keep=False)
    if problem is None:
        return judged
    return Judged(outcome="interrupted") if parts.stop_requested() else unusable([problem])


def _name(step: Step) -> str:
    words = [f"session {step.session:03d} {step.kind}" if step.session is not None else step.kind]
    if step.kind == "session":
        words = [f"session {step.session or 0:03d}"]
    if step.task is not None:
        words.append(step.task)
    if step.kind != "preflight":
        words.append(f"attempt {step.attempt}")
    if step.retry:
        words.append(f"retry {step.retry}")
    return " ".join(words)
