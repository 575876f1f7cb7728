"""The system calls that a box refuses, as a classic BPF program for bubblewrap's `--seccomp`.

Programs, threads, files and loopback sockets need none of these calls; most known ways out of a namespace need one.
The filter also stands in for `--disable-userns` where the box is made by root: without it a boxed program could make
a user namespace of its own and be root in there.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

# From the kernel's headers: linux/audit.h, linux/bpf_common.h, linux/seccomp.h.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_X32_CALLS = 0x40000000

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | NEWTIME."""

_TERMINAL_WRITES = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: both type into somebody else's terminal."""

_SOCKET_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, which `getaddrinfo` asks for addresses; no AF_VSOCK, AF_ALG, AF_PACKET ..."""

_DEATH_SIGNAL, _SIGKILL = 1, 9
"""PR_SET_PDEATHSIG. A program that got hold of the box's first process could use it to outlive a killed harness."""

_NOTHING_DONE = 0
"""The call does nothing and says that it went well. Programs that want another death signal for their children (Codex)
give up when they are refused it; without it nothing is lost, since the box's end ends everything in it."""

_COMMON_CALLS = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "open_tree_attr": 467,
}
"""Every architecture numbers the calls that came after 424 alike."""

_CALLS = {
    "x86_64": {
        "ptrace": 101,
        "pivot_root": 155,
        "mount": 165,
        "umount2": 166,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "unshare": 272,
        "perf_event_open": 298,
        "fanotify_init": 300,
        "name_to_handle_at": 303,
        "open_by_handle_at": 304,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "bpf": 321,
        "userfaultfd": 323,
    },
    "aarch64": {
        "umount2": 39,
        "mount": 40,
        "pivot_root": 41,
        "unshare": 97,
        "ptrace": 117,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "perf_event_open": 241,
        "fanotify_init": 262,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "bpf": 280,
        "userfaultfd": 282,
    },
}


@dataclass(frozen=True, kw_only=True)
class _Architecture:
    audit: int
    clone: int
    clone3: int
    ioctl: int
    prctl: int
    socket: int


_ARCHITECTURES = {
    "x86_64": _Architecture(audit=0xC000003E, clone=56, clone3=435, ioctl=16, prctl=157, socket=41),
    "aarch64": _Architecture(audit=0xC00000B7, clone=220, clone3=435, ioctl=29, prctl=167, socket=198),
}


def refused_calls(machine: str) -> dict[str, int]:
    """Name and number of the calls that fail with EPERM whatever their arguments; empty for an unknown machine."""
    return {**_CALLS[machine], **_COMMON_CALLS} if machine in _CALLS else {}


def filter_program(machine: str) -> bytes | None:
    """The filter for `os.uname().machine`: an array of 8-byte `sock_filter`; None where no numbers are known."""
    architecture = _ARCHITECTURES.get(machine)
    if architecture is None:
        return None
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_IF_EQUAL, architecture.audit, then=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        program += [_step(_IF_AT_LEAST, _X32_CALLS, otherwise=1), _fail(errno.ENOSYS)]
    for number in refused_calls(machine).values():
        program += [_step(_IF_EQUAL, number, otherwise=1), _fail(errno.EPERM)]
    # The C library falls back to clone, whose flags a filter can read; those of clone3 lie behind a pointer.
    program += [_step(_IF_EQUAL, architecture.clone3, otherwise=1), _fail(errno.ENOSYS)]
    program += _when_called(
        architecture.clone,
        argument=0,
        judged=[_step(_IF_ANY_BIT, _NEW_NAMESPACES, otherwise=1), _fail(errno.EPERM)],
    )
    program += _when_called(
        architecture.ioctl,
        argument=1,
        judged=[
            step for code in _TERMINAL_WRITES for step in (_step(_IF_EQUAL, code, otherwise=1), _fail(errno.EPERM))
        ],
    )
    program += _when_called(
        architecture.prctl,
        argument=0,
        judged=[
            _step(_IF_EQUAL, _DEATH_SIGNAL, then=1),
            _allow(),
            _step(_LOAD, _FIRST_ARGUMENT + 8),
            _step(_IF_EQUAL, _SIGKILL, then=1),
            _fail(_NOTHING_DONE),
        ],
    )
    program += _when_called(
        architecture.socket,
        argument=0,
        judged=[
            *(step for family in _SOCKET_FAMILIES for step in (_step(_IF_EQUAL, family, otherwise=1), _allow())),
            _fail(errno.EAFNOSUPPORT),
        ],
    )
    return b"".join([*program, _allow()])


def _when_called(number: int, *, argument: int, judged: list[bytes]) -> list[bytes]:
    """Steps that look at one argument (its lower 32 bits, all that the kernel reads here) if the call is `number`."""
    inner = [_step(_LOAD, _FIRST_ARGUMENT + 8 * argument), *judged, _allow()]
    return [_step(_IF_EQUAL, number, otherwise=len(inner)), *inner]


def _fail(code: int) -> bytes:
    return _step(_RETURN, _FAIL | code)


def _allow() -> bytes:
    return _step(_RETURN, _ALLOW)


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction; `then` and `otherwise` are how many of the next ones are skipped."""
    return struct.pack("=HBBI", code, then, otherwise, value)
