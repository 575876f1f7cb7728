"""Keeps an engine's log from filling the disk: what comes after the cap is cut off again, and a line says so."""

from __future__ import annotations

import os

LOG_BYTES = 256_000_000


class LogCap:
    """Holds one log file, open for appending, under a size.

    The engine writes to the same open file, so that logging costs it no more than a write; between two calls of
    `hold` the file may grow past the cap.
    """

    def __init__(self, log: int, *, most_bytes: int = LOG_BYTES) -> None:
        self._log = log
        self._most_bytes = most_bytes
        self._end: int | None = None
        """Where the log ends for good, once it was cut."""

    def hold(self) -> None:
        """Cuts the log where it is too long."""
        if self._end is None and os.fstat(self._log).st_size > self._most_bytes:
            os.ftruncate(self._log, self._most_bytes)
            os.write(
                self._log,
                f"\nruncard: the log is cut at {self._most_bytes:,} bytes; what came later is not kept\n".encode(),
            )
            self._end = os.fstat(self._log).st_size
        elif self._end is not None and os.fstat(self._log).st_size > self._end:
            os.ftruncate(self._log, self._end)
