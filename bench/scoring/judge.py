"""Judges one project by the hidden cases of its workload, in a process of its own, and believes only whole answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from bench.errors import JudgeError
from bench.processes import descendants, is_alive, kill_all, send_signal
from bench.records.schema import CaseResult
from bench.scoring.boxed_call import REPLY_SECONDS
from bench.scoring.hidden_set import CaseId, case_files, expected_cases
from bench.spec import Workload, environment

_OUTCOMES = ("passed", "missed", "error")
_LOG_NAME = "judge.log"
_INTERRUPT_SECONDS = 2.0
_KILL_SECONDS = 10.0
_CALLS_PER_CASE = 4
"""More calls of the project than any case makes; sets the deadline of the whole."""


def judge(
    *,
    workload: Workload,
    project: Path,
    evidence: Path,
    unsafe: bool = False,
    reply_seconds: float = REPLY_SECONDS,
    order_seed: int | None = None,
    deadline_seconds: float | None = None,
) -> tuple[CaseResult, ...]:
    """Judges `project`, a folder that was restored from a snapshot, and returns one result for every expected case.

    The judge's own output is kept as `evidence/judge.log`. `reply_seconds` limits one call of the project,
    `order_seed` judges in a random order, `unsafe` does without a box. Cases that are not run are in the answer, too.
    Raises JudgeError where the judge's process gave no whole answer, FileFormatError for a broken hidden set.
    """
    hidden = workload.hidden.resolve()
    expected = expected_cases(hidden)
    judged = [case.id for case in expected if case.not_run is None]
    limit = deadline_seconds or 30 + _CALLS_PER_CASE * reply_seconds * len(judged)
    options = [
        *("--judge-project", str(project.resolve()), "--judge-kind", workload.case_kind),
        *("--judge-entry", workload.entry, "--judge-seconds", str(reply_seconds)),
        *(["--judge-unsafe"] if unsafe else []),
        *(["--judge-order", str(order_seed)] if order_seed is not None else []),
    ]
    evidence.mkdir(parents=True, exist_ok=True)
    log = evidence / _LOG_NAME
    # A file without a name: nobody else can find it, write to it or leave it half-written behind.
    with tempfile.TemporaryFile() as results, log.open("wb") as output:
        argv = (*_pytest_command(hidden), *options)
        _run_child(argv, hidden=hidden, results=results.fileno(), output=output, log=log, seconds=limit)
        results.seek(0)
        answers = _checked_answers(results.read(), judged, log=log)
    return tuple(_case_result(case, answers.get(case.id)) for case in expected)


def _pytest_command(hidden: Path) -> tuple[str, ...]:
    """An isolated pytest that reads no configuration, plugin or conftest from anywhere but the hidden set."""
    return (
        *(sys.executable, "-I", "-B", "-m", "pytest", "-c", os.devnull),
        *("--rootdir", str(hidden), "--confcutdir", str(hidden), "--import-mode=importlib"),
        *("-p", "no:cacheprovider", "-p", "bench.judge_plugin", "-W", "error", "--strict-markers"),
        *("-q", "--color=no", "--tb=short", "--show-capture=no"),
        *(str(file) for file in case_files(hidden)),
    )


def _run_child(
    argv: Sequence[str], *, hidden: Path, results: int, output: IO[bytes], log: Path, seconds: float
) -> None:
    """Runs the judge's process to its end, or to ours: it holds a pipe that closes with us, however we end.

    Its exit code means nothing: the answers that it writes to `results` decide.
    """
    theirs, ours = os.pipe()
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "LANG": "C.UTF-8", "PATH": environment("PATH") or os.defpath}
    env |= {name: value for name in ("TMPDIR", "HOME") if (value := environment(name))}
    try:
        child = subprocess.Popen(
            (*argv, "--judge-results", str(results), "--judge-lifeline", str(theirs)),
            cwd=hidden,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(results, theirs),
            start_new_session=True,
        )
        try:
            child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise JudgeError(f"judging did not end within {seconds:g} s; what it was doing: {log}") from None
        finally:
            _end(child)
    finally:
        os.close(theirs)
        os.close(ours)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the judge and all that it started. Asked first, so that its boxes are ended from inside."""
    if child.poll() is not None:
        return
    started = descendants(child.pid)
    send_signal(child.pid, signal.SIGINT)
    try:
        child.wait(timeout=_INTERRUPT_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    left = kill_all(lambda: [process for process in started if is_alive(process)], seconds=_KILL_SECONDS)
    if left:
        raise JudgeError(f"processes of the judge would not end: {', '.join(str(process.pid) for process in left)}")


def _checked_answers(text: bytes, judged: Sequence[str], *, log: Path) -> dict[str, Mapping[str, Any]]:
    """Exactly one answer for each judged case, or JudgeError."""
    answers: dict[str, Mapping[str, Any]] = {}
    for line in text.splitlines():
        try:
            answer = json.loads(line)
        except ValueError:
            raise _no_whole_answer(f"a line that is torn: {line[:80]!r}", log) from None
        case_id = answer["id"]
        if case_id in answers:
            raise _no_whole_answer(f"case {case_id} was judged twice", log)
        if case_id not in judged:
            raise _no_whole_answer(f"case {case_id} was not expected", log)
        if answer.get("outcome") not in _OUTCOMES:
            raise _no_whole_answer(f"case {case_id} has no outcome", log)
        answers[case_id] = answer
    if absent := [case_id for case_id in judged if case_id not in answers]:
        raise _no_whole_answer(f"not judged: {', '.join(absent)}", log)
    return answers


def _no_whole_answer(problem: str, log: Path) -> JudgeError:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
    told = "\n".join(["  " + line for line in lines if line.strip()])
    return JudgeError(f"the judge gave no whole answer: {problem}\nthe end of {log}:\n{told}")


def _case_result(case: CaseId, answer: Mapping[str, Any] | None) -> CaseResult:
    return CaseResult(
        id=case.id,
        group=case.group,
        outcome=answer["outcome"] if answer else "not-run",
        brief=case.brief,
        observed=answer.get("observed") if answer else None,
        expected=answer.get("expected") if answer else None,
        reason=answer["reason"] if answer else case.not_run,
        seconds=answer["seconds"] if answer else None,
    )
