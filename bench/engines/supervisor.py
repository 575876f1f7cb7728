"""Keeps one engine and outlives nobody: `python -m bench.engines.supervisor JSON`, started by `supervised.py`.

JSON: `{"argv": [...], "environment": {...}, "stop_seconds": 10, "log_bytes": 256000000}`; the environment is added to
the inherited one.

    stdin    the harness. The line `stop` ends the engine gently: TERM, `stop_seconds`, KILL. End of file means that
             the harness is gone, however it went: KILL at once
    stdout   one JSON object a line to the harness: `{"started": PID}` or `{"failed": WHY}`, then `{"ended": CODE}`
             (negative: the signal), at last `{"left": [PID ...]}` with what could not be killed: empty but for a
             process stuck in the kernel
    stderr   the engine's log; the engine's stdout and stderr go there too. It is held under `log_bytes`

On Linux whatever the engine started, daemons of their own session included, comes back to this process when its
parent ends (child subreaper), and the engine dies when this process does (parent-death signal). Elsewhere the
engine's process group and the descendants seen before the end are swept.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.engines.log_cap import LogCap
from bench.processes import Process, descendants, group_members, is_alive, kill_all, send_signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"
_END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_KILL_SECONDS = 10.0
_LOG_SECONDS = 1.0
"""How often the size of the log is looked at."""


class Keeper:
    """One engine and everything that it started."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts the engine in a session of its own. Raises OSError."""
        for name, value in environment.items():
            os.putenv(name, value)
        self.engine = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=2,
            stderr=2,
            start_new_session=True,
            preexec_fn=_tie_to_this_process(),  # noqa: PLW1509  this process has one thread
        )
        self.code: int | None = None
        """The engine's exit code once it has ended; negative: the signal."""

        self._known: set[Process] = set()

    def reap(self) -> None:
        """Takes every ended child off the process table, the engine or an orphan that came here."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.engine.pid:
                self.code = self.engine.returncode = os.waitstatus_to_exitcode(status)

    def living(self) -> set[Process]:
        """The engine and what it started, as far as it runs."""
        self.reap()
        self._known.update(descendants(os.getpid()), group_members(self.engine.pid))
        self._known = {process for process in self._known if is_alive(process)}
        return self._known

    def ask_to_end(self) -> None:
        self.living()
        if self.code is None:
            send_signal(-self.engine.pid, signal.SIGTERM)

    def kill(self) -> tuple[Process, ...]:
        """Ends everything by force; returns what withstood."""
        return kill_all(self.living, seconds=_KILL_SECONDS)


def keep(keeper: Keeper, wake: socket.socket, log: LogCap, *, stop_seconds: float) -> None:
    """Returns when the engine has ended by itself or it is time to kill it."""
    kill_at = math.inf
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        while keeper.code is None and time.monotonic() < kill_at:
            left = min(_LOG_SECONDS, max(0.0, kill_at - time.monotonic()))
            ready = {key.fd for key, _ in selector.select(left)}
            log.hold()
            if 0 in ready:
                order = os.read(0, 100)
                if order.strip() == b"stop":
                    keeper.ask_to_end()
                    kill_at = time.monotonic() + stop_seconds
                elif not order:
                    return
            if wake.fileno() in ready and set(wake.recv(100)) & set(_END_SIGNALS):
                return
            keeper.reap()


def main() -> int:
    order = json.loads(sys.argv[1])
    if _LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake = _signals_as_bytes()
    try:
        keeper = Keeper(order["argv"], order["environment"])
    except OSError as error:
        _tell(failed=f"{error.strerror}: {error.filename}")
        return 1
    _tell(started=keeper.engine.pid)
    log = LogCap(2, most_bytes=order["log_bytes"])
    keep(keeper, wake, log, stop_seconds=order["stop_seconds"])
    if keeper.code is not None:
        _tell(ended=keeper.code)
    left = keeper.kill()
    log.hold()
    _tell(ended=keeper.code, left=[process.pid for process in left])
    return 0


def _signals_as_bytes() -> socket.socket:
    """A socket that gives the number of every signal that matters, so that one wait covers them and the harness."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.detach())
    for number in (signal.SIGCHLD, *_END_SIGNALS):
        signal.signal(number, lambda _number, _frame: None)
    return receiver


def _tie_to_this_process() -> Callable[[], None] | None:
    """What the engine does before it becomes the engine: asks the kernel to be killed when this process dies."""
    if not _LINUX:
        return None
    supervisor = os.getpid()

    def tie() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)

    return tie


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _tell(**event: Any) -> None:
    try:
        os.write(1, json.dumps(event).encode() + b"\n")
    except BrokenPipeError:
        # The harness is gone; what is left to do does not depend on it.
        return


if __name__ == "__main__":
    sys.exit(main())
