"""`--unsafe-no-sandbox`: no isolation, but the same contract and an end that finds everything."""

import json
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest

from bench.contracts import BoxLimits, BoxPlan, Mount, RelayAddress
from bench.errors import HarnessError
from bench.sandbox.box import open_box


@pytest.fixture(scope="module")
def none():
    return open_box(unsafe=True)


def read(started):
    with started.process.stdout as out:
        text = out.read().decode()
    started.end()
    return text


def living(mark):
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and any(mark in part for part in process.cmdline()):
                found.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def command_of(pid):
    try:
        return psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return []


def test_it_says_what_it_is_and_shows_real_paths(none, tmp_path):
    assert (none.name, none.isolation) == ("none", "none")
    assert none.project_path(tmp_path) == str(tmp_path.resolve())
    assert none.mount_path(Mount(source=tmp_path / "a.py", target="/tools/a.py")) == str(tmp_path.resolve() / "a.py")
    assert none.relay_url(RelayAddress(socket=Path("/x"), port=4321)) == "http://127.0.0.1:4321"


def test_the_environment_is_clean_and_the_tools_are_the_same(none, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_SECRET", "pearl-diver")
    text = "import json, os, sys; print(json.dumps([dict(os.environ), os.getcwd(), sys.version_info[:2]]))"
    plan = BoxPlan(argv=("python3", "-c", text), project=tmp_path, writable=True, env={"COLOUR": "green"})
    env, cwd, version = json.loads(read(none.start(plan, stdout=subprocess.PIPE)))
    assert cwd == str(tmp_path.resolve())
    assert version == list(sys.version_info[:2])
    assert env["COLOUR"] == "green"
    assert "HARNESS_SECRET" not in env
    assert not Path(env["HOME"]).exists(), "the scratch folder goes with the process"
    node = none.start(BoxPlan(argv=("node", "-p", "process.execPath"), project=None), stdout=subprocess.PIPE)
    assert read(node).strip().endswith("node")


def test_without_a_project_the_working_directory_is_empty(none):
    plan = BoxPlan(argv=("sh", "-c", "ls -A . | wc -l"), project=None)
    assert read(none.start(plan, stdout=subprocess.PIPE)).strip() == "0"


def test_a_file_over_the_limit_stops_there(none, tmp_path):
    plan = BoxPlan(
        argv=("sh", "-c", "head -c 50000 /dev/zero >big"),
        project=tmp_path,
        writable=True,
        limits=BoxLimits(file_bytes=10_240),
    )
    started = none.start(plan)
    started.process.wait()
    started.end()
    assert (tmp_path / "big").stat().st_size == 10_240


@pytest.mark.parametrize("escape", ["", "setsid ", "setsid env -i "])
def test_end_finds_what_has_left_its_parent(none, escape):
    mark = f"{uuid.uuid4()}"
    # The one without its mark still descends from the command while that lives.
    orders = f"{escape}sh -c 'sleep 1234567; : {mark}' & echo up; wait"
    before = set(psutil.pids())
    started = none.start(BoxPlan(argv=("sh", "-c", orders), project=None), stdout=subprocess.PIPE)
    with started.process.stdout as out:
        assert out.readline() == b"up\n"
        while not living(mark):
            time.sleep(0.01)
        started.end()
        started.end()
    assert not living(mark)
    assert not [pid for pid in set(psutil.pids()) - before if command_of(pid) == ["sleep", "1234567"]]


def test_end_finds_a_daemon_whose_parent_is_gone(none):
    mark = f"{uuid.uuid4()}"
    orders = f"setsid sh -c 'sleep 1000; : {mark}' >/dev/null 2>&1 & :"
    started = none.start(BoxPlan(argv=("sh", "-c", orders), project=None))
    started.process.wait()
    assert living(mark)
    started.end()
    assert not living(mark)


def test_other_threads_are_turned_away(none):
    said = []

    def attempt():
        try:
            none.start(BoxPlan(argv=("true",), project=None))
        except HarnessError as error:
            said.append(str(error))

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert len(said) == 1


def test_a_project_that_is_not_there_is_said(none, tmp_path):
    with pytest.raises(HarnessError, match="cannot be started in"):
        none.start(BoxPlan(argv=("true",), project=tmp_path / "gone"))
