"""`runcard show RUN --sessions` and `--session N`: what a person sees of a run's sessions, whole or damaged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from tests.whole.running import REPOSITORY, bench, environment

pytestmark = pytest.mark.slow


def show(*arguments, code=0, **env):
    done = subprocess.run(
        [sys.executable, "-m", "bench.cli", "show", *map(str, arguments)],
        cwd=REPOSITORY,
        env={**environment(), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    results = tmp_path_factory.mktemp("shown")
    done = bench("--workload", "csv-totals", "--results", str(results))
    assert done.code == 0, done.out
    return results / done.record["run_id"]


@pytest.fixture
def run(whole, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copytree(whole, tmp_path / whole.name)


def test_a_session_is_told_from_its_prompt_to_its_last_answer(whole):
    out = show(whole, "--session", "001").stdout
    row = json.loads((whole / "record.json").read_text())["sessions"][0]
    lines = out.splitlines()
    assert lines[0] == "session 001 · session · attempt 1 · done"
    assert sum(line.startswith("── request ") for line in lines) == row["requests"]
    assert sum(line.startswith("→ ") for line in lines) == row["tool_calls"]
    assert sum(line.startswith("← ") for line in lines) == row["tool_calls"], "each call has its result"
    assert "result of a call that is not shown" not in out
    assert not any(word in out for word in ("history", "another conversation", "in the model's name", "\x1b"))
    prompts = [int(line.split("prompt ")[1].split()[0].replace(",", "")) for line in lines if line.startswith("· ")]
    assert sum(prompts) == row["prompt_tokens"]
    assert lines[-1].startswith("· stop")
    assert show(whole, "--session", "1").stdout == out
    full = show(whole, "--session", "1", "--full").stdout
    assert len(full) > len(out)
    assert "more lines" not in full


def test_the_parts_of_a_sessions_time_are_in_record_and_table(whole):
    row = json.loads((whole / "record.json").read_text())["sessions"][0]
    parts = [row[f"{name}_seconds"] for name in ("engine", "tool", "waiting", "agent")]
    assert sum(part for part in parts if part is not None) == pytest.approx(row["seconds"])
    assert row["waiting_seconds"] is None, "the embedded engine's times are simulated"
    said, heading = show(whole, "--sessions").stdout.splitlines()[:2]
    assert "tok/s are simulated; wall, engine" in said
    heading = heading.split()
    assert {"wall", "engine", "agent"} <= set(heading)
    assert not {"waiting", "task"} & set(heading), "columns in which no row says anything are left out"


def test_the_preflight_and_a_run_without_a_record(run):
    (run / "record.json").unlink()
    (run / "requests.jsonl").unlink()
    assert show(run, "--session", "000").stdout.startswith("session 000 · preflight\n")
    assert show(run, "--session", "1").stdout.startswith("session 001 · session · attempt 1 · done\n")
    (run / "journal.jsonl").unlink()
    (run / "engine" / "profile.json").write_text("{}")
    done = show(run, "--session", "1")
    assert done.stdout.startswith("session 001\n")
    assert "── request 5" in done.stdout
    assert "cannot be read" in done.stderr


def test_damaged_evidence_is_told_as_far_as_it_can_be_read(run):
    place = run / "sessions" / "001" / "exchanges.jsonl"
    lines = place.read_bytes().splitlines(keepends=True)
    place.write_bytes(b"".join(lines[:2]) + lines[2][:50] + b"\n" + b"".join(lines[3:]))
    done = show(run, "--session", "1", code=4)
    assert "── request 1" in done.stdout
    assert "── request 2" not in done.stdout
    assert "line 3 is damaged" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    place.write_bytes(b"".join(lines)[:-9])
    assert "is torn" in show(run, "--session", "1").stderr


def test_a_session_without_exchanges_says_what_there_is(run):
    folder = run / "sessions" / "001"
    (folder / "exchanges.jsonl").unlink()
    (folder / "stderr.txt").write_text("".join(f"line {number}\n" for number in range(3000)) + "No module\x1b[31m\n")
    lines = show(run, "--session", "1").stdout.splitlines()
    assert "the relay kept no exchange of this session" in lines
    assert any(line.startswith('    {"') for line in lines), "the end of the event stream"
    assert lines[-1] == "    No module"


def test_a_terminal_of_few_letters_is_no_error(whole):
    assert "request 0" in show(whole, "--session", "1", PYTHONIOENCODING="ascii").stdout


@pytest.mark.parametrize(
    "options",
    [("--json", "--sessions"), ("--sessions", "--requests"), ("--session", "1", "--json"), ("--full", "--sessions")],
)
def test_two_views_at_once_are_one_clear_line(whole, options):
    said = show(whole, *options, code=4).stderr.splitlines()
    assert len(said) == 1
    assert "give" in said[0]
