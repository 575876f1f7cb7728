"""Launching, awaiting and stopping: real processes that behave well, badly, or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.engines.engine import last_lines, launch, start
from bench.errors import EngineStartError, MissingPartError, UsageError
from bench.processes import group_members
from bench.spec import EngineSpec


def nothing(_progress):
    pass


def wait_until_gone(*pids):
    """Waits for processes to go; a test that waits too long fails."""
    deadline = time.monotonic() + 20
    while alive := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < deadline, f"still there: {alive}"
        time.sleep(0.02)


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def family_of(engine, *, at_least):
    """Numbers of the engine and what it started, once that many are there."""
    deadline = time.monotonic() + 20
    while True:
        pids = {process.pid for process in engine._supervised.family()}
        if len(pids) >= at_least:
            return pids
        assert time.monotonic() < deadline, f"only {pids}"
        time.sleep(0.02)


def test_a_good_engine_is_loading_then_ready_then_seen_dead(make_profile, plan):
    profile = make_profile()
    engine = start(plan(profile), profile, progress=nothing)
    try:
        assert engine.dead() is None
        assert engine.context_window == 4096
        assert engine.granted == {"words": f"port {engine.port}"}
        assert set(engine.not_known) == {"model_sha256"}
        assert engine.ready_seconds >= 0.3
        pid = engine.pid
        assert is_running(pid)
        assert f"told: port {engine.port}" in engine.log.read_text()
        assert len(engine.binary_sha256) == 64
        assert engine.version.endswith("small-engine 1.2 (abc)")
    finally:
        engine.stop()
    assert not is_running(pid)
    assert engine.dead() == "the harness stopped it"
    engine.stop()


def test_stop_ends_a_stubborn_engine_and_its_daemons(make_profile, plan):
    profile = make_profile(words=("stubborn", "daemon"))
    engine = start(plan(profile), profile, progress=nothing)
    pids = family_of(engine, at_least=2)
    engine.stop()
    assert [pid for pid in pids if is_running(pid)] == []


def test_an_engine_that_dies_later_is_dead_with_its_signal(make_profile, plan):
    profile = make_profile()
    engine = start(plan(profile), profile, progress=nothing)
    os.kill(engine.pid, signal.SIGSEGV)
    while (why := engine.dead()) is None:
        time.sleep(0.01)
    assert why == "it was ended by SIGSEGV"
    assert engine.pid is None
    engine.stop()


def test_a_killed_supervisor_takes_the_engine_along_and_stop_sweeps_the_rest(make_profile, plan):
    profile = make_profile(words=("daemon",))
    engine = start(plan(profile), profile, progress=nothing)
    pids = family_of(engine, at_least=2)
    pid = engine.pid
    engine._supervised.supervisor.kill()
    wait_until_gone(pid)
    while (why := engine.dead()) is None:
        time.sleep(0.01)
    assert "supervisor" in why
    engine.stop()
    assert [pid for pid in pids if is_running(pid)] == []


HARNESS = """
import sys, time
from pathlib import Path
from bench.engines.engine import plan_launch, start
from bench.engines.profile import ProfileFile
from bench.yaml_file import load_model

profile = load_model(Path(sys.argv[1]), ProfileFile)
values = {"model": "m", "model_file": "", "script": ""}
planned = plan_launch(profile, name="small", values=values, args=(), model_sha256=None, folder=Path(sys.argv[2]))
engine = start(planned, profile, progress=print)
for _ in range(500):
    if len(engine._supervised.family()) >= 2:
        break
    time.sleep(0.02)
print(*(process.pid for process in engine._supervised.family()), engine._supervised.supervisor.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_harness_however_it_dies(make_profile, tmp_path, number):
    make_profile(words=("stubborn", "daemon"))
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, tmp_path / "small.yaml", tmp_path / "engine"], stdout=subprocess.PIPE, text=True
    ) as harness:
        pids = [int(word) for word in harness.stdout.readline().split()]
        assert len(pids) == 3
        harness.send_signal(number)
        harness.wait()
        wait_until_gone(*pids)


def test_an_engine_that_dies_at_start_is_told_with_command_log_and_advice(make_profile, plan):
    code = "import sys\nprint('no such layer: 7\\x1b[31m')\nsys.exit(3)\n"
    profile = make_profile(code)
    planned = plan(profile)
    planned.log.write_text("an earlier launch\n")
    with pytest.raises(EngineStartError) as caught:
        start(planned, profile, progress=nothing)
    text = str(caught.value)
    assert "Small engine did not start: it ended with exit code 3" in text
    assert f"command: {planned.command}" in text
    assert planned.command.startswith("env 'TOLD=port")
    assert "    no such layer: 7 [31m" in text
    assert "an earlier launch" not in text
    assert "what to do:" in text
    assert planned.log.read_text().startswith("an earlier launch\n")


def test_a_program_that_cannot_be_executed_is_told(make_profile, plan):
    profile = make_profile()
    planned = plan(profile)
    Path(planned.argv[0]).write_text("#!/no/such/interpreter\n", encoding="utf-8")
    with pytest.raises(EngineStartError, match="could not be started: No such file or directory"):
        start(planned, profile, progress=nothing)


