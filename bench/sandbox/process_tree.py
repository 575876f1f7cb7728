"""A command that runs without a box of its own: how it is found again, with all it started, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from bench import processes
from bench.contracts import BoxPlan
from bench.errors import HarnessError

_MARK = "RUNCARD_BOX"
_END_SECONDS = 10.0


def require_main_thread() -> None:
    """Raises HarnessError elsewhere: the kernel ends a box with the thread, not the process, that began it."""
    if threading.current_thread() is not threading.main_thread():
        raise HarnessError("a box can only be started from the main thread of the harness")


class ProcessTree:
    """A command in a session of its own, with a scratch folder, known by a mark in its environment."""

    def __init__(self, scratch: tempfile.TemporaryDirectory[str], process: subprocess.Popen[bytes], mark: str) -> None:
        self.process = process
        self._scratch = scratch
        self._mark = mark
        self._leader = processes.find_process(process.pid)

    def end(self) -> None:
        """Kills the command and whatever descends from it, waits until it is seen dead. Safe to call twice."""
        frozen = self._freeze()
        left = processes.kill_all(
            lambda: [process for process in frozen | self._members() if processes.is_alive(process)],
            seconds=_END_SECONDS,
        )
        if left:
            raise HarnessError(f"processes survived SIGKILL: {', '.join(str(process.pid) for process in left)}")
        self.process.wait()
        self._scratch.cleanup()

    def _freeze(self) -> set[processes.Process]:
        """Stops everything first: a child that is born while its parent is being killed could not be found again."""
        deadline = time.monotonic() + _END_SECONDS
        frozen: set[processes.Process] = set()
        while (new := self._members() - frozen) and time.monotonic() < deadline:
            for process in new:
                processes.send_signal(process.pid, signal.SIGSTOP)
            frozen |= new
        return frozen

    def _members(self) -> set[processes.Process]:
        found = set(processes.marked(_MARK, self._mark))
        now = processes.find_process(self.process.pid)
        if now is None or (self._leader is not None and now.started == self._leader.started):
            # Else the number is a stranger's by now, and so would be its group.
            found |= set(processes.group_members(self.process.pid))
            found |= set(processes.descendants(self.process.pid))
            found |= {now} if now is not None else set()
        return found


def start_plan(
    command: Callable[[Path], list[str]],
    plan: BoxPlan,
    *,
    path: str,
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> ProcessTree:
    """Starts a plan's command, which is told its scratch folder. Raises HarnessError off the main thread."""
    require_main_thread()
    scratch = tempfile.TemporaryDirectory(prefix="runcard-box-", ignore_cleanup_errors=True)
    return start_tree(
        command(Path(scratch.name)),
        project=plan.project,
        env={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **plan.env},
        scratch=scratch,
        pass_fds=plan.pass_fds,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


def start_tree(
    argv: list[str],
    *,
    project: Path | None,
    env: Mapping[str, str],
    scratch: tempfile.TemporaryDirectory[str],
    pass_fds: tuple[int, ...],
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> ProcessTree:
    """Starts `argv` in its project, else in an empty folder, with HOME and TMPDIR in `scratch` and `env` besides."""
    mark = f"{os.getpid()}-{Path(scratch.name).name}"
    empty = Path(scratch.name, "empty")
    empty.mkdir()
    try:
        process = subprocess.Popen(
            argv,
            cwd=project or empty,
            env={"HOME": scratch.name, "TMPDIR": scratch.name, "LANG": "C.UTF-8", **env, _MARK: mark},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except OSError as error:
        scratch.cleanup()
        raise HarnessError(f"{argv[0]} cannot be started in {project or empty}: {error.strerror}") from error
    return ProcessTree(scratch, process, mark)
