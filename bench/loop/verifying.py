"""The harness's own call of a project's `verify`: boxed, without network, under a deadline; its word is data, not trust."""

from __future__ import annotations

import os
import re
import selectors
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.contracts import Box, BoxPlan, CheckLine, VerifyRequest, VerifyResult
from bench.loop.taming import tame

_OUTPUT_CHARACTERS = 20_000
_STDOUT_BYTES = 2_000_000
_STDERR_BYTES = 200_000
_CHECKS = 5_000
_LOOK_SECONDS = 0.1
_LINE = re.compile(r"(ok|not ok) (\S{1,120})(?:\s+(.*))?")

# A shell starts it so that a missing interpreter is an exit code inside the box, the same with every box.
_ARGV = ("/bin/sh", "-c", 'exec ./verify "$@"', "verify")


def run_verify(request: VerifyRequest, *, box: Box, stop_requested: Callable[[], bool]) -> VerifyResult:
    """Runs `./verify ARGUMENTS` in the project, writable, and reads its check lines.

    Whatever the program does is a result: missing, silent, too long, contradictory. Must be called from the main
    thread (boxes want that). Returns early, not passed, where a stop is requested.
    """
    began = time.monotonic()
    refused = _not_runnable(request.project / "verify")
    if refused is not None:
        return VerifyResult(passed=False, checks=(), exit_code=None, seconds=0.0, reason=refused, output="")
    plan = BoxPlan(argv=(*_ARGV, *request.arguments), project=request.project, writable=True)
    boxed = box.start(plan, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        pipes = _Pipes(boxed.process)
        cut = pipes.follow(boxed.process, began + request.seconds, request.seconds, stop_requested)
    finally:
        boxed.end()
        for stream in (boxed.process.stdout, boxed.process.stderr):
            if stream is not None:
                stream.close()
    exit_code = None if cut else boxed.process.returncode
    stdout = pipes.stdout.decode("utf-8", "replace")
    stderr = pipes.stderr.decode("utf-8", "replace")
    checks, damage = read_checks(stdout)
    reason = cut or _why_not(checks, damage, exit_code)
    return VerifyResult(
        passed=not reason,
        checks=checks,
        exit_code=exit_code,
        seconds=time.monotonic() - began,
        reason=reason,
        output=tame(stdout + (f"\n[stderr]\n{stderr}" if stderr.strip() else ""), _OUTPUT_CHARACTERS).strip(),
    )


def read_checks(stdout: str) -> tuple[tuple[CheckLine, ...], str]:
    """The check lines of an output, and what is wrong with them (empty: nothing).

    A line that begins with `ok` or `not ok` must be a whole check line; other lines are passed over. An id may stand
    once.
    """
    found: dict[str, CheckLine] = {}
    damage = ""
    for line in stdout.splitlines():
        words = line.strip()
        if re.match(r"(not )?ok\b", words) is None:
            continue
        match = _LINE.fullmatch(words)
        if match is None:
            damage = damage or f"a check line without a proper id: {tame(words, 120)!r}"
            continue
        check = CheckLine(id=tame(match[2], 120), ok=match[1] == "ok", reason=tame((match[3] or "").strip(), 500))
        earlier = found.setdefault(check.id, check)
        if earlier is not check:
            how = "twice" if earlier.ok == check.ok else "both as ok and as not ok"
            damage = damage or f"the check {check.id} stands {how}"
        if len(found) > _CHECKS:
            return tuple(found.values())[:_CHECKS], f"more than {_CHECKS:,} checks"
    return tuple(found.values()), damage


def _why_not(checks: tuple[CheckLine, ...], damage: str, exit_code: int | None) -> str:
    failed = [check for check in checks if not check.ok]
    if damage:
        return damage
    if failed:
        names = ", ".join(check.id for check in failed[:10])
        return f"{len(failed)} of {len(checks)} checks are not ok: {names}"
    if not checks:
        return f"no check line (exit code {exit_code})"
    if exit_code != 0:
        return f"every check is ok, but the exit code is {exit_code}"
    return ""


def _not_runnable(place: Path) -> str | None:
    try:
        status = place.lstat()
    except OSError as error:
        return f"verify: {error.strerror}"
    if stat.S_ISLNK(status.st_mode):
        return "verify is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "verify is not a regular file"
    return None if status.st_mode & stat.S_IXUSR else "verify is not executable"


class _Pipes:
    """Both outputs of a process, read side by side: stdout up to its cap, of stderr the last part."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._selector = selectors.DefaultSelector()
        for stream, kept in ((process.stdout, self.stdout), (process.stderr, self.stderr)):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, kept)

    def follow(
        self, process: subprocess.Popen[bytes], deadline: float, seconds: float, stop_requested: Callable[[], bool]
    ) -> str:
        """Reads until the process ended; says why it is to be cut instead, or nothing."""
        with self._selector:
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    return f"it did not end within {seconds:g} s"
                if stop_requested():
                    return "stopped with the run"
                ended = process.poll() is not None
                read = self._read(min(left, _LOOK_SECONDS))
                if len(self.stdout) > _STDOUT_BYTES:
                    return f"it printed more than {_STDOUT_BYTES:,} bytes"
                # Nothing came after its end: what still holds the pipe is a child that it left behind.
                if ended and not read:
                    return ""

    def _read(self, seconds: float) -> bool:
        if not self._selector.get_map():
            time.sleep(min(seconds, _LOOK_SECONDS / 20))
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            part = os.read(key.fd, 65_536)
            key.data.extend(part)
            if not part:
                self._selector.unregister(key.fileobj)
        del self.stderr[:-_STDERR_BYTES]
        return bool(ready)
