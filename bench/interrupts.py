"""Ctrl-C and SIGTERM: the first one asks the run to stop at a whole place, the second one stops it where it is."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RunInterrupted(KeyboardInterrupt):
    """A run was stopped at once; `run_id` can be gone on with where it is not None."""

    def __init__(self, run_id: str | None) -> None:
        super().__init__()
        self.run_id = run_id


class Interrupts:
    """While `caught`, a signal raises KeyboardInterrupt, except within `gracefully`, where the first one is only noted.

    Main thread only.
    """

    def __init__(self) -> None:
        self._graceful = False
        self._asked = False

    def asked(self) -> bool:
        """Whether a stop was asked for and noted."""
        return self._asked

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Handles SIGINT and SIGTERM inside; what handled them before does so again afterwards."""
        with _handled_by(self._handle):
            yield

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """Inside, signals are dropped: what is being written is written whole. Keep it short."""
        with _handled_by(signal.SIG_IGN):
            yield

    @contextmanager
    def gracefully(self) -> Iterator[None]:
        """Inside, whoever works looks at `asked` often and ends at the next whole place."""
        self._graceful = True
        try:
            yield
        finally:
            self._graceful = False

    def _handle(self, *_: object) -> None:
        if not self._graceful or self._asked:
            raise KeyboardInterrupt
        self._asked = True


@contextmanager
def _handled_by(handler: Callable[..., None] | signal.Handlers) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
