"""Both workloads, every script: the stated results, from the command line, with the engine's own truth beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jsonschema
import pytest

from bench.records.json_schema import PUBLISHED
from tests.whole.gate import gated_engine
from tests.whole.running import REPOSITORY, begin, bench, children_of, journal, truth, wait_for

pytestmark = pytest.mark.slow


def check_against_truth(done, run):
    """Counts of the record are the engine's own, to the token."""
    answered = [entry for entry in truth(run) if entry["error"] is None]
    assert done.figure("output_tokens") == sum(entry["output_tokens"] for entry in answered)
    assert done.figure("cached_input_tokens") == sum(entry["cached_tokens"] for entry in answered)
    prompt = sum(entry["prompt_tokens"] for entry in answered)
    assert done.figure("fresh_input_tokens") + done.figure("cached_input_tokens") == prompt
    assert done.figure("model_responses") == len(truth(run))


def audited(run):
    """`runcard audit` computes every figure again from the evidence and finds nothing else."""
    return subprocess.run(
        [sys.executable, "-m", "bench.cli", "audit", str(run)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


def check_record(done, tmp_path):
    record = done.record
    audit = audited(tmp_path / record["run_id"])
    assert audit.returncode == 0, audit.stdout + audit.stderr
    for name in ("residual_agent_relay_tokens", "residual_relay_engine_tokens", "residual_agent_engine_tokens"):
        assert done.figure(name) == 0, name
    assert done.figure("requests_begun_cold") >= done.figure("served_requests")
    assert done.figure("requests_begun_warm") == 0
    jsonschema.validate(record, json.loads((REPOSITORY / PUBLISHED).read_text()))
    assert record["simulated"] is True
    assert record["identity"]["isolation"] == "boxed"
    assert record["deviations"] == []
    assert record["warnings"] == []
    return tmp_path / record["run_id"]


def test_the_default_run_is_complete_with_the_observed_defect(tmp_path):
    done = bench("--workload", "prefix-cache", "--results", str(tmp_path))
    assert done.code == 0, done.out
    assert "prefix-cache::miss.cold MISSED" in done.out
    assert "hidden acceptance cases: model 8 of 10, page not run (" in done.out
    assert done.missed() == ["miss.cold", "miss.unrelated"]
    assert done.record["end"] == "complete"
    assert {task["status"] for task in done.record["tasks"]} == {"done"}
    assert done.figure("agent_sessions") >= 20
    assert done.figure("matched_requests") >= 120
    assert done.figure("project_checks_passing") == next(
        figure["n"] for figure in done.record["figures"] if figure["id"] == "project_checks_passing"
    )
    check_against_truth(done, check_record(done, tmp_path))


def test_sound_passes_every_case(tmp_path):
    done = bench("--workload", "prefix-cache", "--model", "sound", "--results", str(tmp_path))
    assert done.code == 0, done.out
    assert done.passed() == 10
    check_against_truth(done, check_record(done, tmp_path))


def test_hasty_is_sent_back_and_survives_an_engine_error(tmp_path):
    done = bench("--workload", "prefix-cache", "--model", "hasty", "--results", str(tmp_path))
    assert done.code == 0, done.out
    assert done.passed() == 6
    assert done.figure("reviews_changes") >= 2
    failed = [row for row in done.record["sessions"] if row["outcome"] == "engine-error"]
    assert [row["kind"] for row in failed] == ["memory"]
    again = next(row for row in done.record["sessions"] if row["session"] == failed[0]["session"] + 1)
    assert (again["task"], again["attempt"], again["retry"]) == (failed[0]["task"], failed[0]["attempt"], 1)
    check_against_truth(done, check_record(done, tmp_path))


def test_stuck_is_blocked_and_can_be_resumed(tmp_path):
    done = bench("--workload", "prefix-cache", "--model", "stuck", "--results", str(tmp_path))
    assert done.code == 10, done.out
    assert done.record["end"] == "blocked"
    assert done.record["valid"] is False
    assert {case["outcome"] for case in done.record["cases"]} == {"not-run"}
    assert audited(tmp_path / done.record["run_id"]).returncode == 0
    again = bench("--workload", "prefix-cache", "--model", "stuck", "--results", str(tmp_path), "--resume", "last")
    assert again.code == 10, again.out
    assert [row["end"] for row in again.record["segments"]] == ["blocked", "blocked"]
    started = [entry for entry in journal(tmp_path / again.record["run_id"]) if entry["event"] == "segment-started"]
    assert started[1]["detail"]["changed"] == []
    assert again.record["deviations"] == again.record["warnings"] == []


@pytest.mark.parametrize(("model", "missed"), [("sound", 0), ("float-sums", 1)])
def test_csv_totals_is_driven_by_one_session(tmp_path, model, missed):
    done = bench("--workload", "csv-totals", "--model", model, "--results", str(tmp_path))
    assert done.code == 0, done.out
    assert len(done.missed()) == missed
    assert done.passed() == 8 - missed
    assert [row["role"] for row in done.record["sessions"]] == ["session"]
    check_against_truth(done, check_record(done, tmp_path))


def test_a_tight_limit_ends_a_run_that_is_scored_as_it_stands(tmp_path):
    done = bench("--workload", "prefix-cache", "--limit", "sessions=3", "--results", str(tmp_path))
    assert done.code == 0, done.out
    assert done.record["end"] == "limited"
    assert done.record["valid"] is True
    assert done.record["deviations"] == ["limit sessions set to 3"]
    assert len(done.record["sessions"]) == 3
    assert not [case for case in done.record["cases"] if case["group"] == "model" and case["outcome"] == "not-run"]


def test_a_resume_with_other_limits_says_so(tmp_path):
    first = bench("--workload", "prefix-cache", "--limit", "sessions=3", "--results", str(tmp_path))
    assert first.record["end"] == "limited"
    done = bench("--workload", "prefix-cache", "--results", str(tmp_path), "--resume", "last")
    assert done.code == 0, done.out
    assert done.passed() == 8
    assert done.record["deviations"] == ["limit sessions set to 3", "segment 2: limit sessions is 120, before it 3"]


def test_evidence_that_was_changed_between_segments_is_named(tmp_path):
    first = bench("--workload", "prefix-cache", "--limit", "sessions=3", "--results", str(tmp_path))
    events = tmp_path / first.record["run_id"] / "sessions" / "001" / "events.jsonl"
    events.write_text(events.read_text().replace('"total_tokens"', '"total_tokens" ', 1))
    done = bench("--workload", "prefix-cache", "--limit", "sessions=4", "--results", str(tmp_path), "--resume", "last")
    assert done.code == 0, done.out
    assert done.record["warnings"] == [
        "segment 2: evidence had changed since the last record: sessions/001/events.jsonl"
    ]


def test_an_engine_that_hangs_is_not_charged_to_the_subject(tmp_path):
    """Stopped in mid-run, the engine answers nothing: its errors block the run, no attempt is used up."""
    process = begin(
        *("--workload", "prefix-cache", "--limit", "session_seconds=4", "--limit", "engine_errors_in_a_row=2"),
        *("--results", str(tmp_path / "r")),
        log=tmp_path / "log",
    )
    try:
        run = wait_for(lambda: next((tmp_path / "r").glob("*/journal.jsonl"), None), 60, "the journal").parent
        wait_for(lambda: len([e for e in journal(run) if e["event"] == "step-finished"]) >= 4, 60, "some steps")
        engine = next(
            one
            for one in children_of(process.pid)
            if "bench.engines.embedded" in " ".join(one.cmdline()) and "--port" in one.cmdline() and not one.children()
        )
        engine.suspend()
        assert process.wait(120) == 10
    finally:
        process.kill()
        process.wait()
    failed = [
        entry
        for entry in journal(run)
        if entry["event"] == "step-finished" and entry["outcome"] != "done" and entry["session"]
    ]
    assert {(entry["outcome"], entry["kind"], entry["attempt"]) for entry in failed} == {("engine-error", "stall", 1)}


def test_an_attached_engine_with_a_key_serves_a_run_and_is_never_stopped(tmp_path, monkeypatch):
    """The embedded engine behind a small gate that demands a key: the relay has it, agent and evidence never do."""
    key = "sk-pearl-diver-93"
    with gated_engine(tmp_path / "engine", key) as (url, engine):
        arguments = ("--workload", "csv-totals", "--engine-url", url, "--results", str(tmp_path / "r"))
        monkeypatch.delenv("RUNCARD_ENGINE_KEY", raising=False)
        refused = bench(*arguments)
        assert refused.code == 4
        assert "RUNCARD_ENGINE_KEY" in refused.out
        monkeypatch.setenv("RUNCARD_ENGINE_KEY", key)
        done = bench(*arguments)
        assert done.code == 0, done.out
        assert engine.poll() is None
    assert done.passed() == 8
    assert done.record["identity"]["attached"] is True
    assert done.record["segments"][0]["cache"].startswith("salted: ")
    assert done.figure("requests_begun_salted") == done.figure("served_requests")
    prompt = (tmp_path / "r" / done.record["run_id"] / "sessions" / "001" / "prompt.md").read_text()
    assert prompt.startswith("Run ")
    assert key not in done.out
    for place in (tmp_path / "r").rglob("*"):
        if place.is_file():
            assert key.encode() not in place.read_bytes(), place
    assert audited(tmp_path / "r" / done.record["run_id"]).returncode == 0
    assert os.environ["RUNCARD_ENGINE_KEY"] == key


def test_without_a_box_the_record_says_so(tmp_path):
    done = bench("--workload", "csv-totals", "--unsafe-no-sandbox", "--results", str(tmp_path))
    assert done.code == 0, done.out
    assert done.record["identity"]["isolation"] == "none"
    assert "no box" in done.record["deviations"][0]
    assert done.passed() == 8


def test_a_project_is_scored_without_engine_and_agent(tmp_path):
    project = REPOSITORY / "fixtures" / "scripts" / "csv-totals" / "sound" / "files"
    done = bench("--workload", "csv-totals", "--project", str(project), "--results", str(tmp_path))
    assert done.code == 0, done.out
    assert done.record["run_id"].startswith("project-")
    assert done.record["sessions"] == []
    assert done.passed() == 8
    assert not list((tmp_path / done.record["run_id"]).glob("engine"))
