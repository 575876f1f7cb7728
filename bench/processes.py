"""Processes of this machine: who descends from whom, who carries a mark, who listens on a port, and how to end them all.

Linux answers from `/proc`; other systems through `ps` and `lsof`. A zombie counts as dead.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_LINUX = sys.platform == "linux"
_PROC = Path("/proc")


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process. `started` (clock ticks since boot; 0 off Linux) tells it from a later one with the same number."""

    pid: int
    parent: int
    group: int
    started: int


def find_process(pid: int) -> Process | None:
    """The living process with this number, or None."""
    if _LINUX:
        return _read_stat(pid)
    return next((process for process in all_processes() if process.pid == pid), None)


def all_processes() -> tuple[Process, ...]:
    """Every living process that can be seen."""
    if _LINUX:
        found = (_read_stat(int(folder.name)) for folder in _PROC.iterdir() if folder.name.isdecimal())
        return tuple(process for process in found if process is not None)
    listing = _output_of("ps", "-axo", "pid=,ppid=,pgid=,stat=")
    rows = (line.split() for line in listing.splitlines())
    return tuple(
        Process(pid=int(row[0]), parent=int(row[1]), group=int(row[2]), started=0)
        for row in rows
        if len(row) == 4 and not row[3].startswith("Z")
    )


def descendants(pid: int) -> tuple[Process, ...]:
    """Children of this process, their children and so on; the process itself is not among them."""
    return tuple(_below({pid}, all_processes()))


def group_members(group: int) -> tuple[Process, ...]:
    """Living processes of one process group."""
    return tuple(process for process in all_processes() if process.group == group)


def marked(name: str, value: str) -> tuple[Process, ...]:
    """Living processes that were started with NAME=VALUE in their environment; always empty off Linux.

    Finds what has left its parent, its group and its session. Processes of other users are only seen by root.
    """
    if not _LINUX:
        return ()
    wanted = f"{name}={value}".encode()
    return tuple(process for process in all_processes() if wanted in _environment(process.pid))


def listeners(port: int) -> tuple[int, ...] | None:
    """Numbers of the processes that listen on this TCP port; None where the system shows no listener at all.

    Empty: somebody listens, but who is not for us to see, as with another user's process.
    """
    if not _LINUX:
        found = _output_of("lsof", "-nP", "-t", f"-iTCP:{port}", "-sTCP:LISTEN").split()
        return tuple(int(pid) for pid in found if pid.isdecimal()) or None
    sockets = set(_listening_sockets(port))
    if not sockets:
        return None
    return tuple(process.pid for process in all_processes() if sockets & set(_open_sockets(process.pid)))


def free_port(host: str) -> int:
    """A TCP port of `host` on which nobody listened a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


def is_alive(process: Process) -> bool:
    """Whether exactly this process still runs."""
    now = find_process(process.pid)
    return now is not None and now.started == process.started


def kill_all(find: Callable[[], Iterable[Process]], *, seconds: float) -> tuple[Process, ...]:
    """Kills what `find` returns, again and again, until it returns nothing: new children are found the next time.

    Returns what was still alive after `seconds`; empty means that `find` was seen to find nothing.
    """
    deadline = time.monotonic() + seconds
    while left := tuple(find()):
        if time.monotonic() > deadline:
            return left
        for process in left:
            if is_alive(process):
                send_signal(process.pid, signal.SIGKILL)
        time.sleep(0.005)
    return ()


def send_signal(pid: int, number: signal.Signals) -> None:
    """Sends a signal to a process, or to a group given as a negative number; one that is gone already is no error."""
    try:
        if pid < 0:
            os.killpg(-pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        # macOS says this of a group in which only zombies are left.
        if _LINUX:
            raise


def _below(roots: set[int], processes: Iterable[Process]) -> Iterator[Process]:
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    queue = list(roots)
    while queue:
        for child in children.pop(queue.pop(), ()):
            yield child
            queue.append(child.pid)


def _read_stat(pid: int) -> Process | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The command's name stands in brackets and may hold anything, brackets and blanks included.
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in {"Z", "X"}:
        return None
    return Process(pid=pid, parent=int(fields[1]), group=int(fields[2]), started=int(fields[19]))


def _environment(pid: int) -> frozenset[bytes]:
    try:
        return frozenset((_PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:
        # Gone in the meantime, another user's, or a kernel thread: not one of ours.
        return frozenset()


def _listening_sockets(port: int) -> Iterator[str]:
    """Inodes of the sockets in state LISTEN (0A) on this port, IPv4 and IPv6."""
    for table in ("tcp", "tcp6"):
        path = _PROC / "net" / table
        if not path.exists():
            continue
        for line in path.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _open_sockets(pid: int) -> Iterator[str]:
    try:
        links = tuple((_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return
    for link in links:
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if found := re.fullmatch(r"socket:\[(\d+)\]", target):
            yield found.group(1)


def _output_of(*argv: str) -> str:
    """What a system tool prints; empty where it is not installed or does not answer."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10).stdout
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