def test_an_engine_that_never_listens_is_ended(make_profile, plan):
    profile = make_profile("import time\ntime.sleep(600)\n", seconds=0.5)
    planned = plan(profile)
    with pytest.raises(EngineStartError, match=r"was not ready after 0.5 s \(not listening yet\)"):
        start(planned, profile, progress=nothing)
    assert not any(planned.argv[0] in process.info["cmdline"] for process in processes_with_arguments())


def processes_with_arguments():
    return [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"]]


def test_an_engine_that_loads_for_ever_says_so_and_reports_progress(make_profile, plan):
    code = SERVER_THAT_LOADS
    profile = make_profile(code, seconds=2.6)
    lines = []
    with pytest.raises(EngineStartError, match=r"\(loading the model\)"):
        start(plan(profile), profile, progress=lines.append)
    assert lines[0].text.startswith("Small engine: loading the model, 2 s of at most 2.6 s")
    assert not lines[0].transient


SERVER_THAT_LOADS = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(503)

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_an_engine_with_another_health_address_is_told(make_profile, plan):
    profile = make_profile(ready="/elsewhere")
    with pytest.raises(EngineStartError, match="HTTP 404 to GET /elsewhere instead of 200"):
        start(plan(profile), profile, progress=nothing)


def test_a_port_on_which_somebody_else_answers_is_not_taken_for_the_engine(make_profile, plan, squatter):
    profile = make_profile("import time\ntime.sleep(600)\n")
    planned = plan(profile)
    squatter(planned.port)
    with pytest.raises(EngineStartError, match=f"port {planned.port} is taken: process {os.getpid()} answers there"):
        start(planned, profile, progress=nothing)


def test_a_port_taken_before_the_engine_binds_it_shows_the_engines_own_words(make_profile, plan, squatter):
    profile = make_profile()
    planned = plan(profile)
    squatter(planned.port)
    with pytest.raises(EngineStartError, match=r"is taken|Address already in use"):
        start(planned, profile, progress=nothing)


def test_an_interrupt_while_waiting_leaves_nothing(make_profile, plan):
    profile = make_profile("import time\ntime.sleep(600)\n")
    planned = plan(profile)

    def interrupt(_progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(planned, profile, progress=interrupt)
    assert not any(planned.argv[0] in process.info["cmdline"] for process in processes_with_arguments())


def test_a_missing_program_says_what_was_looked_for_and_how_it_would_run(make_profile, plan):
    profile = make_profile()
    gone = profile.model_copy(
        update={
            "launch": profile.launch.model_copy(
                update={"programs": [profile.launch.programs[0].model_copy(update={"command": "no-such-one"})]}
            )
        }
    )
    with pytest.raises(MissingPartError) as caught:
        plan(gone)
    assert "looked for `no-such-one` on PATH" in str(caught.value)
    assert "what to do: write it" in str(caught.value)
    assert "it would be run as: no-such-one" in str(caught.value)


def test_unknown_engine_script_and_model_file_are_refused_before_a_start(tmp_path):
    def attempt(**spec):
        launch(EngineSpec(**spec), workload_id="prefix-cache", folder=tmp_path / "engine", progress=nothing)

    with pytest.raises(UsageError, match="unknown engine 'nope'; there are: embedded, llama-server, lm-studio"):
        attempt(name="nope", model="")
    with pytest.raises(UsageError, match=r"unknown script '\.\./sound' for workload 'prefix-cache'; there are:"):
        attempt(name="embedded", model="../sound")
    with pytest.raises(UsageError, match="does not exist"):
        attempt(name="llama-server", model="m", model_file=tmp_path / "none.gguf")
    (tmp_path / "text.gguf").write_text("no model")
    with pytest.raises(UsageError, match="is not a GGUF file"):
        attempt(name="llama-server", model="m", model_file=tmp_path / "text.gguf")
    with pytest.raises(UsageError, match="'--port=1' is set by the harness itself"):
        attempt(name="llama-server", model="m", args=("--port=1",))
    with pytest.raises(UsageError, match="LM Studio is not started by this program"):
        attempt(name="lm-studio", model="m")
    assert not (tmp_path / "engine").exists()


def test_the_last_lines_of_a_log_are_few_short_and_printable(tmp_path):
    log = tmp_path / "engine.log"
    log.write_bytes(b"x" * 1_000_000 + b"\n" + b"".join(b"line %d \x1b[2J\xff\n\n" % n for n in range(40)))
    lines = last_lines(log)
    assert len(lines) == 15
    assert lines[-1] == "line 39  [2J\N{REPLACEMENT CHARACTER}"
    log.write_bytes(b"y" * 100_000)
    assert [len(line) for line in last_lines(log)] == [300]
    assert last_lines(log, after=100_000) == ()


def test_the_engine_has_a_session_of_its_own(make_profile, plan):
    """Ctrl-C at the terminal reaches the harness only; the harness decides when the engine ends."""
    profile = make_profile()
    engine = start(plan(profile), profile, progress=nothing)
    try:
        assert os.getsid(engine.pid) == engine.pid
        assert os.getsid(engine._supervised.supervisor.pid) != os.getsid(0)
        assert [process.pid for process in group_members(engine.pid)] == [engine.pid]
    finally:
        engine.stop()
