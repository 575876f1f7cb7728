"""Real Pi in a small window: it sums its history up, and all that it did stands in the record without a residual."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.processes import free_port
from tests.agents.npm_agents import require_agent
from tests.whole.running import REPOSITORY, bench, wait_for

pytestmark = pytest.mark.slow

WINDOW = 16_384
SCRIPT = """
about: Long outputs until the history must be shortened, then one short output and the end.
sessions:
  - role: session
    turns:
      - {think: There is something to look at., say: First a look at the numbers., do: [{run: "seq 1 1500"}]}
      - {say: Now a look at more of the numbers., do: [{run: "seq 1 1800"}]}
      - {say: And at the last of them., do: [{run: "test -e seen && echo seen already || (touch seen; seq 1 2000)"}]}
      - {say: All numbers have been looked at.}
"""


@contextmanager
def small_engine(folder: Path) -> Iterator[str]:
    """URL of an embedded engine of our own script."""
    (folder / "script").mkdir(parents=True)
    (folder / "script" / "script.yaml").write_text(SCRIPT)
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "bench.engines.embedded", "--port", str(port)]
    command += ["--script", str(folder / "script"), "--context-window", str(WINDOW)]
    with (folder / "log").open("wb") as log:
        engine = subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log)
    try:
        wait_for(lambda: b"ready" in (folder / "log").read_bytes(), 30, "the engine")
        yield f"http://127.0.0.1:{port}"
    finally:
        engine.terminate()
        engine.wait()


def runcard(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "bench.cli", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_pi_sums_its_history_up_and_nothing_is_lost(tmp_path):
    require_agent("pi")
    with small_engine(tmp_path / "engine") as url:
        done = bench("--workload", "csv-totals", "--agent", "pi", "--engine-url", url, "--results", str(tmp_path / "r"))
    assert done.figure("compaction_requests") >= 1
    assert done.figure("compactions") == done.figure("compaction_requests")
    assert done.figure("side_requests") == done.figure("retried_requests") == 0
    assert done.figure("matched_requests") == done.figure("served_requests") == done.figure("model_responses")
    for pair in ("agent_relay", "relay_engine", "agent_engine"):
        assert done.figure(f"residual_{pair}_tokens") == 0, done.record["warnings"]
    assert not [said for said in done.record["warnings"] if "tokens lie between" in said or "the agent" in said]
    run = next((tmp_path / "r").iterdir())
    shown = runcard("show", run.name, "--results", str(tmp_path / "r"), "--requests")
    assert "compaction" in shown.stdout
    audited = runcard("audit", str(run))
    assert audited.returncode == 0, audited.stdout + audited.stderr
