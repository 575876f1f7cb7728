"""Attacks that reach out of the box: by writing, by signals to other processes, by sockets. First: what must work."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.sandbox.attack.attempt import (
    PROC,
    Orders,
    Outcome,
    attack,
    c_call,
    holding,
    look,
    make_file,
    none_may,
    open_to_write,
    seen_processes,
    whole,
)

_PATIENCE_SECONDS = 0.5
_RELAY_SECONDS = 20.0
_SEARCHED_FOLDERS, _DEPTH = 20_000, 3


def works(orders: Orders) -> Outcome:
    """A box in which nothing works would hold everything."""
    if not os.listdir(orders["project"]):
        return "BROKEN", "its project is empty"
    for folder in orders["writable"]:
        make_file(orders, folder)
    return "ok", f"reads {orders['project']}, writes {', '.join(orders['writable'])}"


def reaches_relay(orders: Orders) -> Outcome:
    url = orders["relay"]
    if url is None:
        return "not tried", "this box has none"
    unix = url.startswith("unix://")
    address: Any = url.removeprefix("unix://") if unix else ("127.0.0.1", int(url.rpartition(":")[2]))
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as side:
        side.settimeout(_RELAY_SECONDS)
        side.connect(address)
        side.sendall(b"?")
        said = side.recv(100).decode("utf-8", "replace")
    return ("ok", f"it answers at {url}") if said == orders["answer"] else ("BROKEN", f"{url} answers {said!r}")


attack("works.project", "use its project and its folders")(works)
attack("works.relay", "reach its model")(reaches_relay)


# --- writing -------------------------------------------------------------------------------------------------------------


@attack("write.system", "make files in /, /usr, /etc, /dev, /run, /var, /tools")
def _write_system(orders: Orders) -> Outcome:
    system = ("/", "/usr", "/usr/bin", "/usr/lib", "/etc", "/dev", "/run", "/var", "/var/tmp", "/tools", "/tools/bin")
    folders = (*system, "/proc", "/proc/sys/kernel")
    return none_may({folder: partial(make_file, orders, folder) for folder in folders})


@attack("write.root", "write in / itself")
def _write_root(orders: Orders) -> Outcome:
    # That a folder is another user's keeps this user away; that its mount is for reading keeps everybody.
    ways: dict[str, Callable[[], object]] = {"a file in /": partial(make_file, orders, "/")}
    if sys.platform == "linux":
        ways |= {f"the mount {path}": partial(_mounted_to_write, path) for path in ("/", "/dev")}
    return none_may(ways)


def _mounted_to_write(path: str) -> None:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@attack("write.anywhere", "make a file in any folder that it can find")
def _write_anywhere(orders: Orders) -> Outcome:
    own = {os.path.realpath(folder) for folder in (*orders["writable"], "/dev/shm", "/proc", "/sys")}
    tried, found = 0, []
    for folder, folders, _ in os.walk("/"):
        # Deeper ones lie on the same mounts.
        folders[:] = [name for name in folders if folder.count("/") < _DEPTH and os.path.join(folder, name) not in own]
        tried += 1
        with contextlib.suppress(OSError):
            make_file(orders, folder)
            found.append(folder)
        if tried >= _SEARCHED_FOLDERS or len(found) > 2:
            break
    if found:
        return "BROKEN", f"it succeeded: {', '.join(found)}"
    return "held", f"in none of {tried:,} folders besides its own"


@attack("write.kernel", "change settings of the kernel and of processes outside")
def _write_kernel(orders: Orders) -> Outcome:
    settings = ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger"]
    # Where the number belongs to another process in here, that one is its own.
    outside = [f"/proc/{pid}/oom_score_adj" for pid in orders["pids"] if _is_bystander(orders)]
    return none_may({path: partial(open_to_write, path) for path in settings + outside})


@attack("write.other-run", "write into another run")
def _write_other_run(orders: Orders) -> Outcome:
    folder, file = os.path.dirname(orders["decoy"]), orders["decoy"]
    return none_may({folder: partial(make_file, orders, folder), file: partial(open_to_write, file)})


@attack("write.mounts", "write where it may only read")
def _write_mounts(orders: Orders) -> Outcome:
    ways: dict[str, Callable[[], object]] = {}
    for path in orders["read_only"]:
        ways[path] = partial(make_file, orders, path) if os.path.isdir(path) else partial(open_to_write, path)
        ways[f"mode of {path}"] = partial(os.chmod, path, stat.S_IMODE(os.stat(path).st_mode))
    return none_may(ways)


# --- processes -----------------------------------------------------------------------------------------------------------


def _is_bystander(orders: Orders) -> bool:
    return bool(holding(whole(orders["bystander"]), "cmdline"))


@attack("process.seen", "see a process outside")
def _seen(orders: Orders) -> Outcome:
    if not PROC:
        return "not tried", "this system has no /proc"
    found = holding(whole(orders["bystander"]), "cmdline")
    return ("BROKEN", f"{found[0]} is one") if found else ("held", f"sees {len(seen_processes())} processes, its own")


@attack("process.trace", "trace a process outside, read its memory")
def _trace(orders: Orders) -> Outcome:
    if sys.platform != "linux":
        return "not tried", "Linux only"
    pid = orders["pids"][0]
    if os.path.exists(f"/proc/{pid}") and not _is_bystander(orders):
        return "held", "its number is another process here"

    def attach() -> None:
        c_call("ptrace", 16, pid, None, None)
        os.waitpid(pid, 0x40000000)
        c_call("ptrace", 17, pid, None, None)

    return none_may({"ptrace": attach, "memory": partial(look, f"/proc/{pid}/maps")})


@attack("process.queue", "reach a message queue of a process outside")
def _queue(orders: Orders) -> Outcome:
    if orders["queue"] is None:
        return "not tried", "this system has no such queues"
    return none_may({"the queue": partial(c_call, "msgget", orders["queue"], 0)})


@attack("process.signal", "end a process outside")
def _signal(orders: Orders) -> Outcome:
    pid = orders["pids"][0]
    if os.path.exists(f"/proc/{pid}") and not _is_bystander(orders):
        return "held", "its number is another process here"
    return none_may({f"signal to {pid}": partial(os.kill, pid, signal.SIGKILL)})


# --- sockets -------------------------------------------------------------------------------------------------------------


def _connect(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> None:
    with socket.socket(family, kind) as side:
        side.settimeout(_PATIENCE_SECONDS)
        side.connect(address)


@attack("net.ports", "reach other ports of the host's loopback")
def _ports(orders: Orders) -> Outcome:
    ports = orders["ports"].items()
    return none_may({name: partial(_connect, socket.AF_INET, ("127.0.0.1", port)) for name, port in ports})


@attack("net.ipv6", "the same by IPv6")
def _ipv6(orders: Orders) -> Outcome:
    if orders["port_v6"] is None:
        return "not tried", "this machine has no IPv6"
    return none_may({"port by IPv6": partial(_connect, socket.AF_INET6, ("::1", orders["port_v6"]))})


@attack("net.udp", "send a datagram to the host's loopback")
def _udp(orders: Orders) -> Outcome:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as side, contextlib.suppress(OSError):
        side.sendto(b"x", ("127.0.0.1", orders["port_udp"]))
    return "held", "none arrived"


@attack("net.abstract", "reach an abstract unix socket of the host")
def _abstract(orders: Orders) -> Outcome:
    if orders["abstract"] is None:
        return "not tried", "Linux only"
    return none_may({"abstract socket": partial(_connect, socket.AF_UNIX, f"\0{orders['abstract']}")})


@attack("net.named", "reach unix sockets by their path")
def _named(orders: Orders) -> Outcome:
    known = {orders["named"], *orders["relays"]}
    found = {path for top in ("/run", "/var/run") for path in _sockets(top)} - known
    paths = [orders["named"], *sorted(found)[:20]]
    return none_may({path: partial(_connect, socket.AF_UNIX, path) for path in paths})


def _sockets(top: str) -> list[str]:
    paths = [f"{folder}/{name}" for folder, _, files in os.walk(top) for name in files]
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                found.append(path)
    return found


@attack("net.outside", "find a way to other machines")
def _outside(_: Orders) -> Outcome:
    # Connecting a datagram socket asks for a route and sends nothing; the addresses are those kept for documentation.
    kind = socket.SOCK_DGRAM
    return none_may(
        {
            "route by IPv4": partial(_connect, socket.AF_INET, ("192.0.2.1", 9), kind),
            "route by IPv6": partial(_connect, socket.AF_INET6, ("2001:db8::1", 9), kind),
        }
    )


@attack("net.raw", "open raw, packet, VM and kernel crypto sockets")
def _raw(_: Orders) -> Outcome:
    kinds = {"raw": (2, 3, 1), "raw by IPv6": (10, 3, 58), "packet": (17, 3, 0), "VM": (40, 1, 0), "crypto": (38, 5, 0)}
    return none_may({name: partial(_opened, *kind) for name, kind in kinds.items()})


def _opened(family: int, kind: int, protocol: int) -> None:
    socket.socket(family, kind, protocol).close()
