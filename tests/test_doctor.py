"""`runcard doctor` as a person runs it: where all is well, where there is no box, and where the box does not hold."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import yaml

from bench import doctor
from bench.agents.adapters import agent_names, open_adapter
from bench.contracts import BoxPlan
from bench.engines.profile import list_profiles
from bench.errors import HarnessError
from bench.machine import Provision, provisions
from bench.sandbox.attack.attack_main import in_order
from bench.sandbox.attacks import Trial
from bench.sandbox.box import open_box
from bench.sandbox.decoys import set_out
from bench.spec import REPOSITORY, AgentSpec
from tests.agents.npm_agents import require_agent


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The program in a folder of its own, without any installed agent: its doctor has two boxes to attack."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("bench", "fixtures/agents", "fixtures/engines"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "hidden").mkdir()
    return folder


def command(folder, *arguments):
    begin = f"import sys; sys.path.insert(0, {str(folder)!r}); from bench.cli import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", begin, "doctor", *map(str, arguments)]


@pytest.fixture(scope="module")
def well(tmp_path_factory):
    """What it finds, as text and as JSON, on a machine where all is well; of the agents, that of two."""
    results = tmp_path_factory.mktemp("doctor") / "results"
    require_agent("pi")
    found = doctor.diagnose(results=results, unsafe=False, progress=lambda text: None, agents=("builtin", "pi"))
    assert found.exit_code == 0, doctor.as_text(found)
    assert not results.exists(), "it only looks"
    return doctor.as_text(found), json.loads(doctor.as_json(found))


def test_every_attack_is_made_on_every_box(well):
    _, told = well
    assert [one["title"] for one in told["boxes"]] == ["the box of builtin", "the box of pi", "the scoring box"]
    for one in told["boxes"]:
        assert [trial["id"] for trial in one["trials"]] == list(in_order())
        odd = {trial["id"]: trial["verdict"] for trial in one["trials"] if trial["verdict"] != "held"}
        if odd.get("net.ipv6") == "not tried":  # this machine has none
            del odd["net.ipv6"]
        scoring = {"works.project": "ok", "works.relay": "not tried"}
        agents = {"works.project": "ok", "works.relay": "ok", "limits.memory": "not tried"}
        assert odd == (scoring if one["title"] == doctor.SCORING else agents)
        assert all(trial["tried"] and trial["seen"] for trial in one["trials"])


def test_an_agent_writes_its_project_and_its_folder_and_nothing_else(well):
    _, told = well
    seen = next(trial["seen"] for trial in told["boxes"][0]["trials"] if trial["id"] == "works.project")
    assert seen == "reads /box, writes /box, /agent, /tmp"


def test_a_session_of_pi_writes_its_project_and_its_own_folder_alone(tmp_path):
    require_agent("pi")
    box, adapter = open_box(unsafe=False), open_adapter(AgentSpec(name="pi", args=()))
    look = (
        "find / '(' -path /proc -o -path /usr -o -path /dev -o -path /tools/python ')' -prune -o -writable -print; "
        "touch /tools/pi/node_modules/x /tools/pi/node_modules/@earendil-works/pi-coding-agent/package.json"
    )
    with set_out() as decoys:
        trials = doctor._of_agent(adapter)(box, decoys, tmp_path)
        assert not [trial for trial in trials if trial.verdict == "BROKEN"]
    with set_out() as decoys:
        command = doctor._session_command(adapter, box, decoys)
        door = command.argv[: command.argv.index("python3", 1)]
        plan = BoxPlan(
            argv=(*door, "sh", "-c", look),
            project=decoys.project("project"),
            writable=True,
            mounts=command.mounts,
            env=command.env,
            relay=decoys.relay,
        )
        boxed = box.start(plan, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = (pipe.decode() for pipe in boxed.process.communicate(timeout=60))
        boxed.end()
    found = {path for path in out.split() if not path.startswith("/agent/")}
    assert found == {"/agent", "/box", "/box/brief.md", "/run/relay.sock", "/tmp"}
    assert {"/agent/config/models.json", "/agent/sessions", "/agent/home"} <= set(out.split())
    assert err.count("touch: ") == 2, err


def test_the_machine_is_told_part_by_part(well):
    plain, told = well
    found = {provision["id"]: provision for provision in told["machine"]}
    assert {f"agent {name}" for name in agent_names()} | {f"engine {name}" for name in list_profiles()} <= set(found)
    assert {"python", "node", "results", "room", "temporary", "npm"} <= set(found)
    assert found["engine embedded"]["there"]
    assert all(provision["told"] for provision in found.values())
    assert all(name in plain for name in found)


def test_it_reads_well_at_80_columns(well):
    lines = well[0].splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "This machine"
    assert "fit for runs: the box (bubblewrap " in " ".join(lines[-3:])
    assert "attacks, " in " ".join(lines[-2:])
    assert lines[-1].endswith("tried")
    assert "  held      held      read.hidden: list the hidden cases" in well[0]
    assert "\x1b" not in well[0]


def test_without_a_box_it_shows_what_comes_through(checkout, tmp_path):
    secret = {**os.environ, "RUNCARD_SECRET": "pearl", "TMPDIR": str(tmp_path)}
    asked = command(checkout, "--unsafe-no-sandbox", "--json", "--results", tmp_path)
    done = subprocess.run(asked, env=secret, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["box"], told["exit_code"]) == ("none", 1)
    for one in told["boxes"]:
        broken = {trial["id"] for trial in one["trials"] if trial["verdict"] == "BROKEN"}
        assert broken >= {
            *("read.repository", "read.hidden", "read.results", "read.harness", "read.decoy", "read.link"),
            *("read.host-name", "env.variables", "env.canary", "env.command-lines", "write.other-run", "write.mounts"),
            *("write.root", "net.ports", "net.udp", "net.abstract", "net.named"),
            *("process.seen", "process.signal", "process.outlives", "rights.capabilities", "rights.setuid"),
            *("limits.disk", "limits.processes"),
        }
    assert "pearl" not in done.stdout
    assert_nothing_is_left(tmp_path)


def assert_nothing_is_left(folder):
    """Of a doctor that worked in it: neither decoys nor a process, which would have its working folder below it."""
    assert not list(folder.glob("runcard-doctor-*"))
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.cwd().startswith(str(folder)):
                left.append(process)
    assert not left


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_doctor_that_is_stopped_leaves_nothing(checkout, tmp_path, number):
    place = {**os.environ, "TMPDIR": str(tmp_path)}
    asked = command(checkout, "--results", tmp_path)
    with subprocess.Popen(asked, env=place, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        # Its attacker is there: a box is being attacked.
        while not list(tmp_path.glob("runcard-doctor-*/attacker/orders.json")):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert len(list(tmp_path.glob("runcard-doctor-*"))) == 1
        asked = [sys.executable, "-c", "from bench.sandbox.decoy_folder import own_folder as it\nwith it(): pass"]
        subprocess.run(asked, env=place, cwd=REPOSITORY, check=True)
        assert not list(tmp_path.glob("runcard-doctor-*"))
    else:
        assert process.returncode == 130
        assert err.decode().splitlines()[-1] == "doctor: stopped before it was done; nothing is left of it"
        assert_nothing_is_left(tmp_path)


def test_a_damaged_profile_is_told_and_the_rest_is_attacked(checkout, tmp_path):
    profile = checkout / "fixtures" / "agents" / "codex" / "profile.yaml"
    whole = profile.read_text()
    profile.write_text("reader: [")
    try:
        done = subprocess.run(command(checkout, "--results", tmp_path), capture_output=True, text=True, check=False)
    finally:
        profile.write_text(whole)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agent codex          missing" in done.stdout
    assert "profile.yaml" in done.stdout
    assert "fit for runs" in done.stdout
    assert "(builtin)" in " ".join(done.stdout.split()), "whose box was attacked"


def test_a_machine_without_a_box_is_told_and_refused(tmp_path):
    packages, tools = tmp_path / "packages", tmp_path / "tools"
    packages.mkdir()
    tools.mkdir()
    for package in Path(yaml.__file__).parent.parent.iterdir():
        if not package.name.startswith(("bubblewrap", "__editable__")):
            (packages / package.name).symlink_to(package)
    text = f"import sys; sys.path[:0] = [{str(REPOSITORY)!r}, {str(packages)!r}]; from bench.cli import main; sys.exit(main())"
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    libraries = {"PATH": str(tools), "LD_LIBRARY_PATH": f"{sys.base_prefix}/lib"}
    asked = [python, "-I", "-S", "-c", text, "doctor", "--results", tmp_path]
    done = subprocess.run(asked, env=libraries, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "agent builtin" in done.stdout
    assert "apt-get install npm" in done.stdout
    assert "BROKEN: there is no working box on this machine" in done.stdout
    assert "apt-get install bubblewrap" in done.stdout
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in done.stdout
    assert "held" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


class Silent:
    """A box in which nothing starts."""

    name = "silent"
    isolation = "boxed"

    def project_path(self, plan_project):
        return "/box"

    def mount_path(self, mount):
        return mount.target

    def relay_url(self, relay):
        return "unix:///run/relay.sock"

    def start(self, plan, **pipes):
        raise HarnessError("bwrap: no such thing")


def test_a_box_in_which_nothing_starts_does_not_hold(tmp_path):
    found = doctor.diagnose(results=tmp_path, unsafe=False, progress=lambda text: None, around=lambda box: Silent())
    assert {trial.id for _, trial in found.broken} == {"works.start"}
    assert len(found.broken) == len(found.boxes) >= 2
    assert found.exit_code == 1
    node = next(provision for provision in found.machine if provision.id == "node")
    assert (node.there, node.needed) == (False, True)
    text = doctor.as_text(found)
    assert "  BROKEN  works.start in every box: bwrap: no such thing" in text
    assert "no run can work without: node" in text


def test_what_is_broken_stands_last_with_the_box_it_is_broken_in():
    held = Trial(id="read.hidden", tried="list the hidden cases", verdict="held", seen="no such file")
    leaks = replace(held, verdict="BROKEN", seen="it succeeded: \x1b[31m/hidden " + "and more " * 20)
    idle = replace(held, verdict="not tried", seen="no such thing here")
    boxes = (
        doctor.Attacked(title="the box of one", trials=(held,)),
        doctor.Attacked(title="the box of two", trials=(leaks,)),
        doctor.Attacked(title=doctor.SCORING, trials=(idle,)),
    )
    found = doctor.Diagnosis(box="a box", refusal=None, boxes=boxes)
    text = doctor.as_text(found)
    assert found.exit_code == 1
    assert "  BROKEN    not tried read.hidden: list the hidden cases" in text
    assert "not tried: no such thing here]" in " ".join(text.split())
    assert "  BROKEN  read.hidden in the box of two: it succeeded" in text
    assert "BROKEN: 1 of 2 attacks came through, 1 not tried; do not trust" in " ".join(text.split())
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_it_is_as_wide_as_it_is_asked_and_a_path_is_broken_at_a_slash():
    path = "/somewhere" * 20
    found = doctor.Diagnosis(box=None, refusal="none", machine=(Provision(id="room", there=True, told=path),))
    narrow, wide = (doctor.as_text(found, width=width).splitlines() for width in (60, 120))
    assert max(map(len, narrow)) <= 60 < max(map(len, wide)) <= 120
    assert all(line.endswith(("/", "/somewhere", "missing", "none", "")) for line in narrow[1:])
    assert sum(line.endswith("somewhere/") for line in narrow) > 3


def test_what_no_run_can_work_without_is_exit_code_1_and_the_rest_is_not():
    box = doctor.Attacked(title=doctor.SCORING, trials=())
    lacking = Provision(id="engine vllm", there=False, told="install it")
    fit = doctor.Diagnosis(box="a box", refusal=None, boxes=(box,), machine=(lacking,))
    assert fit.exit_code == 0
    assert replace(fit, machine=(replace(lacking, needed=True),)).exit_code == 1
    assert replace(fit, boxes=()).exit_code == 1, "nothing was attacked"
    assert replace(fit, box=None).exit_code == 1


def test_folders_that_cannot_be_written_are_told(tmp_path):
    (tmp_path / "file").write_text("x")
    found = {provision.id: provision for provision in provisions(tmp_path / "file" / "results", None)}
    assert not found["results"].there
    assert found["results"].needed
    assert found["results"].told.endswith("cannot be written: give another folder with --results DIR")
    assert found["temporary"].there


def test_progress_is_told_once_it_takes_long():
    stream = io.StringIO()
    with doctor.told_when_slow(stream, silent_seconds=1_000) as tell:
        tell("opening a box")
    assert stream.getvalue() == ""
    with doctor.told_when_slow(stream, silent_seconds=0) as tell:
        tell("opening a box")
        while not stream.getvalue():
            time.sleep(0.01)
        tell("attacking it")
    assert stream.getvalue().splitlines()[-1] == "doctor: attacking it ..."
