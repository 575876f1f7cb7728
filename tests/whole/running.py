"""Starts the program as a person does, and reads what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parent.parent.parent
COMMAND = (sys.executable, "-m", "pytest", "bench")


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    seconds: float

    @property
    def last_line(self) -> str:
        return self.out.rstrip().splitlines()[-1]

    @property
    def record(self) -> dict:
        return json.loads(Path(self.last_line).read_text())

    def figure(self, name: str):
        return next(figure["value"] for figure in self.record["figures"] if figure["id"] == name)

    def missed(self) -> list[str]:
        return sorted(case["id"] for case in self.record["cases"] if case["outcome"] == "missed")

    def passed(self) -> int:
        return sum(case["outcome"] == "passed" for case in self.record["cases"])


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV"))}
    return {**kept, "COLUMNS": "150"}


def bench(*arguments: str, timeout: float = 280) -> Finished:
    """`pytest bench ARGUMENTS`, waited for."""
    started = time.monotonic()
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Finished(done.returncode, done.stdout + done.stderr, time.monotonic() - started)


def begin(*arguments: str, log: Path) -> subprocess.Popen:
    """The same, started and left running; its output goes to a file."""
    with log.open("wb") as out:
        return subprocess.Popen(
            [*COMMAND, *arguments], cwd=REPOSITORY, env=environment(), stdout=out, stderr=subprocess.STDOUT
        )


def wait_for(condition, seconds: float, what: str):
    """Polls until `condition()` gives something true, and gives that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come within {seconds} s")


def children_of(pid: int) -> list[psutil.Process]:
    """Every process below one, by object: ids may be used again."""
    return psutil.Process(pid).children(recursive=True)


def still_there(processes: list[psutil.Process], seconds: float = 10) -> list[psutil.Process]:
    """Those that live on after a grace time."""
    return psutil.wait_procs(processes, timeout=seconds)[1]


def journal(run: Path) -> list[dict]:
    """Whole lines of a run's journal."""
    path = run / "journal.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def truth(run: Path) -> list[dict]:
    """What the embedded engine says that it really did, over all its launches; the preflight left out."""
    lines = [
        line for place in sorted(run.glob("engine/launch-*/truth.jsonl")) for line in place.read_text().splitlines()
    ]
    return [entry for entry in map(json.loads, lines) if "role=preflight" not in str(entry["session"])]
