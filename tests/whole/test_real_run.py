"""A real llama-server with the real 135M model, from the command line to the record, with tight limits."""

from __future__ import annotations

import sys

import pytest

from bench.engines.real_model import fetch
from tests.whole.running import REPOSITORY, bench

pytestmark = [pytest.mark.slow, pytest.mark.real_engine]


def test_a_small_model_passes_nothing_and_the_record_says_so_with_measured_figures(tmp_path):
    model, _ = fetch(REPOSITORY / "models")
    done = bench(
        *("--workload", "csv-totals", "--engine", "llama-server", "--model", str(model)),
        *(
            "--engine-arg=-t",
            "--engine-arg=1",
            "--engine-arg=-tb",
            "--engine-arg=1",
            "--engine-arg=-c",
            "--engine-arg=4096",
        ),
        *("--limit", "output_tokens_per_request=32", "--limit", "requests_per_session=2"),
        *("--results", str(tmp_path)),
    )
    assert done.code == 0, done.out
    record = done.record
    assert record["simulated"] is False
    assert record["valid"] is True
    assert record["end"] in ("complete", "unconverged", "limited")
    assert done.passed() == 0
    assert 0 < done.figure("ttft_median") < 280
    assert 0 < done.figure("decode_tps") < 10_000
    assert done.figure("max_prompt_tokens") > 500
    assert done.figure("matched_requests") == done.figure("model_responses") > 0
    engine = record["configuration"]["engine"]
    assert "xllamacpp" in engine["version"] or engine["version"]
    assert len(engine["model_sha256"]) == 64
    assert sys.platform != "linux" or record["identity"]["isolation"] == "boxed"
