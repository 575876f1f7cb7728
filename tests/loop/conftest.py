"""A scripted subject: sessions and verify answers by rule, on real folders, for tests of the loop."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bench.contracts import CheckLine, SessionRequest, SessionResult, VerifyRequest, VerifyResult
from bench.loop.journal import Journal
from bench.loop.perform import LoopParts
from bench.loop.workspace import Workspace
from bench.spec import Limits, Workload

BRIEF = "Write greet.txt with a greeting.\nWrite   count.txt with a number.\n"


class Killed(BaseException):
    """The harness dies here, as by kill -9: nothing of ours may catch it."""


@pytest.fixture
def killed():
    return Killed


@pytest.fixture
def limits() -> Limits:
    return Limits(
        attempts_per_task=3,
        bootstrap_attempts=2,
        final_reviews=2,
        replans=2,
        sessions=100,
        wall_clock_seconds=1e6,
        session_seconds=60,
        no_progress_seconds=60,
        verify_seconds=5,
        output_tokens_per_request=1_000,
        output_tokens_per_run=10**9,
        requests_per_session=50,
        engine_errors_in_a_row=3,
        backoff_seconds=2,
    )


def plan_data() -> dict:
    return {
        "requirements": [
            {"id": "R001", "text": "a greeting", "quote": "Write greet.txt with a greeting."},
            {"id": "R002", "text": "a number", "quote": "Write count.txt with a number."},
        ],
        "tasks": [
            {"id": "T001", "title": "greet", "requirements": ["R001"], "depends_on": ["T002"], "checks": ["greet"]},
            {"id": "T002", "title": "count", "requirements": ["R002"], "depends_on": [], "checks": ["count"]},
        ],
    }


@pytest.fixture(name="plan_data")
def plan_data_fixture() -> dict:
    return plan_data()


@pytest.fixture
def brief() -> str:
    return BRIEF


@dataclass
class Subject:
    """Answers by (role, task, attempt, retry), the longest key that is there; `dies` kills the harness in that session."""

    answers: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)
    verify_fails: set = field(default_factory=set)
    seen: list = field(default_factory=list)
    prompts: dict = field(default_factory=dict)
    dies: tuple | None = None

    def session(self, request: SessionRequest) -> SessionResult:
        label = request.label
        key = (label.role, label.task, label.attempt, label.retry)
        self.seen.append(key)
        self.prompts[key] = request.prompt
        assert request.evidence.is_dir()
        assert not list(request.evidence.iterdir())
        (request.evidence / "events.jsonl").write_text("{}\n")
        if self.dies == key:
            (request.project / "half-written").write_text("x")
            raise Killed
        self._work(request, key)
        said = {"reviewer": "1. fine\nVERDICT: ACCEPT", "final-reviewer": "VERDICT: ACCEPT"}.get(label.role, "done")
        result = SessionResult(
            outcome="done",
            reason="",
            kind=None,
            final_text=said,
            exit_code=0,
            started_at=0.0,
            seconds=1.5,
            requests=3,
            output_tokens=100,
            tool_calls=2,
        )
        for length in range(1, 5):
            result = replace(result, **self.answers.get(key[:length], {}))
        return result

    def _work(self, request: SessionRequest, key: tuple) -> None:
        project = request.project
        if key[0] == "bootstrap" and key not in self.files:
            (project / "plan.json").write_text(json.dumps(plan_data()))
            (project / "verify").write_text("#!/bin/sh\n")
            (project / "verify").chmod(0o755)
        elif key[0] == "builder" and key not in self.files:
            log = project / f"{key[1]}.log"
            log.write_text((log.read_text() if log.exists() else "") + f"attempt {key[2]}\n")
        elif key[0] in ("reviewer", "final-reviewer"):
            (project / "review-notes").write_text("rubbish")
        for name, text in self.files.get(key, {}).items():
            (project / name).write_text(text)

    def verify(self, request: VerifyRequest) -> VerifyResult:
        (request.project / "verify-cache").write_text("rubbish")
        built = [name for name in ("T001", "T002") if (request.project / f"{name}.log").exists()]
        ids = {"T001": "greet", "T002": "count"}
        wanted = built if request.arguments == ("--all",) else [request.arguments[1]]
        bad = {
            name
            for name in wanted
            if (name, len((request.project / f"{name}.log").read_text().splitlines())) in self.verify_fails
        }
        checks = tuple(
            CheckLine(id=ids.get(name, name), ok=name not in bad, reason="wrong" if name in bad else "")
            for name in wanted
        )
        return VerifyResult(
            passed=bool(checks) and not bad,
            checks=checks,
            exit_code=1 if bad else 0,
            seconds=0.25,
            reason=f"{len(bad)} checks are not ok" if bad else "",
            output="".join(f"{'ok' if check.ok else 'not ok'} {check.id}\n" for check in checks),
        )


@pytest.fixture
def subject() -> Subject:
    return Subject()


@dataclass
class Bench:
    """Makes the parts of a loop in one folder, again and again, as a harness does that is started anew."""

    folder: Path
    limits: Limits
    lines: list = field(default_factory=list)
    slept: list = field(default_factory=list)
    now: float = 1_000.0
    dies_at_clock: int = 0
    clocks: int = 0
    stop: bool = False

    def clock(self) -> float:
        self.clocks += 1
        if self.clocks == self.dies_at_clock:
            raise Killed
        self.now += 1.0
        return self.now

    def parts(self, subject: Subject, **changes) -> LoopParts:
        values = {
            "workload": Workload(
                id="greet",
                revision=1,
                title="Greet",
                drive="task-loop",
                brief=BRIEF,
                brief_sha256="0" * 64,
                limits=self.limits,
                case_kind="command",
                entry="greet.txt",
                starter=None,
                hidden=self.folder / "hidden",
                score_group="model",
            ),
            "run_id": "run-1",
            "journal": Journal.open(self.folder / "journal.jsonl"),
            "workspace": Workspace(
                project=self.folder / "project", blobs=self.folder / "blobs", snapshots=self.folder / "snapshots"
            ),
            "run_session": subject.session,
            "run_verify": subject.verify,
            "preflight": lambda: "engine answers",
            "model": "m",
            "context_window": 4096,
            "sessions_folder": self.folder / "sessions",
            "progress": self.lines.append,
            "stop_requested": lambda: self.stop,
            "clock": self.clock,
            "sleep": self.slept.append,
        }
        return LoopParts(**{**values, **changes})


@pytest.fixture
def bench(tmp_path, limits) -> Bench:
    return Bench(folder=tmp_path, limits=limits)


@pytest.fixture
def bench_at(limits):
    return lambda folder: Bench(folder=folder, limits=limits)
