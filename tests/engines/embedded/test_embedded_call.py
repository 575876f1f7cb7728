from __future__ import annotations

import socket
import subprocess
import sys

import pytest

MODULE = [sys.executable, "-m", "bench.engines.embedded"]


def call(*options):
    return subprocess.run([*MODULE, *options], capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "--script"),
        (("--script", "x", "--port", "70000"), "expected a whole number from 0 to 65535, got '70000'"),
        (("--script", "x", "--time-scale", "nan"), "expected a number from 0 to 100, got 'nan'"),
        (("--script", "x", "--block-tokens", "0"), "expected a whole number of at least 1, got '0'"),
        (("--script", "x", "--speed", "9"), "unrecognized arguments: --speed 9"),
        (("--script", "x", "--memory-bytes", "5"), "--ram-cache-bytes is a part of --memory-bytes"),
        (("--script", "x", "--ssd-keep"), "--ssd-keep needs --ssd-dir"),
        (("--script", "x", "--truth", "/no/such/folder/t", "--port", "0"), "/no/such/folder/t: No such file"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(options, problem):
    done = call(*options)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_teaches():
    done = call("--help")
    assert done.returncode == 0
    for part in (
        "/v1/chat/completions",
        "/v1/responses",
        "fault",
        "--time-scale",
        "X-Runcard-Session",
        "--ssd-keep",
        "(131072)",
    ):
        assert part in done.stdout


def test_a_broken_script_ends_the_start(script):
    (script / "script.yaml").write_text("about: x\nsessions:\n  - role: bilder\n    turns: [{say: x}]\n")
    done = call("--script", str(script), "--port", "0")
    assert done.returncode == 2
    assert f"{script}/script.yaml:3: key 'sessions.0.role': expected 'bootstrap'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_taken_port(script):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = call("--script", str(script), "--port", str(port))
    assert done.returncode == 2
    assert done.stderr == f"python -m bench.engines.embedded: 127.0.0.1:{port}: Address already in use\n"


def test_it_ends_on_a_signal(engine):
    assert engine.stop() == 0
    assert engine.log().endswith("embedded: stopped\n")
