"""How long does an audit of a run of the published size take? Aim: within 2 s, the start of the program included."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.perf.audited_run import write_run
from tests.whole.running import REPOSITORY, environment


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("audited")
    (place / "kept").mkdir()
    return write_run(place / "results", place / "kept")


def test_audit_of_872_requests(benchmark, folder):
    """`runcard audit RUN` as a person calls it."""

    def audit():
        return subprocess.run(
            [sys.executable, "-m", "bench.cli", "audit", str(folder)],
            cwd=REPOSITORY,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    done = benchmark.pedantic(audit, rounds=5, warmup_rounds=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "872 requests" in done.stdout
    sizes = [place.stat().st_size for place in folder.rglob("*") if place.is_file()]
    benchmark.extra_info["evidence_mb"] = round(sum(sizes) / 1e6, 1)
    print(f"\naudited evidence: {sum(sizes) / 1e6:.1f} MB in {len(sizes)} files", file=sys.__stderr__)
