"""The launcher's flags: each listed one reaches its setting, every other is refused in one line."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from bench.engines.llama_launcher import FLAGS, apply, read_flags


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as caught:
        read_flags(argv)
    assert caught.value.code == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    return text


def test_flags_become_settings(model):
    argv = ["-m", model, "--host", "127.0.0.1", "--port", "8080", "--alias", "a,b", "-c", "0", "-np", "1", "-t", "2"]
    assert read_flags([*argv, "--metrics", "-c", "4096", "-n", "-1"]) == {
        "model.path": model,
        "hostnames": ["127.0.0.1"],
        "port": 8080,
        "model_alias": {"a", "b"},
        "n_ctx": 4096,
        "n_predict": -1,
        "n_parallel": 1,
        "cpuparams.n_threads": 2,
        "cpuparams_batch.n_threads": 2,
        "endpoint_metrics": True,
    }
    assert read_flags(["-m", model, "--port", "1", "-t", "2", "-tb", "1"])["cpuparams_batch.n_threads"] == 1


def test_settings_are_written_where_their_names_say():
    params = SimpleNamespace(port=0, cpuparams=SimpleNamespace(n_threads=-1))
    apply({"port": 8080, "cpuparams.n_threads": 3}, params)
    assert (params.port, params.cpuparams.n_threads) == (8080, 3)


def test_an_unknown_flag_is_answered_with_the_known_ones(capsys, model):
    text = refused(capsys, "-m", model, "--port", "1", "--mlock")
    assert "unknown flag '--mlock'" in text
    assert all(flag.names[0] in text for flag in FLAGS)
    assert "unknown flag '--metric'" in refused(capsys, "-m", model, "--port", "1", "--metric")
    assert "unknown flag 'stray'" in refused(capsys, "-m", model, "--port", "1", "stray")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--port", "1"], "needs -m FILE and --port N"),
        (["-m", "/no/such/file", "--port", "1"], "/no/such/file does not exist"),
        (["--port", "many"], "argument --port: invalid whole number value: 'many'"),
        (["-np", "0"], "expected a whole number of at least 1, got 0"),
        (["-c"], "argument -c/--ctx-size: expected one argument"),
    ],
)
def test_wrong_use_is_one_line(capsys, argv, says):
    assert says in refused(capsys, *argv)


def test_each_name_stands_once():
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len(set(names))


@pytest.mark.real_engine
def test_every_setting_exists_in_xllamacpp(model):
    """In a process of its own: the library is large and owns threads."""
    values = {"-m": model, "-md": model, "--chat-template-file": model, "-fa": "on", "-ctk": "q8_0", "-ctv": "f16"}
    values |= {"--spec-type": "draft-simple,ngram-simple", "--host": "::1", "-a": "x", "--chat-template": "x"}
    values |= {"--slot-save-path": "x", "--temp": "0"}
    argv = []
    for flag in FLAGS:
        argv.append(flag.names[0])
        if flag.constant is None:
            argv.append(values.get(flag.names[0], "3"))
    code = (
        "import sys, xllamacpp; from bench.engines.llama_launcher import apply, read_flags\n"
        "params = xllamacpp.CommonParams(); apply(read_flags(sys.argv[1:]), params)\n"
        "print(params.n_ctx, params.cpuparams.n_threads, params.speculative.draft.n_max, params.endpoint_metrics)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "3 3 3 True\n"


@pytest.mark.real_engine
def test_a_file_that_is_no_model_ends_with_code_1(model):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "bench.engines.llama_launcher", "-m", model, "--port", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "llama_launcher: Failed to init server" in done.stderr
