"""Attacks that want more: rights that the box's user lacks, and more of the machine than its limits give.

Those that use up the box come last.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.sandbox.attack.attempt import Orders, Outcome, attack, c_call, holding, in_child, kernel_call, none_may

_NEW_USER, _NEW_MOUNTS, _NEW_NETWORK, _NEW_PROCESSES = 0x10000000, 0x00020000, 0x40000000, 0x20000000
_PIECE_BYTES = 4_000_000
_SHARED_MEMORY_BYTES = 64_000_000
_LIFE_SECONDS = 60
"""How long a process that a box does not end would live."""


def _linux(orders: Orders) -> bool:
    return sys.platform == "linux" and bool(orders["calls"])


# --- rights --------------------------------------------------------------------------------------------------------------


@attack("rights.capabilities", "be root, or have any of root's rights")
def _capabilities(_: Orders) -> Outcome:
    if sys.platform != "linux":
        return "not tried", "Linux only"
    rows = (line.partition(":\t") for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    status = {name: value for name, _, value in rows}
    has = [
        f"Cap{kind} {status[f'Cap{kind}']}"
        for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")
        if int(status[f"Cap{kind}"], 16)
    ]
    has += ["user 0"] if os.geteuid() == 0 else []
    has += ["may gain new ones"] if status["NoNewPrivs"] != "1" else []
    return ("BROKEN", ", ".join(has)) if has else ("held", f"user {os.geteuid()}, no capability, no new privileges")


@attack("rights.setuid", "become root by set-user-id programs")
def _setuid(orders: Orders) -> Outcome:
    if orders["set_user_id"] is not None:
        done = subprocess.run([orders["set_user_id"], "-u"], capture_output=True, text=True, check=False)
        said = done.stdout.strip()
        return (
            ("BROKEN", "it ran as root") if said == "0" else ("held", f"one of root's ran as user {said or 'nobody'}")
        )
    if sys.platform != "linux":
        return "not tried", "Linux only"
    rows = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    free = [row[1] for row in rows if "nosuid" not in row[3].split(",")]
    return (
        ("BROKEN", f"they count in {', '.join(free[:3])}")
        if free
        else ("held", "they count nowhere: all mounts nosuid")
    )


@attack("rights.namespaces", "make namespaces of its own")
def _namespaces(_: Orders) -> Outcome:
    if sys.platform != "linux":
        return "not tried", "Linux only"
    kinds = {"user": _NEW_USER, "mounts": _NEW_MOUNTS, "network": _NEW_NETWORK, "processes": _NEW_PROCESSES}
    ways = {name: partial(in_child, partial(c_call, "unshare", flag)) for name, flag in kinds.items()}
    ways["user and mounts"] = partial(in_child, partial(c_call, "unshare", _NEW_USER | _NEW_MOUNTS))
    return none_may(ways)


@attack("rights.mount", "mount, change its root")
def _mount(_: Orders) -> Outcome:
    if sys.platform != "linux":
        return "not tried", "Linux only"
    with tempfile.TemporaryDirectory() as folder:
        place = folder.encode()

        def mount() -> None:
            c_call("mount", b"none", place, b"tmpfs", 0, None)
            c_call("umount2", place, 2)

        return none_may({"mount": mount, "chroot": partial(in_child, partial(os.chroot, folder))})


@attack("rights.devices", "make devices, open a terminal")
def _devices(orders: Orders) -> Outcome:
    path = f"{tempfile.gettempdir()}/.runcard-device-{orders['nonce']}"

    def make(kind: int) -> None:
        os.mknod(path, kind | 0o600, os.makedev(1, 1))
        os.unlink(path)

    ways = {"a disk": partial(make, stat.S_IFBLK), "a character device": partial(make, stat.S_IFCHR)}
    return none_may({**ways, "/dev/tty": partial(os.open, "/dev/tty", os.O_RDWR)})


@attack("rights.keyrings", "use the kernel's keyrings")
def _keyrings(orders: Orders) -> Outcome:
    if not _linux(orders):
        return "not tried", "the numbers of the calls are known for Linux on x86_64 and aarch64"
    return none_may(
        {
            "a new keyring": partial(in_child, partial(kernel_call, orders, "keyctl", 1, None)),
            "a new key": partial(in_child, partial(kernel_call, orders, "add_key", b"user", b"runcard", b"x", 1, -2)),
        }
    )


@attack("rights.kernel-calls", "load BPF, watch the kernel, use io_uring")
def _kernel_calls(orders: Orders) -> Outcome:
    if not _linux(orders):
        return "not tried", "the numbers of the calls are known for Linux on x86_64 and aarch64"
    a_map = ctypes.create_string_buffer(struct.pack("=IIII", 2, 4, 4, 1), 128)
    event = ctypes.create_string_buffer(struct.pack("=IIQ", 1, 64, 0), 128)
    ring = ctypes.create_string_buffer(128)
    ways = {
        "bpf": partial(kernel_call, orders, "bpf", 0, a_map, 64),
        "perf_event_open": partial(kernel_call, orders, "perf_event_open", event, 0, -1, -1, 0),
        "io_uring": partial(kernel_call, orders, "io_uring_setup", 1, ring),
        "userfaultfd": partial(kernel_call, orders, "userfaultfd", 0),
    }
    return none_may({name: partial(in_child, way) for name, way in ways.items()})


# --- limits --------------------------------------------------------------------------------------------------------------


@attack("limits.raised", "raise its own limits")
def _raised(orders: Orders) -> Outcome:
    kinds = {"CPU time": resource.RLIMIT_CPU, "file size": resource.RLIMIT_FSIZE, "open files": resource.RLIMIT_NOFILE}
    if orders["memory_bytes"] is not None:
        kinds["memory"] = resource.RLIMIT_DATA
    unlimited = [name for name, kind in kinds.items() if resource.getrlimit(kind)[1] == resource.RLIM_INFINITY]
    if unlimited:
        return "BROKEN", f"no limit of {', '.join(unlimited)}"

    def raise_limit(kind: int) -> None:
        hard = resource.getrlimit(kind)[1] + 1
        resource.setrlimit(kind, (hard, hard))

    return none_may({name: partial(in_child_or_refused, partial(raise_limit, kind)) for name, kind in kinds.items()})


def in_child_or_refused(act: partial[None]) -> None:
    """As `in_child`, for a call of Python's that says a refusal as ValueError."""

    def refused() -> None:
        try:
            act()
        except ValueError as error:
            raise PermissionError(1, "operation not permitted") from error

    in_child(refused)


