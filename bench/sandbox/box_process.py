"""A bubblewrap process: how it is started so that it can be told dead, and how it is ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Self

from bench import processes
from bench.errors import HarnessError
from bench.sandbox.process_tree import require_main_thread

_END_SECONDS = 10.0
_BURIAL_SECONDS = 2.0
_FIRST_INSIDE = re.compile(rb'"child-pid": *(\d+)')


class BubblewrapProcess:
    """A box that runs. `process` is bubblewrap outside of it; its exit code is the command's.

    The first process inside (number 1 there) is the box's life: the kernel lets it go only after all others.
    """

    def __init__(self, process: subprocess.Popen[bytes], first_inside: processes.Process | None) -> None:
        self.process = process
        self._first_inside = first_inside

    def end(self) -> None:
        """Kills everything that the box holds, waits until it is seen dead. Safe to call twice."""
        if self.process.poll() is None:
            # Inside first: then bubblewrap itself buries it; an orphan waits for an init, and a container may have none.
            for first in self._alive_inside():
                processes.send_signal(first.pid, signal.SIGKILL)
            try:
                self.process.wait(timeout=_BURIAL_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        left = processes.kill_all(self._alive_inside, seconds=_END_SECONDS)
        if left:
            raise HarnessError(f"process {left[0].pid}, the first of a box, survived SIGKILL")

    def _alive_inside(self) -> Iterator[processes.Process]:
        if self._first_inside is not None and processes.is_alive(self._first_inside):
            yield self._first_inside


class Descriptors:
    """What one start hands over by descriptor; the harness's copies are closed when the block ends."""

    def __init__(self) -> None:
        self.passed: list[int] = []
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def content(self, content: bytes) -> int:
        """A descriptor to be passed, from which exactly this can be read."""
        descriptor = os.memfd_create("box")
        self._open.callback(os.close, descriptor)
        self.passed.append(descriptor)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


def start_bubblewrap(
    program: Path,
    arguments: list[str],
    command: list[str],
    *,
    handed: Descriptors,
    pass_fds: tuple[int, ...],
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> BubblewrapProcess:
    """Starts a box. Its command begins only after the first process inside has been identified.

    Nothing of the host stands in bubblewrap's environment or command line, since both can be read from inside.
    """
    require_main_thread()
    with ExitStack() as later, ExitStack() as at_once:
        info, info_inside = _pipe(later, at_once)
        # Closing the other end, which happens last of all here, lets the command begin.
        gate_inside, _ = _pipe(at_once, later)
        words = [*arguments, "--info-fd", str(info_inside), "--block-fd", str(gate_inside)]
        listing = handed.content(b"".join(os.fsencode(word) + b"\0" for word in words))
        process = subprocess.Popen(
            ["bwrap", "--args", str(listing), "--", *command],
            executable=program,
            env={},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(*pass_fds, *handed.passed, info_inside, gate_inside),
            start_new_session=True,
        )
        at_once.close()
        try:
            first_inside = _read_first_inside(info)
        except BaseException:  # an interrupt: nobody would ever end this box
            process.kill()
            process.wait()
            raise
        return BubblewrapProcess(process, first_inside)


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """A pipe whose two ends are closed by these two."""
    read_end, write_end = os.pipe()
    reading.callback(os.close, read_end)
    writing.callback(os.close, write_end)
    return read_end, write_end


def _read_first_inside(info: int) -> processes.Process | None:
    """The host's view of the box's first process; None when bubblewrap gave up before it made one.

    Reads to the end: a bubblewrap that finds this pipe closed while it still writes dies, and its box is left waiting.
    """
    said = b""
    while more := os.read(info, 4096):
        said += more
    found = _FIRST_INSIDE.search(said)
    return processes.find_process(int(found.group(1))) if found else None
