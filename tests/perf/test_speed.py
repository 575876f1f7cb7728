"""What `make perf` prints: whole runs, judging, collection beside bare pytest, the harness's own memory.

Nothing is asserted about time, and `make test` leaves this folder out.
"""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from tests.whole.running import COMMAND, REPOSITORY, bench, environment

REFERENCE = REPOSITORY / "fixtures" / "scripts" / "prefix-cache" / "sound" / "files"


def test_default_run(benchmark, tmp_path):
    """20 or more sessions and 120 or more requests, judging included; aim: within 30 s on two cores."""
    done = benchmark.pedantic(lambda: bench("--workload", "prefix-cache", "--results", str(tmp_path)), rounds=3)
    assert done.code == 0, done.out
    benchmark.extra_info["sessions"] = done.figure("agent_sessions")
    benchmark.extra_info["requests"] = done.figure("matched_requests")


def test_small_run(benchmark, tmp_path):
    """csv-totals, one session and eight cases."""
    done = benchmark.pedantic(lambda: bench("--workload", "csv-totals", "--results", str(tmp_path)), rounds=3)
    assert done.code == 0, done.out


def test_ten_hidden_cases(benchmark, tmp_path):
    """Judging alone, the judge's start included; aim: within 3 s."""
    from bench.scoring.judge import judge
    from bench.spec import read_workload

    workload = read_workload("prefix-cache")
    cases = benchmark.pedantic(lambda: judge(workload=workload, project=REFERENCE, evidence=tmp_path), rounds=5)
    assert [case.outcome for case in cases if case.group == "model"] == ["passed"] * 10


@pytest.mark.parametrize(
    "arguments",
    [["bench", "--workload", "prefix-cache"], ["-p", "no:cacheprovider", "EMPTY"]],
    ids=["bench", "bare pytest"],
)
def test_collect_only(benchmark, tmp_path, arguments):
    """`pytest bench --collect-only` beside bare pytest on one empty test; aim: within 0.4 s of it."""
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    bare = "EMPTY" in arguments
    named = [str(tmp_path) if word == "EMPTY" else word for word in arguments]
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", *named]
    cwd = tmp_path if bare else REPOSITORY

    def collect():
        subprocess.run(argv, cwd=cwd, env=environment(), capture_output=True, check=True)

    benchmark.pedantic(collect, rounds=5, warmup_rounds=1)


def test_memory_of_the_harness(benchmark, tmp_path):
    """Highest resident size of the harness's own process over the default run; aim: under 150 MB."""

    def run():
        process = subprocess.Popen(
            [*COMMAND, "--workload", "prefix-cache", "--results", str(tmp_path)],
            cwd=REPOSITORY,
            env=environment(),
            stdout=subprocess.DEVNULL,
        )
        highest = 0
        while process.poll() is None:
            try:
                highest = max(highest, psutil.Process(process.pid).memory_info().rss)
            except psutil.NoSuchProcess:
                break
            time.sleep(0.05)
        assert process.wait() == 0
        return highest

    benchmark.extra_info["harness_rss_mb"] = round(benchmark.pedantic(run, rounds=1) / 1e6, 1)
    print(f"\nharness at its highest: {benchmark.extra_info['harness_rss_mb']} MB", file=sys.__stderr__)