@attack("limits.memory", "take more memory than its limit")
def _memory(orders: Orders) -> Outcome:
    if orders["memory_bytes"] is None:
        return "not tried", "this box has no limit of memory"
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return none_may({f"{orders['memory_bytes']:,} bytes": partial(mmap.mmap, -1, orders["memory_bytes"], flags=flags)})


@attack("limits.file", "write a file over its limit")
def _file(orders: Orders) -> Outcome:
    def over() -> None:
        with tempfile.TemporaryFile(dir=orders["writable"][0]) as file:
            os.pwrite(file.fileno(), b"x", orders["file_bytes"])

    return none_may({f"byte {orders['file_bytes']:,}": over})


@attack("limits.disk", "fill /tmp and /dev/shm")
def _disk(orders: Orders) -> Outcome:
    if not hasattr(os, "posix_fallocate"):
        return "not tried", "Linux only"
    told = []
    for folder, limit in ((tempfile.gettempdir(), orders["tmp_bytes"]), ("/dev/shm", _SHARED_MEMORY_BYTES)):
        taken = _take(folder, limit + _PIECE_BYTES)
        if taken > limit:
            return "BROKEN", f"{folder} took {taken:,} bytes"
        told.append(f"{folder} was full after {taken:,} bytes")
    return "held", ", ".join(told)


def _take(folder: str, at_most: int) -> int:
    """How many bytes a folder gives, in whole pieces."""
    taken = 0
    with contextlib.ExitStack() as files:
        try:
            while taken < at_most:
                file = files.enter_context(tempfile.TemporaryFile(dir=folder))
                os.posix_fallocate(file.fileno(), 0, _PIECE_BYTES)
                taken += _PIECE_BYTES
        except OSError:
            return taken
    return taken


@attack("limits.processes", "start processes without end")
def _processes(orders: Orders) -> Outcome:
    children: list[int] = []
    limit = orders["processes"]
    try:
        for _ in range(limit + 50):
            child = os.fork()
            if child == 0:
                time.sleep(_LIFE_SECONDS)
                os._exit(0)
            children.append(child)
    except OSError as error:
        refused = str(error.strerror).lower()
    else:
        refused = ""
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    if not refused or len(children) > limit:
        return "BROKEN", f"{len(children)} processes and no end"
    return "held", f"{len(children)} processes, then {refused}"


@attack("process.outlives", "leave a process behind that left its session")
def _outlives(orders: Orders) -> Outcome:
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nothing, number)
            os.execve("/bin/sh", ["sh", "-c", f"sleep {_LIFE_SECONDS}; :", orders["daemon"]], {})
        os._exit(0)
    os.waitpid(child, 0)
    deadline = time.monotonic() + 20
    while not holding(orders["daemon"].encode(), "cmdline"):
        if time.monotonic() > deadline:
            return "not tried", "it did not start"
        time.sleep(0.01)
    return "held", "it ended with the box"
