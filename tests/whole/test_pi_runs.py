"""Whole runs whose agent is the real Pi, from the command line to the record, beside the engine's own truth."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from bench.agents.adapters import open_adapter
from bench.engines.real_model import fetch
from bench.spec import AgentSpec
from tests.agents.npm_agents import require_agent
from tests.whole.running import REPOSITORY, begin, bench, children_of, environment, still_there, truth, wait_for
from tests.whole.test_runs import check_against_truth, check_record

pytestmark = pytest.mark.slow

PI = ("--agent", "pi")


@pytest.fixture(autouse=True)
def _pi():
    require_agent("pi")


def claims(run):
    """Response id -> what Pi said that it used, over all sessions; whether every session's own file agrees."""
    adapter, told = open_adapter(AgentSpec(name="pi")), {}
    for place in sorted((run / "sessions").glob("[0-9]*")):
        if place.name == "000":
            continue
        events = adapter.read_events(place, int(place.name))
        assert (events.differences, dict(events.unknown), events.damage) == ((), {}, None), place.name
        for one in events.usage:
            assert one.response_id not in told
            told[one.response_id] = (one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens)
    return told


def test_the_default_run_is_complete_and_every_response_is_accounted_for_to_the_token(tmp_path):
    done = bench("--workload", "prefix-cache", *PI, "--results", str(tmp_path))
    assert done.code == 0, done.out
    assert done.record["end"] == "complete"
    assert done.passed() == 8
    assert done.missed() == ["miss.cold", "miss.unrelated"]
    assert done.figure("agent_sessions") >= 20
    run = check_record(done, tmp_path)
    check_against_truth(done, run)
    assert claims(run) == {
        line["response_id"]: (
            line["prompt_tokens"] - line["cached_tokens"],
            line["cached_tokens"],
            line["output_tokens"],
            line["reasoning_tokens"],
        )
        for line in truth(run)
    }
    agent = done.record["configuration"]["agent"]
    assert (agent["name"], agent["version"], agent["thinking"], agent["skills"]) == ("pi", "1.6.0", "medium", [])
    assert agent["sampling"] == {"temperature": 0.6, "top_p": 0.95, "seed": 1}


def test_kill_9_in_a_session_leaves_nothing_and_the_run_goes_on(tmp_path):
    process = begin("--workload", "csv-totals", *PI, "--results", str(tmp_path / "r"), log=tmp_path / "log")
    try:
        events = wait_for(
            lambda: next(
                (one for one in (tmp_path / "r").glob("*/sessions/001/events.jsonl") if one.stat().st_size), 0
            ),
            120,
            "Pi's first event",
        )
        children = children_of(process.pid)
        assert any("pi-coding-agent" in " ".join(child.cmdline()) for child in children)
    finally:
        process.kill()
        process.wait()
    assert still_there(children) == []
    run = events.parent.parent.parent
    assert not (run / "record.json").exists()
    done = bench("--workload", "csv-totals", *PI, "--results", str(tmp_path / "r"), "--resume", run.name)
    assert done.code == 0, done.out
    assert done.passed() == 8
    assert [row["outcome"] for row in done.record["sessions"]] == ["interrupted", "done"]


def test_a_skill_stands_in_the_record_and_in_the_prompt(tmp_path):
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text(
        "---\nname: exact-sums\ndescription: Sums without floats.\nversion: '2.1'\n---\nUse fractions.\n", "utf-8"
    )
    given = (*PI, f"--agent-arg=--skill={skill}", "--results", str(tmp_path / "r"))
    done = bench("--workload", "csv-totals", *given)
    assert done.code == 0, done.out
    (told,) = done.record["configuration"]["agent"]["skills"]
    assert (told["name"], told["version"], len(told["sha256"])) == ("exact-sums", "2.1", 64)
    run = tmp_path / "r" / done.record["run_id"]
    system = next(
        event["message"]
        for event in map(json.loads, (run / "sessions" / "001" / "events.jsonl").read_text().splitlines())
        if event.get("message", {}).get("role") == "system"
    )
    assert "Sums without floats." in json.dumps(system)
    page = skill / "SKILL.md"
    page.write_text(page.read_text(encoding="utf-8") + "Use none.\n", "utf-8")
    other = bench("--workload", "csv-totals", *given, "--resume", "last")
    assert other.code == 4
    assert "is another run (the agent's profile, settings or skills are not what they were)" in other.out
    shutil.rmtree(skill)
    audit = [sys.executable, "-m", "bench.cli", "audit", str(run)]
    assert subprocess.run(audit, cwd=REPOSITORY, capture_output=True, check=False).returncode == 0
    refused = bench("--workload", "csv-totals", *given)
    assert refused.code == 4
    assert f"--skill {skill}: there is no such folder" in refused.out


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        (None, "the agent pi is not installed; run: make agent-pi"),
        ("1.5.9", "the agent pi is installed as 1.5.9, 1.6.0 is wanted; rm -r"),
    ],
)
def test_a_checkout_without_the_right_pi_measures_nothing(tmp_path, installed, said):
    for name in ("bench", "cases", "hidden", "fixtures"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    if installed:
        package = tmp_path / ".agents/pi/node_modules/@earendil-works/pi-coding-agent"
        (package / "dist" / "bundle").mkdir(parents=True)
        (package / "dist" / "bundle" / "cli.js").touch()
        (package / "package.json").write_text(json.dumps({"version": installed}), "utf-8")
    argv = [sys.executable, "-m", "pytest", "bench", "--workload", "csv-totals", *PI, "--results", "r"]
    done = subprocess.run(argv, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stdout
    assert said in done.stdout + done.stderr
    assert not list(tmp_path.glob("r/*/record.json"))


@pytest.mark.real_engine
def test_a_small_real_model_passes_nothing_and_the_record_is_valid(tmp_path):
    model, _ = fetch(REPOSITORY / "models")
    threads = ("--engine-arg=-t", "--engine-arg=1", "--engine-arg=-tb", "--engine-arg=1")
    done = bench(
        *("--workload", "csv-totals", *PI, "--engine", "llama-server", "--model", str(model)),
        *(*threads, "--engine-arg=-c", "--engine-arg=8192"),
        *("--limit", "output_tokens_per_request=32", "--limit", "requests_per_session=2"),
        *("--results", str(tmp_path)),
    )
    assert done.code == 0, done.out
    record = done.record
    assert (record["simulated"], record["valid"]) == (False, True)
    assert record["end"] in {"complete", "unconverged", "limited"}
    assert done.passed() == 0
    assert done.figure("max_prompt_tokens") > 500
    assert done.figure("matched_requests") == done.figure("model_responses") > 0
    assert record["configuration"]["agent"]["name"] == "pi"
