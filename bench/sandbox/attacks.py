"""Does a box hold? Attacks it from inside with `attack/`, and looks from outside at what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bench import processes
from bench.contracts import Box, BoxPlan, Mount
from bench.sandbox.attack.attack_main import in_order
from bench.sandbox.decoys import ANSWER, Decoys
from bench.sandbox.syscall_filter import refused_calls
from bench.spec import REPOSITORY

Verdict = Literal["ok", "held", "BROKEN", "not tried"]
"""`ok`: what must work does. `held`: an attack failed. `BROKEN`: it succeeded, or it is not known that it failed."""

_VERDICTS: tuple[str, ...] = Verdict.__args__  # type: ignore[attr-defined]
_BASE_VARIABLES = ("PATH", "HOME", "TMPDIR", "LANG", "PYTHONDONTWRITEBYTECODE")
_PACKAGE = "bench/sandbox/attack"
_BEGIN = "import sys; sys.path.insert(0, sys.argv[1]); from bench.sandbox.attack.attack_main import main; main()"
_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_BURIAL_SECONDS = 3.0
"""How long the kernel may take to end what is in a box whose command has ended."""

_SEEN_CHARACTERS = 2_000


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One attack, and what came of it."""

    id: str
    tried: str
    verdict: Verdict
    seen: str


@dataclass(frozen=True, kw_only=True)
class Attacker:
    """The attacking program as a command of a box."""

    argv: tuple[str, ...]
    mounts: tuple[Mount, ...]


