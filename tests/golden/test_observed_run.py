"""The published run, from files to tables: every figure to the last digit, through the command that a person would use."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.observed_run import Evidence, write
from tests.whole.running import REPOSITORY, environment

PRINTED = {
    "TTFT, median": "3.064 s median 871 engine-counter",
    "TTFT, p90": "19.180 s p90 871 engine-counter",
    "Decode, output-weighted": "40.14 tok/s ratio of sums 871 engine-counter",
    "Draft acceptance": "63.01 % ratio of sums 872 engine-log",
    "Swapped in during the run": "197.86 GiB sum 1,350 harness",
    "Memory pressure warning": "129 samples count 1,350 harness",
    "Memory pressure critical": "0 samples count 1,350 harness",
    "Run elapsed": "626.5 min sum 3 harness",
    "Agent sessions": "62 sessions count 62 harness",
    "Agent sessions, bootstrap": "1 session count 62 harness",
    "Agent sessions, builder": "40 sessions count 62 harness",
    "Agent sessions, reviewer": "18 sessions count 62 harness",
    "Agent sessions, replan": "2 sessions count 62 harness",
    "Agent sessions, final-reviewer": "1 session count 62 harness",
    "Sessions ended by engine errors": "21 sessions count 62 harness",
    "Model responses": "898 responses count 898 agent",
    "Matched model requests": "872 requests count 872 engine-log",
    "Tool calls": "1,099 calls sum 62 agent",
    "Context compactions": "1 compaction sum 62 agent",
    "Maximum prompt context": "113,626 tokens max 872 engine-log",
    "Fresh input": "4,001,102 tokens sum 872 agent",
    "Cached input": "25,155,774 tokens sum 872 agent",
    "Prompt-cache token share": "86.28 % ratio of sums 872 engine-log",
    "Output": "807,277 tokens sum 872 agent",
    "of which reasoning": "584,641 tokens sum 872 agent",
    "Tasks completed": "14 of 14 tasks count 14 harness",
    "Reviews returning changes": "4 of 19 reviews count 19 harness",
    "Project checks passing": "35 of 35 checks count 35 harness",
}
NOTES = (
    "872 of 898 responses are matched to the engine's log; 17 keys occur more than once, their order forced",
    "22 summaries of the engine's log stand alone: 1 another client, 9 another launch, 4 before the first request",
    "4 before the first request, 8 between two segments",
    "26 responses of the agent stand alone: 21 error response, 5 error response, retried",
)
SUMS = {
    "prompt_tokens": 29_156_876,
    "cached_tokens": 25_155_774,
    "output_tokens": 807_277,
    "drafted_tokens": 550_069,
    "accepted_tokens": 346_605,
}


def runcard(*arguments):
    argv = [sys.executable, "-m", "bench.cli", *map(str, arguments)]
    return subprocess.run(
        argv, cwd=REPOSITORY, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def evidence(tmp_path_factory) -> Evidence:
    return write(tmp_path_factory.mktemp("observed"))


@pytest.fixture(scope="module")
def done(evidence, tmp_path_factory):
    finished = runcard("ingest", *evidence.options(), "--results", tmp_path_factory.mktemp("results"))
    assert finished.returncode == 0, finished.stderr
    return finished


@pytest.fixture(scope="module")
def folder(done):
    return Path(done.stdout.rstrip().splitlines()[-1]).parent


@pytest.fixture(scope="module")
def record(folder):
    return json.loads((folder / "record.json").read_bytes())


def figure(record, name, scope=None):
    return next(one for one in record["figures"] if one["id"] == name and one["scope"] == scope)


@pytest.mark.parametrize("title", PRINTED)
def test_a_printed_figure(done, title):
    rows = [re.split(r" {2,}", line.strip()) for line in done.stdout.splitlines()]
    assert [" ".join(row[1:]) for row in rows if row[0] == title] == [PRINTED[title]]


def test_what_was_matched_repeated_and_left_over_is_printed(done):
    for note in NOTES:
        assert note in done.stdout


def test_the_figures_are_the_exact_quotients(record):
    assert figure(record, "prompt_cache_share")["value"] == 25_155_774 / 29_156_876
    assert figure(record, "draft_acceptance")["value"] == 346_605 / 550_069
    assert figure(record, "run_elapsed")["value"] == pytest.approx(37_590, abs=1e-3)
    assert figure(record, "swapped_in_bytes")["value"] == 12_966_953 * 16_384
    assert figure(record, "engine_error_sessions")["includes"] == "14 in segment 1, 7 in segment 2, 0 in segment 3"
    assert figure(record, "model_responses")["includes"] == "26 error responses included"


def test_requests_carry_the_published_sums_and_one_has_no_timings(folder):
    requests = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert {name: sum(one[name] for one in requests) for name in SUMS} == SUMS
    [untimed] = [one for one in requests if one["source"] is None]
    assert "2 requests were counted between the readings, not one" in untimed["reason"]
    assert {(one["role"], one["task"]) for one in requests if one["session"] == 37} == {("builder", "T006")}


def test_roles_add_up_to_the_whole(record):
    parts = [one for one in record["figures"] if one["id"] == "prompt_cache_share" and str(one["scope"])[:5] == "role:"]
    assert {one["scope"]: one["n"] for one in parts} == {
        "role:bootstrap": 43,
        "role:builder": 626,
        "role:reviewer": 162,
        "role:replan": 16,
        "role:final-reviewer": 25,
    }


def test_it_is_said_that_the_run_was_ingested(record):
    assert record["end"] == "ingested"
    assert record["identity"]["ingested"] is True
    assert record["identity"]["engine"] == "sushi"
    assert record["cases"] == []
    assert [one["end"] for one in record["segments"]] == ["blocked", "blocked", "complete"]


def test_its_evidence_is_small(folder, record):
    size = sum(one["bytes"] for one in record["evidence"])
    print(f"evidence of the record: {size / 1e6:.1f} MB in {len(record['evidence'])} files")
    assert size < 40_000_000
    assert size == sum(place.stat().st_size for place in folder.rglob("*") if place.is_file()) - sum(
        (folder / name).stat().st_size for name in ("record.json", "record.3.json", "lock")
    )


def test_an_audit_agrees_and_finds_a_changed_digit(folder, tmp_path):
    agreed = runcard("audit", folder)
    assert agreed.returncode == 0, agreed.stdout
    copy = shutil.copytree(folder, tmp_path / "run")
    log = copy / "engine" / "engine.log"
    log.write_bytes(log.read_bytes().replace(b"prompt=113626", b"prompt=113627"))
    found = runcard("audit", copy)
    assert found.returncode == 1
    assert "figure matched_requests" in found.stdout
    assert "file engine/engine.log" in found.stdout


def test_the_same_files_are_written_every_time(evidence, tmp_path):
    again = write(tmp_path / "again")
    files = sorted(place.relative_to(evidence.folder) for place in evidence.folder.rglob("*") if place.is_file())
    assert len(files) == 66
    for name in files:
        assert (again.folder / name).read_bytes() == (evidence.folder / name).read_bytes()
