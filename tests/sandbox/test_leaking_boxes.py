"""A box that leaks is found out: real boxes, each made weaker in one way, and what the attacks say of it."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bench.contracts import BoxLimits, BoxPlan, Mount
from bench.errors import UsageError
from bench.sandbox.attacks import attack, attacker
from bench.sandbox.box import open_box
from bench.sandbox.decoys import set_out
from bench.spec import REPOSITORY


class LeakingBox:
    """A real box, but for what it does to every plan before it starts it."""

    def __init__(self, inner, leak):
        self._inner = inner
        self._leak = leak

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def start(self, plan, **pipes):
        return self._inner.start(self._leak(plan), **pipes)


@pytest.fixture(scope="module")
def sound():
    return open_box(unsafe=False)


def broken(sound, leak, *, limits=None, spoil=lambda decoys: None):
    """Ids of the trials that are BROKEN in a box for scoring that leaks, with what was seen."""
    box = LeakingBox(sound, leak)
    with set_out() as decoys:
        hostile = attacker(box, decoys)
        project = decoys.project("project")
        plan = BoxPlan(argv=hostile.argv, project=project, mounts=hostile.mounts, limits=limits or BoxLimits())
        spoil(decoys)
        trials = attack(box, plan, decoys, results=decoys.folder / "results", relay_url=None)
    return {trial.id: trial.seen for trial in trials if trial.verdict == "BROKEN"}


def mounting(source, target):
    return lambda plan: replace(plan, mounts=(*plan.mounts, Mount(source=source, target=str(target))))


def test_one_that_does_not_leak_is_not_accused(sound):
    assert broken(sound, lambda plan: plan) == {}


def test_hidden_cases_that_are_there(sound, tmp_path):
    (tmp_path / "test_hidden.py").write_text("answer = 42")
    found = broken(sound, mounting(tmp_path, REPOSITORY / "hidden"))
    # The folder above it exists with it.
    assert set(found) == {"read.repository", "read.hidden", "read.mounts"}
    assert found["read.hidden"] == f"it succeeded: {REPOSITORY / 'hidden'}"


_WEAKENED = r"""#!/bin/bash
# Bubblewrap without some of its arguments: a line of `dropped` is one word, or two that follow each other.
here=${0%/*}
if [ "$1" = --version ]; then exec "$here/real" --version; fi
listing=$2; shift 2
mapfile -d '' -u "$listing" words
exec {listing}<&-
for ((at = 0; at < ${#words[@]}; at++)); do
  if /bin/grep -qxF -- "${words[at]} ${words[at+1]}" "$here/dropped"; then at=$((at + 1))
  elif ! /bin/grep -qxF -- "${words[at]}" "$here/dropped"; then printf '%s\0' "${words[at]}"; fi
done >"$here/kept"
exec {kept}<"$here/kept"
exec -c -a bwrap "$here/real" --args "$kept" "$@"
"""


@pytest.mark.parametrize(
    ("dropped", "found"),
    [
        ("", set()),
        ("--remount-ro /", {"write.root"}),
        ("--unshare-uts\n--hostname box", {"read.host-name"}),
        # An ordinary user's command is itself the first process of its box, which ends with it.
        ("--die-with-parent", {"process.outlives"} if os.geteuid() == 0 else set()),
    ],
)
def test_a_bubblewrap_that_does_less(tmp_path, monkeypatch, sound, dropped, found):
    (tmp_path / "real").symlink_to(sound._program)
    (tmp_path / "dropped").write_text(dropped)
    (tmp_path / "bwrap").write_text(_WEAKENED)
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    weak = open_box(unsafe=False)
    assert weak._program == tmp_path / "bwrap"
    assert set(broken(weak, lambda plan: plan)) == found


def test_the_repository_itself_is_refused_by_the_box(sound):
    with pytest.raises(UsageError, match="must not be seen from inside a box"):
        broken(sound, mounting(REPOSITORY, REPOSITORY))


def test_another_run_that_is_there(sound):
    def leak(plan):
        return mounting(plan.project.parent, plan.project.parent)(plan)

    found = broken(sound, leak)
    assert {"read.decoy", "read.link", "read.search", "read.through-proc", "read.harness", "net.named"} <= set(found)
    assert "answer-" in found["read.search"]


def test_another_run_that_is_there_under_another_name(sound):
    def leak(plan):
        return mounting(plan.project.parent / "other-run", "/data/run")(plan)

    found = broken(sound, leak)
    assert set(found) == {"read.search", "read.mounts"}
    assert found["read.search"].startswith("/data/run/answer-")


def test_a_project_that_can_be_written(sound):
    found = broken(sound, lambda plan: replace(plan, writable=True))
    assert set(found) == {"write.mounts", "write.anywhere"}
    assert found["write.anywhere"] == "it succeeded: /box"
    assert "/box" in found["write.mounts"]


def test_variables_descriptors_and_history_that_are_there(sound):
    ours, theirs = os.pipe()

    def leak(plan):
        return replace(plan, env={"RUNCARD_ENGINE_KEY": "sk-pearl"}, pass_fds=(theirs,))

    def spoil(decoys):
        (decoys.folder / "project" / ".git").mkdir(mode=0o755)

    try:
        found = broken(sound, leak, spoil=spoil)
    finally:
        os.close(ours)
        os.close(theirs)
    assert set(found) == {"env.variables", "env.descriptors", "read.git"}
    assert "RUNCARD_ENGINE_KEY" in found["env.variables"]
    assert found["env.descriptors"] == f"it succeeded: descriptor {theirs}"


def test_limits_that_do_not_hold(sound):
    asked = BoxLimits(processes=20, file_bytes=4_000_000, tmp_bytes=8_000_000, memory_bytes=100_000_000)
    found = broken(sound, lambda plan: replace(plan, limits=BoxLimits()), limits=asked)
    assert set(found) == {"limits.raised", "limits.memory", "limits.file", "limits.disk", "limits.processes"}


@pytest.mark.parametrize(
    "argv", [("true",), ("python3", "-c", "print('[1')"), ("python3", "-c", "raise SystemExit('hurt')")]
)
def test_an_attack_that_was_not_made_counts_as_one_that_came_through(sound, argv):
    found = broken(sound, lambda plan: replace(plan, argv=argv))
    assert len(found) > 40
    assert set(found.values()) == {found["read.hidden"]}
    assert "the program ended before" in found["read.hidden"]


def test_an_attack_that_breaks_down_counts_as_one_that_came_through(sound):
    found = broken(sound, lambda plan: replace(plan, project=None))
    assert found["works.project"] == "its project is empty"
    assert found["write.mounts"].startswith("the attack broke down: FileNotFoundError")


def test_nothing_of_the_decoys_is_left():
    with set_out() as decoys:
        folder, bystander = decoys.folder, decoys.bystander.pid
        assert decoys.untouched()
        assert not decoys.datagram_arrived()
        assert subprocess.run(["cat", decoys.file], capture_output=True, check=True).stdout == b"42\n"
    assert not folder.exists()
    assert not Path(f"/proc/{bystander}").exists()


def test_a_changed_run_and_a_process_left_behind_are_seen():
    with set_out() as decoys:
        decoys.file.write_text("43\n")
        assert not decoys.untouched()
        with subprocess.Popen(["/bin/sh", "-c", "read line", decoys.daemon], stdin=subprocess.PIPE) as left:
            assert [process.pid for process in decoys.left_behind()] == [left.pid]
        assert decoys.left_behind() == ()
