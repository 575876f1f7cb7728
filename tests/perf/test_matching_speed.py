"""What `make perf` prints of matching: 10,000, 100,000 and 1,000,000 requests, each in a process of its own.

Aim: a million in under 10 s and, what is matched included, about 1 GB; ten times as many take ten times as long.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.whole.running import REPOSITORY


@pytest.mark.parametrize("kind", ["claims", "relay", "crossed"])
@pytest.mark.parametrize("count", [10_000, 100_000, 1_000_000])
def test_matching(benchmark, capsys, count, kind):
    """Claims or requests with an engine's summaries; `crossed`: a tenth of the neighbours overlapped and changed places."""
    argv = [sys.executable, "-m", "tests.perf.matching_load", str(count), kind]

    def match():
        done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, check=True)
        return json.loads(done.stdout)

    told = benchmark.pedantic(match, rounds=1)
    benchmark.extra_info |= told
    each = told["seconds"] / count * 1e6
    peak, given = told["peak_bytes"] / 1e6, told["given_bytes"] / 1e6
    with capsys.disabled():
        print(
            f"\n{count:>9,} {kind:<8} {told['seconds']:7.3f} s, {each:5.2f} us each, {given:6.0f} MB, at most {peak:6.0f} MB"
        )
