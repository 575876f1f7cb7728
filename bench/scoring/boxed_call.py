"""One call of untrusted code in a box: what it wrote, capped and timed, and how it ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from bench.contracts import Box, BoxLimits, BoxPlan
from bench.scoring.case import BadReply

REPLY_SECONDS = 20.0
"""How long one call may take, its start included: wide, so that a busy machine does not turn a right project into a miss."""

CPU_SECONDS = 5
"""How long one call may compute; an endless loop ends here."""

REPLY_BYTES = 1_000_000
"""How much one call may write, all its pipes together."""

SCORING_LIMITS = BoxLimits(
    cpu_seconds=CPU_SECONDS,
    file_bytes=16_000_000,
    processes=128,
    memory_bytes=1_500_000_000,
    tmp_bytes=32_000_000,
    open_files=256,
)


class Pipe:
    """A pipe whose write end a boxed command holds and whose read end stays here."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self._open = [self.read_end, self.write_end]

    def close_write_end(self) -> None:
        self._close(self.write_end)

    def close(self) -> None:
        self._close(self.read_end)
        self._close(self.write_end)

    def _close(self, end: int) -> None:
        if end in self._open:
            self._open.remove(end)
            os.close(end)


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a call wrote to each of the pipes it was given, in their order, and its exit code."""

    outputs: tuple[bytes, ...]
    exit_code: int


def boxed_call(
    box: Box,
    plan: BoxPlan,
    *,
    pipes: Sequence[Pipe],
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    seconds: float,
) -> Written:
    """Runs `plan` and reads `pipes` until all are closed and the command has ended.

    Their write ends are the command's stdout, stderr or in its `pass_fds`. Raises BadReply where the command writes
    too much or does not end in time. Whatever happens, the box is ended and the pipes are closed.
    """
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as cleanup:
        for pipe in pipes:
            cleanup.callback(pipe.close)
        boxed = box.start(plan, stdin=stdin, stdout=stdout, stderr=stderr)
        cleanup.callback(boxed.end)
        for pipe in pipes:
            pipe.close_write_end()
        outputs = _read_to_end(pipes, seconds=seconds, deadline=deadline)
        try:
            exit_code = boxed.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise _late(seconds) from None
    return Written(outputs=outputs, exit_code=exit_code)


def _read_to_end(pipes: Sequence[Pipe], *, seconds: float, deadline: float) -> tuple[bytes, ...]:
    outputs = [bytearray() for _ in pipes]
    room = REPLY_BYTES
    with selectors.DefaultSelector() as selector:
        for output, pipe in zip(outputs, pipes, strict=True):
            selector.register(pipe.read_end, selectors.EVENT_READ, output)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready or time.monotonic() > deadline:
                raise _late(seconds)
            for key, _ in ready:
                part = os.read(key.fd, 65_536)
                if not part:
                    selector.unregister(key.fd)
                room -= len(part)
                if room < 0:
                    raise BadReply(f"wrote more than {REPLY_BYTES:,} bytes")
                key.data.extend(part)
    return tuple(bytes(output) for output in outputs)


def _late(seconds: float) -> BadReply:
    return BadReply(f"did not end within {seconds:g} s")