def attacker(box: Box, decoys: Decoys) -> Attacker:
    """The program that `attack` expects a plan to run, behind whatever else starts it."""
    program = decoys.folder / "attacker"
    shutil.copytree(Path(__file__).parent / "attack", program / _PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    mount = Mount(source=program, target="/tools/attacker")
    return Attacker(argv=("python3", "-I", "-S", "-c", _BEGIN, box.mount_path(mount)), mounts=(mount,))


def attack(box: Box, plan: BoxPlan, decoys: Decoys, *, results: Path, relay_url: str | None) -> tuple[Trial, ...]:
    """Runs a plan whose command is `attacker`'s, and gives every trial in the attacks' order.

    `results`: where runs are kept. `relay_url`: how the command reaches its relay; None where it has none. Main thread
    only. Whatever happens, nothing of the box lives on, nor does what it may have left behind.
    """
    _orders_file(decoys).write_text(json.dumps(_orders(box, plan, decoys, results, relay_url)), encoding="utf-8")
    boxed = box.start(plan, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    held_on = False
    try:
        out, err = _said(boxed.process)
    except subprocess.TimeoutExpired:
        held_on = boxed.process.poll() is not None
        boxed.end()
        out, err = boxed.process.communicate()
        err += b"" if held_on else f"not done within {_SECONDS:g} s".encode()
    finally:
        boxed.end()
    told = _told(out)
    ended = f"the program ended before: exit code {boxed.process.returncode}, {err[-300:].decode('utf-8', 'replace')}"
    trials = [told.get(name) or _trial(name, "BROKEN", ended) for name in in_order()]
    return _with_outside(trials, decoys, held_on=held_on)


def _said(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Both outputs. Raises TimeoutExpired where the box does not end, or ended and something in it still holds them open."""
    until = time.monotonic() + _SECONDS
    ended = False
    while True:
        try:
            return process.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if not ended and process.poll() is not None:
                until, ended = min(until, time.monotonic() + _BURIAL_SECONDS), True
            if time.monotonic() > until:
                raise


def _told(out: bytes) -> dict[str, Trial]:
    """What the program said, line by line. A line that is none of its own counts as not said."""
    told = {}
    for line in out.splitlines():
        with contextlib.suppress(ValueError, TypeError):
            name, verdict, seen = json.loads(line)
            if verdict in _VERDICTS and name in in_order():
                told[name] = _trial(name, verdict, str(seen))
    return told


def _trial(name: str, verdict: Verdict, seen: str) -> Trial:
    return Trial(id=name, tried=in_order()[name][0], verdict=verdict, seen=seen[:_SEEN_CHARACTERS])


def _with_outside(trials: Sequence[Trial], decoys: Decoys, *, held_on: bool) -> tuple[Trial, ...]:
    """The trials, corrected by what only the outside can see."""
    left = decoys.left_behind()
    for process in left:
        processes.send_signal(-process.group, signal.SIGKILL)  # it made a session, so a group, of its own
    broken = {}
    if held_on:
        broken["process.outlives"] = "its box lived on when the command had ended"
    if left:
        broken["process.outlives"] = f"process {left[0].pid} lived on after the box's end"
    if decoys.bystander.poll() is not None:
        broken["process.signal"] = "the process outside was ended"
    if decoys.datagram_arrived():
        broken["net.udp"] = "one arrived"
    if not decoys.untouched():
        broken["write.other-run"] = "the other run was changed"
    return tuple(
        replace(trial, verdict="BROKEN", seen=broken[trial.id]) if trial.id in broken else trial for trial in trials
    )


def _orders_file(decoys: Decoys) -> Path:
    return decoys.folder / "attacker" / "orders.json"


def _orders(box: Box, plan: BoxPlan, decoys: Decoys, results: Path, relay_url: str | None) -> dict[str, Any]:
    """What the program is told; a word that it searches for stands in halves."""
    project = decoys.folder if plan.project is None else plan.project
    inside = box.project_path(project)
    writable = [box.mount_path(mount) for mount in plan.mounts if mount.writable]
    read_only = [box.mount_path(mount) for mount in plan.mounts if not mount.writable]
    suid = decoys.set_user_id_program(project) if not plan.writable else None
    hidden = [REPOSITORY / "hidden"]
    ports = {"a server": decoys.port}
    if plan.relay is None or not (box.relay_url(plan.relay)).endswith(f":{decoys.relay.port}"):
        ports["the relay"] = decoys.relay.port
    return {
        "nonce": decoys.nonce,
        "project": inside,
        "writable": ([inside] if plan.writable else []) + writable,
        "read_only": read_only + ([] if plan.writable else [inside, f"{inside}/brief.md"]),
        "relay": relay_url,
        "relays": [] if plan.relay is None else [box.relay_url(plan.relay).removeprefix("unix://")],
        "answer": ANSWER,
        "repository": [str(REPOSITORY)],
        "hidden": [str(path) for path in hidden],
        "results": [str(results)],
        "harness": [str(REPOSITORY / "bench" / "cli.py"), str(decoys.folder)],
        "homes": _homes(),
        "decoy": str(decoys.file),
        "unnamed": [str(path) for path in (*hidden, results, decoys.other_run)],
        "paths": [str(path) for path in (REPOSITORY, results, decoys.folder)],
        "variables": [*_BASE_VARIABLES, *plan.env],
        "canary": _halves(decoys.canary),
        "bystander": _halves(decoys.bystander_word),
        "daemon": decoys.daemon,
        "pids": [decoys.bystander.pid, os.getpid()],
        "ports": ports,
        "port_v6": decoys.port_v6,
        "port_udp": decoys.port_udp,
        "abstract": decoys.abstract,
        "host_name": _halves(os.uname().nodename),
        "host_names": _names_space(),
        "named": str(decoys.named),
        "queue": decoys.queue,
        "calls": refused_calls(os.uname().machine),
        "set_user_id": None if suid is None else f"{inside}/{suid.name}",
        "memory_bytes": plan.limits.memory_bytes,
        "file_bytes": plan.limits.file_bytes,
        "tmp_bytes": plan.limits.tmp_bytes,
        "processes": plan.limits.processes,
    }


def _names_space() -> str | None:
    """Which set of host and domain name the harness has; None where the system has but one."""
    try:
        return str(Path("/proc/self/ns/uts").readlink())
    except OSError:
        return None


def _halves(word: str) -> list[str]:
    middle = len(word) // 2
    return [word[:middle], word[middle:]]


def _homes() -> list[str]:
    """Where people's own files lie, the harness's user among them."""
    try:
        own = [Path.home()]
    except RuntimeError:  # a user without a home
        own = []
    return sorted({"/root", "/home", "/Users", *(str(home) for home in own if home != home.parent)})
