"""The harness's end of a supervised engine: starts the supervisor, hears from it, has everything ended."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.engines.log_cap import LOG_BYTES
from bench.errors import HarnessError
from bench.processes import Process, descendants, kill_all, marked

MARK = "RUNCARD_ENGINE"
"""Environment variable by which everything that an engine started is found again."""

_SUPERVISOR_SECONDS = 15.0
"""What the supervisor may take beyond `stop_seconds` until the last process is seen dead."""

_MAX_EVENT_BYTES = 100_000


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How an engine ended. `code`: exit code, negative for a signal; None where only its absence is known."""

    code: int | None

    def __str__(self) -> str:
        if self.code is None:
            return "it went with its supervisor, which was killed or could not run"
        if self.code >= 0:
            return f"it ended with exit code {self.code}"
        name = signal.Signals(-self.code).name if -self.code in set(signal.Signals) else f"signal {-self.code}"
        hint = "; Linux does this when memory runs out" if name == "SIGKILL" else ""
        return f"it was ended by {name}{hint}"


class Supervised:
    """A program under a supervisor: it does not outlive this process, nor this object's `stop`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        stop_seconds: float,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        """Starts it; stdout and stderr are appended to `log`, which is held under `log_bytes`."""
        self._lock = threading.RLock()
        self._mark = secrets.token_hex(16)
        self._stop_seconds = stop_seconds
        order = {
            "argv": list(argv),
            "environment": {**environment, MARK: self._mark},
            "stop_seconds": stop_seconds,
            "log_bytes": log_bytes,
        }
        with log.open("ab") as log_file:
            self.supervisor = subprocess.Popen(
                [sys.executable, "-P", "-m", "bench.engines.supervisor", json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                start_new_session=True,
            )
        assert self.supervisor.stdin is not None  # noqa: S101
        assert self.supervisor.stdout is not None  # noqa: S101
        self._orders = self.supervisor.stdin
        self._events = self.supervisor.stdout
        os.set_blocking(self._events.fileno(), False)
        self._heard = b""
        self.pid: int | None = None
        """The engine's process, once the supervisor has started it."""

        self.failed: str | None = None
        """Why the program could not be started at all."""

        self.ended: Ended | None = None
        self._left: list[int] = []
        self._stopped = False

    def listen(self) -> None:
        """Takes in what the supervisor has said; never waits. Afterwards `pid`, `failed`, `ended` are up to date."""
        with self._lock:
            if not self._stopped:
                self._take_in()

    def _take_in(self) -> None:
        # Asked before reading: what a dead supervisor said last is still in the pipe.
        gone = self.supervisor.poll() is not None
        while chunk := self._events.read(65_536):
            self._heard = (self._heard + chunk)[-_MAX_EVENT_BYTES:]
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            event = json.loads(line)
            self.pid = event.get("started", self.pid)
            self.failed = event.get("failed", self.failed)
            self._left = event.get("left", self._left)
            if "ended" in event:
                self.ended = Ended(code=event["ended"])
        if gone and self.ended is None:
            self.ended = Ended(code=None)

    def family(self) -> tuple[Process, ...]:
        """The engine and everything that it started, as far as it can be seen."""
        return tuple({*descendants(self.supervisor.pid), *marked(MARK, self._mark)})

    def stop(self) -> None:
        """Ends the program and everything it started; returns when it is seen dead. Safe to call twice.

        Raises HarnessError if something withstands SIGKILL.
        """
        with self._lock:
            if not self._stopped:
                self._end()

    def _end(self) -> None:
        with suppress(BrokenPipeError):  # the supervisor ended before: the engine did, or somebody killed it
            os.write(self._orders.fileno(), b"stop\n")
        try:
            self.supervisor.wait(self._stop_seconds + _SUPERVISOR_SECONDS)
        except subprocess.TimeoutExpired:
            self.supervisor.kill()
            self.supervisor.wait()
        self.listen()
        self._stopped = True
        self._orders.close()
        self._events.close()
        # Nothing is found here unless the supervisor itself was killed.
        left = [process.pid for process in kill_all(lambda: marked(MARK, self._mark), seconds=5.0)] or self._left
        if left:
            raise HarnessError(f"processes of the engine withstand SIGKILL: {', '.join(map(str, left))}")
