"""What this machine has of what runs need: interpreters, room, agents, engines; and how to get what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.agents.adapters import agent_names, open_adapter
from bench.contracts import Box, BoxPlan
from bench.engines.profile import list_profiles, read_profile
from bench.engines.program import find_program
from bench.errors import MissingPartError, RuncardError
from bench.spec import AgentSpec

_OLDEST_PYTHON = (3, 11)
_ROOM_BYTES = 1_000_000_000
"""Room for a few runs: one keeps up to some hundred megabytes of evidence."""

_NODE_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Provision:
    """One thing that runs may need."""

    id: str
    there: bool
    told: str
    """What was found, or how to get it."""

    needed: bool = False
    """No run could work without it."""


def provisions(results: Path, box: Box | None) -> Iterator[Provision]:
    """Each provision as it is found out. `box`: one that works, in which interpreters are looked at; None: there is none."""
    yield _python()
    if box is not None:
        yield _node(box)
    yield _folder("results", results, "give another folder with --results DIR")
    yield _room(results)
    yield _folder("temporary", Path(tempfile.gettempdir()), "set TMPDIR to a folder that can be written")
    npm = shutil.which("npm")
    yield Provision(
        id="npm",
        there=npm is not None,
        told=npm or "coding agents come by it: install Node's npm (apt-get install npm)",
    )
    for name in agent_names():
        yield _agent(name)
    for name in list_profiles():
        yield _engine(name)


def _python() -> Provision:
    found = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info[:2] < _OLDEST_PYTHON
    return Provision(
        id="python", there=not old, told=f"{found}; 3.11 or newer is needed" if old else found, needed=True
    )


def _node(box: Box) -> Provision:
    try:
        code, out, err = _run(box, BoxPlan(argv=("node", "--version"), project=None))
    except RuncardError as error:
        code, out, err = None, "", str(error)
    if code == 0 and out:
        return Provision(id="node", there=True, told=f"{out} in the box", needed=True)
    told = (
        f"Node does not run in the box ({err[-300:] or 'it says nothing'}): .venv/bin/pip install --upgrade playwright"
    )
    return Provision(id="node", there=False, told=told, needed=True)


def _run(box: Box, plan: BoxPlan) -> tuple[int | None, str, str]:
    """Exit code and what was printed; no code where it did not end in time."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        boxed = box.start(plan, stdout=out, stderr=err)
        try:
            code = boxed.process.wait(_NODE_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            boxed.end()
        out.seek(0)
        err.seek(0)
        said, complained = (file.read(10_000).decode("utf-8", "replace").strip() for file in (out, err))
    return code, said, complained


def _folder(name: str, folder: Path, how: str) -> Provision:
    """A folder that must be writable; one that is not there yet must be possible to make."""
    place = _existing(folder)
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Provision(id=name, there=True, told=f"{folder} can be written", needed=True)
    return Provision(id=name, there=False, told=f"{folder} cannot be written: {how}", needed=True)


def _room(folder: Path) -> Provision:
    free = shutil.disk_usage(_existing(folder)).free
    told = f"{free / 1e9:,.1f} GB free for {folder}"
    enough = free >= _ROOM_BYTES
    return Provision(
        id="room", there=enough, told=told if enough else f"{told}: make room for 1 GB, or give --results DIR elsewhere"
    )


def _existing(folder: Path) -> Path:
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))


def _agent(name: str) -> Provision:
    try:
        adapter = open_adapter(AgentSpec(name=name, args=()))
        adapter.check_installed()
    except RuncardError as error:
        return Provision(id=f"agent {name}", there=False, told=str(error))
    return Provision(id=f"agent {name}", there=True, told=adapter.version)


def _engine(name: str) -> Provision:
    provision = f"engine {name}"
    try:
        profile = read_profile(name)
        if profile.launch is None:
            return Provision(id=provision, there=True, told="started by you: --engine-url URL")
        found = find_program(profile.launch, title=profile.title, by_hand=())
    except MissingPartError:
        install = profile.launch.install if profile.launch else ""
        return Provision(id=provision, there=False, told=install)
    except RuncardError as error:
        return Provision(id=provision, there=False, told=str(error))
    return Provision(id=provision, there=True, told=found.version)
