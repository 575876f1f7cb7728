"""How a command gets its resource limits: a prefix that sets them and then becomes the command."""

from __future__ import annotations

import resource

from bench.contracts import BoxLimits

_CORE_BYTES = 1
"""Smaller than any core dump. Not 0: the kernel runs a core handler of the host for 0, and for 1 it does not."""


def with_prlimit(prlimit: str, limits: BoxLimits, argv: tuple[str, ...], *, count_processes: bool) -> list[str]:
    """The command behind util-linux's `prlimit`; soft and hard limits are equal."""
    set_to = {
        "cpu": _at_most(resource.RLIMIT_CPU, limits.cpu_seconds),
        "fsize": _at_most(resource.RLIMIT_FSIZE, limits.file_bytes),
        "nofile": _at_most(resource.RLIMIT_NOFILE, limits.open_files),
        "core": _at_most(resource.RLIMIT_CORE, _CORE_BYTES),
    }
    if count_processes:
        set_to["nproc"] = _at_most(resource.RLIMIT_NPROC, limits.processes)
    if limits.memory_bytes is not None:
        set_to["data"] = _at_most(resource.RLIMIT_DATA, limits.memory_bytes)
    return [prlimit, *(f"--{name}={value}:{value}" for name, value in set_to.items()), "--", *argv]


def with_ulimit(limits: BoxLimits, argv: tuple[str, ...]) -> list[str]:
    """The command behind a shell's `ulimit`, for where no box counts its own: no limit of processes or of memory.

    A shell counts file sizes in blocks of 512 bytes.
    """
    orders = (
        f"ulimit -t {_at_most(resource.RLIMIT_CPU, limits.cpu_seconds)}",
        f"ulimit -f {max(1, _at_most(resource.RLIMIT_FSIZE, limits.file_bytes) // 512)}",
        f"ulimit -n {_at_most(resource.RLIMIT_NOFILE, limits.open_files)}",
        "ulimit -c 0",
        'exec "$@"',
    )
    return ["/bin/sh", "-c", " && ".join(orders), "sh", *argv]


def _at_most(kind: int, wanted: int) -> int:
    """A process without privileges can only lower its hard limit; asking for more would end it."""
    _, hard = resource.getrlimit(kind)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
