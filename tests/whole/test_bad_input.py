"""A person's mistake is one message that lists what exists, exit code 4, never a traceback."""

from __future__ import annotations

import os

import pytest

from tests.whole.gate import gated_engine
from tests.whole.running import bench


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ("--workload", "csv-totals, prefix-cache")),
        (["--workload", "nope"], ("no workload 'nope'", "csv-totals, prefix-cache")),
        (["--workload", "../hidden"], ("no workload", "csv-totals, prefix-cache")),
        (["--workload", "csv-totals", "--engine", "nope"], ("unknown engine 'nope'", "embedded, llama-server")),
        (["--workload", "csv-totals", "--agent", "nope"], ("unknown agent 'nope'", "builtin")),
        (["--workload", "csv-totals", "--model", "nope"], ("unknown script 'nope'", "float-sums, sound")),
        (["--workload", "csv-totals", "--limit", "sessions=many"], ("--limit sessions=many", "number")),
        (["--workload", "csv-totals", "--limit", "sesions=3"], ("--limit sesions=3", "session_seconds")),
        (["--workload", "csv-totals", "--resume", "nope"], ("no run 'nope'",)),
        (["--workload", "csv-totals", "--project", "/nope"], ("--project /nope", "no such folder")),
        (["--workload", "csv-totals", "--project", ".", "--resume", "last"], ("--project", "--resume")),
        (["--workload", "csv-totals", "--engine", "llama-server"], ("--model FILE.gguf", "make real-model")),
        (
            ["--workload", "csv-totals", "--engine", "llama-server", "--model", "/nope.gguf"],
            ("/nope.gguf does not exist",),
        ),
        (["--workload", "csv-totals", "--engine", "llama-server", "--model", "README.md"], ("not a GGUF file",)),
        (["--workload", "csv-totals", "--engine-arg=--port=1"], ("--port=1", "set by the harness")),
        (["--workload", "csv-totals", "-n", "2"], ("pytest-xdist",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_it_is_one_message_and_exit_4(tmp_path, arguments, words):
    done = bench(*arguments, "--results", str(tmp_path))
    assert done.code == 4, done.out
    for word in words:
        assert word in done.out
    assert "Traceback" not in done.out
    assert "INTERNALERROR" not in done.out
    assert list(tmp_path.iterdir()) == []


def test_results_that_cannot_be_written_are_told_first(tmp_path):
    (tmp_path / "file").write_text("x")
    done = bench("--workload", "csv-totals", "--results", str(tmp_path / "file" / "in"))
    assert done.code == 4
    assert "choose another folder with --results DIR" in done.out
    assert "Traceback" not in done.out


def test_an_engine_argument_that_the_engine_refuses_shows_its_command_and_log(tmp_path):
    done = bench("--workload", "csv-totals", "--engine-arg=--nonsense", "--results", str(tmp_path))
    assert done.code == 4
    for word in ("did not start", "command:", "--nonsense", "what to do"):
        assert word in done.out
    assert "Traceback" not in done.out


def test_tests_of_other_folders_are_not_touched_by_the_plugin():
    done = bench("--help")
    assert done.code == 0
    assert "--workload=NAME" in done.out
    assert os.linesep in done.out


def test_nothing_of_a_scored_project_is_run_outside_its_box(tmp_path):
    """Pytest itself must not take the folder for a folder of tests."""
    project = tmp_path / "project"
    project.mkdir()
    proof = tmp_path / "proof"
    for name in ("conftest.py", "test_x.py", "sitecustomize.py", "pytest.py", "bench.py"):
        (project / name).write_text(f"open({str(proof)!r}, 'a').write('ran')\n")
    (project / "pytest.ini").write_text("[pytest]\naddopts = -p conftest\n")
    done = bench("--workload", "csv-totals", "--project", str(project), "--results", str(tmp_path / "results"))
    assert done.code == 0, done.out
    assert done.passed() == 0
    assert not proof.exists()


@pytest.mark.parametrize("option", ["--model", "--project", "--resume", "--results"])
def test_an_empty_value_is_no_default(tmp_path, option):
    done = bench("--workload", "csv-totals", "--results", str(tmp_path), option, "")
    assert done.code == 4
    assert f"{option} has an empty value" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--project", "~nosuchuser/x"], "no usable path"),
        (["--resume", "x" * 5000], "no run"),
        (["-k", "nothing"], "no hidden case is selected"),
        (["--limit", "output_tokens_per_request=0"], "from 1 to"),
        (["--tx", "2*popen", "--dist", "load"], "pytest-xdist"),
    ],
)
def test_odd_values_are_told_too(tmp_path, arguments, words):
    done = bench("--workload", "csv-totals", "--results", str(tmp_path), *arguments)
    assert done.code == 4, done.out
    assert words in done.out
    assert "Traceback" not in done.out


def test_a_key_is_never_where_an_agent_without_a_box_could_read_it(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNCARD_ENGINE_KEY", "sk-pearl-diver-94")
    with gated_engine(tmp_path / "engine", "sk-pearl-diver-94") as (url, _):
        done = bench(
            "--workload", "csv-totals", "--engine-url", url, "--unsafe-no-sandbox", "--results", str(tmp_path / "r")
        )
    assert done.code == 4
    assert "RUNCARD_ENGINE_KEY and --unsafe-no-sandbox do not go together" in done.out
    assert list((tmp_path / "r").iterdir()) == []
