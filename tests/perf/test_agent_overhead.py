"""What a session in the harness costs beside the bare agent: box, door, relay, evidence.

Nothing is asserted about time; the aim stands in the docstring, what came out in the table and in `extra_info`.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import pytest

from bench.agents.adapters import AgentCommand, Place, open_adapter
from bench.agents.home import make_home
from bench.contracts import SESSION_HEADER, SessionLabel, SessionRequest
from bench.engines.profile import read_profile
from bench.sandbox.interpreters import find_interpreters
from bench.spec import AgentSpec
from tests.agents.boxed_session import embedded_engine, run_boxed, the_box
from tests.agents.npm_agents import require_agent

ROUNDS = 15
SCRIPT = """\
about: Four answers, three of them with calls.
sessions:
  - role: builder
    turns:
      - {say: "I look.", do: [{run: "ls"}]}
      - {say: "I write.", do: [{write: a.txt, text: "one"}, {write: b.txt, text: "two"}]}
      - {say: "I look again.", do: [{read: a.txt}]}
      - {say: "All is built."}
"""


@pytest.fixture
def pi():
    require_agent("pi")
    return open_adapter(AgentSpec(name="pi"))


def request(folder: Path, number: int) -> SessionRequest:
    label = SessionLabel(run_id="perf", session=number, role="builder", task="T001", attempt=1, retry=0)
    for name in ("project", "evidence"):
        (folder / name).mkdir(parents=True)
    return SessionRequest(
        label=label,
        prompt="Build it.",
        project=folder / "project",
        evidence=folder / "evidence",
        model="embedded",
        context_window=131_072,
        output_tokens_per_request=4_096,
        output_tokens=1_000_000,
        requests=20,
        seconds=120,
        no_progress_seconds=60,
    )


def bare(adapter, asked: SessionRequest, port: int, home: Path) -> None:
    """The same command at the engine's own port, with Node's cache of compiled code, as a person has it.

    Only the engine is told which session it is.
    """
    place = Place(
        project=str(asked.project),
        home=str(home),
        url=f"http://127.0.0.1:{port}",
        mounted=lambda mount: str(mount.source),
    )
    command: AgentCommand = adapter.command(asked, place)
    models = json.loads(command.files["config/models.json"])
    models["providers"]["local"]["headers"] = {SESSION_HEADER: asked.label.header}
    make_home(home, {**command.files, "config/models.json": json.dumps(models).encode()})
    env = {name: value for name, value in command.env.items() if name != "NODE_DISABLE_COMPILE_CACHE"}
    argv = [str(find_interpreters().node), *command.argv[1:]]
    with (asked.evidence / "events.jsonl").open("wb") as events:
        subprocess.run(
            argv,
            input=command.stdin,
            stdout=events,
            stderr=subprocess.DEVNULL,
            cwd=asked.project,
            env={"PATH": os.environ["PATH"], **env},
            check=True,
        )
    assert adapter.read_events(asked.evidence, asked.label.session).end == "done"


def timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def test_a_session_of_pi(benchmark, capsys, pi, tmp_path):
    """Aim: at the median, under 0.3 s more than the bare Pi. By turns, the same four answers of the same engine."""
    profile = read_profile("embedded").contract("embedded")
    taken: dict[str, list[float]] = {"bare": [], "in the harness": []}
    the_box()

    def boxed(asked: SessionRequest, port: int) -> None:
        done = run_boxed(asked, port=port, profile=profile, private=tmp_path / "private", adapter=pi)
        assert done.ended == ("done", None)

    def run() -> None:
        for number in range(1, ROUNDS + 1):
            alone = request(tmp_path / "bare" / str(number), number)
            taken["bare"].append(timed(lambda asked=alone: bare(pi, asked, port, tmp_path / "home")))
            within = request(tmp_path / "boxed" / str(number), number)
            taken["in the harness"].append(timed(lambda asked=within: boxed(asked, port)))

    with embedded_engine(tmp_path / "engine", SCRIPT) as (port, truth):
        benchmark.pedantic(run, rounds=1)
    sessions = Counter(json.loads(line)["session"] for line in truth.read_text().splitlines())
    assert set(sessions.values()) == {8}, "each session was asked the same, bare and not"
    rows = {name: {"median_s": median(values), "p90_s": quantiles(values, n=10)[8]} for name, values in taken.items()}
    rows["added"] = {key: value - rows["bare"][key] for key, value in rows["in the harness"].items()}
    benchmark.extra_info.update(rows)
    with capsys.disabled():
        print(f"\nA session of Pi with four answers, {ROUNDS} times")
        for name, cells in rows.items():
            print(f"  {name:16} " + "  ".join(f"{key} {value:.3f}" for key, value in cells.items()))
