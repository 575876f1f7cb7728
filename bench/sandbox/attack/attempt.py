"""What all attacks share: how one is listed, how an attempt is judged, and the few things that many of them try.

Runs inside the box, imports nothing of the harness. Nothing here does harm where there is no box: a file that it
manages to make is removed again, and what it manages to open is not written.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

Orders = dict[str, Any]
"""What `attacks.py` tells the program: paths, ports, process numbers and limits, see `Decoys.orders`."""

Outcome = tuple[str, str]
"""`held`, `BROKEN`, `ok` or `not tried`, and what was seen."""

Attack = Callable[[Orders], Outcome]
Attempts = Mapping[str, Callable[[], object]]

ATTACKS: dict[str, tuple[str, Attack]] = {}
"""Id of a trial -> what is tried, and the attack."""

PROC = sys.platform == "linux"
"""Whether this system shows processes as files."""

_NAMED = 4
"""How many of the attempts that succeeded are named."""

_LIBC = ctypes.CDLL(None, use_errno=True)


def attack(name: str, tried: str) -> Callable[[Attack], Attack]:
    """Lists an attack."""

    def listed(function: Attack) -> Attack:
        ATTACKS[name] = (tried, function)
        return function

    return listed


def none_may(attempts: Attempts) -> Outcome:
    """Held when the system refuses every attempt."""
    done, refused = [], set()
    for name, attempt in attempts.items():
        try:
            attempt()
        except (OSError, ValueError) as error:
            refused.add((getattr(error, "strerror", None) or str(error)).lower())
        else:
            done.append(name)
    if done:
        more = f" and {len(done) - _NAMED} more" if len(done) > _NAMED else ""
        return "BROKEN", f"it succeeded: {', '.join(done[:_NAMED])}{more}"
    return ("held", ", ".join(sorted(refused))) if attempts else ("not tried", "there is none")


def no_look_at(paths: Iterable[str]) -> Outcome:
    return none_may({path: partial(look, path) for path in paths})


def look(path: str) -> object:
    """Lists a folder or opens a file; it reads none, since the kernel's log, read to its end, would keep it waiting."""
    if os.path.isdir(path):
        return os.listdir(path)
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    return None


def make_file(orders: Orders, folder: str) -> None:
    path = f"{folder}/.runcard-attack-{orders['nonce']}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(path)


def open_to_write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def kernel_call(orders: Orders, name: str, *arguments: object) -> int:
    """A system call by the number that the orders give for it."""
    return checked(_LIBC.syscall(orders["calls"][name], *arguments))


def c_call(name: str, *arguments: object) -> int:
    """A function of the C library."""
    return checked(getattr(_LIBC, name)(*arguments))


def checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def in_child(act: Callable[[], object]) -> None:
    """Does what would change this process in a child of it; raises the child's OSError."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except OSError as error:
            os._exit(error.errno or 255)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))


def seen_processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdecimal()] if PROC else []


def files_of_processes(*names: str) -> Iterator[tuple[str, bytes]]:
    """The files of these names of every process that can be seen, as far as they can be read."""
    for pid in seen_processes():
        for name in names:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
                yield f"/proc/{pid}/{name}", file.read()


def holding(word: bytes, *names: str) -> list[str]:
    """Which of these files of processes hold the word."""
    return [path for path, text in files_of_processes(*names) if word in text]


def whole(halves: list[str]) -> bytes:
    """A word that is searched for; the orders hold it in halves so that it is not found in them."""
    return "".join(halves).encode()
