"""The harness's call of ./verify: real processes, every way in which a project's program can be wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.contracts import VerifyRequest
from bench.loop.verifying import read_checks, run_verify


class DirectProcess:
    def __init__(self, process):
        self.process = process

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class DirectBox:
    """No isolation at all: the box's protocol, so that these tests need no box."""

    name = "direct"
    isolation = "none"

    def __init__(self):
        self.plans = []

    def start(self, plan, *, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        self.plans.append(plan)
        env = {"PATH": os.environ["PATH"], **plan.env}
        return DirectProcess(
            subprocess.Popen(
                plan.argv, cwd=plan.project, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
            )
        )


@pytest.fixture
def verify(tmp_path):
    """Writes a program as ./verify and runs it."""

    def run(body, *arguments, seconds=10.0, stop=lambda: False, shebang="#!/bin/sh", box=None):
        place = tmp_path / "verify"
        place.write_text(f"{shebang}\n{body}\n")
        place.chmod(0o755)
        request = VerifyRequest(project=tmp_path, arguments=arguments or ("--all",), seconds=seconds)
        return run_verify(request, box=box or DirectBox(), stop_requested=stop)

    return run


def test_a_good_verify_passes(verify):
    box = DirectBox()
    result = verify('echo "building"\necho "ok a"\necho "ok b.c 12 ms"\necho "args $*" >&2', "--task", "T001", box=box)
    assert result.passed, result
    assert [(check.id, check.ok, check.reason) for check in result.checks] == [("a", True, ""), ("b.c", True, "12 ms")]
    assert (result.exit_code, result.reason) == (0, "")
    assert result.output == "building\nok a\nok b.c 12 ms\n\n[stderr]\nargs --task T001"
    (plan,) = box.plans
    assert plan.relay is None
    assert plan.writable
    assert plan.mounts == ()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("true", "no check line (exit code 0)"),
        ("exit 3", "no check line (exit code 3)"),
        ("echo ok a; exit 1", "every check is ok, but the exit code is 1"),
        ("echo ok a; echo not ok b too long", "1 of 2 checks are not ok: b"),
        ("echo ok a; echo ok a", "the check a stands twice"),
        ("echo not ok a; echo not ok a", "the check a stands twice"),
        ("echo ok a; echo not ok a", "the check a stands both as ok and as not ok"),
        ("echo ok", "a check line without a proper id: 'ok'"),
        ("echo not ok; echo ok a", "a check line without a proper id: 'not ok'"),
        ("echo 'ok a' >&2", "no check line (exit code 0)"),
        ("echo ok a; kill -9 $$", "every check is ok, but the exit code is -9"),
    ],
)
def test_what_does_not_pass(verify, body, reason):
    result = verify(body)
    assert (result.passed, result.reason) == (False, reason)


def gone(pid):
    """Waits until a killed process is seen dead; a zombie that nobody reaps is dead."""
    for _ in range(500):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


def test_a_deadline_ends_it_and_all_that_it_started(verify, tmp_path):
    result = verify("echo ok a\nsleep 600 & echo $! > child\nsleep 600", seconds=0.3)
    assert (result.passed, result.exit_code, result.reason) == (False, None, "it did not end within 0.3 s")
    assert [check.id for check in result.checks] == ["a"]
    assert gone(int((tmp_path / "child").read_text()))


def test_a_child_that_keeps_the_pipe_open_does_not_hold_us(verify, tmp_path):
    result = verify("echo ok a\nsleep 30 & echo $! > child", seconds=25)
    assert result.passed
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_process_that_closes_its_outputs_is_waited_for(verify):
    assert verify("echo ok a\nexec >&- 2>&-\nsleep 0.2\nexit 4").exit_code == 4


def test_a_stop_request_ends_it(verify):
    result = verify("echo ok a; sleep 600", stop=lambda: True)
    assert (result.passed, result.exit_code, result.reason) == (False, None, "stopped with the run")


def test_a_flood_is_cut_and_capped(verify):
    result = verify("while :; do echo 'some line that says nothing at all, again and again'; done", seconds=60)
    assert result.reason == "it printed more than 2,000,000 bytes"
    assert len(result.output) < 20_200


def test_a_flood_on_stderr_does_no_harm(verify):
    body = "import sys\nsys.stderr.write('x' * 3_000_000)\nprint('ok a')"
    result = verify(body, shebang=f"#!{sys.executable}")
    assert result.passed
    assert len(result.output) < 20_200


def test_output_that_is_no_text(verify):
    result = verify(r"printf 'ok a\377\000b\n'")
    assert [check.id for check in result.checks] == ["a\ufffd\ufffdb"]


def test_more_checks_than_anybody_wants(verify):
    result = verify("i=0; while [ $i -lt 5100 ]; do echo ok $i; i=$((i+1)); done")
    assert (result.passed, result.reason, len(result.checks)) == (False, "more than 5,000 checks", 5_000)


def test_a_missing_interpreter_is_an_exit_code(verify):
    result = verify("echo ok a", shebang="#!/usr/bin/env no-such-interpreter")
    assert (result.passed, result.exit_code, result.reason) == (False, 127, "no check line (exit code 127)")
    assert "no-such-interpreter" in result.output


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda place: None, "verify: No such file or directory"),
        (lambda place: place.mkdir(), "verify is not a regular file"),
        (lambda place: place.symlink_to("/bin/true"), "verify is a symbolic link"),
        (lambda place: place.write_text("#!/bin/sh\n"), "verify is not executable"),
        (os.mkfifo, "verify is not a regular file"),
    ],
)
def test_a_verify_that_is_not_there(tmp_path, make, reason):
    make(tmp_path / "verify")
    box = DirectBox()
    request = VerifyRequest(project=tmp_path, arguments=("--all",), seconds=5)
    result = run_verify(request, box=box, stop_requested=lambda: False)
    assert (result.passed, result.exit_code, result.reason, box.plans) == (False, None, reason, [])


IDS = st.text(st.characters(codec="ascii", exclude_categories=["Z", "C"]), min_size=1, max_size=20)


@given(st.dictionaries(IDS, st.booleans(), max_size=20), st.lists(st.text(max_size=20), max_size=10))
def test_check_lines_are_read_among_any_other_lines(checks, noise):
    harmless = [f"# {line}" for text in noise for line in text.splitlines()]
    lines = [f"{'ok' if ok else 'not ok'} {name}" for name, ok in checks.items()]
    found, damage = read_checks("\n".join([*harmless, *lines]))
    assert damage == ""
    assert {check.id: check.ok for check in found} == checks


@given(st.text())
def test_any_output_is_read(text):
    found, _ = read_checks(text)
    assert len({check.id for check in found}) == len(found)
