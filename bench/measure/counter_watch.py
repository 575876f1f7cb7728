"""Reads the engine's metrics page at the right moments: after each answer, which is also before the next request.

A thread of its own does the reading, so no request waits for it. What it read is kept as `metrics.jsonl`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.contracts import SessionLabel
from bench.engine_profile import EngineProfile
from bench.errors import EvidenceError, HarnessError
from bench.measure.counters import PageError, kept_lines
from bench.measure.line_file import drop_torn_line
from bench.measure.page_fetch import PageFetch
from bench.measure.scrape_lines import Reading, ReadingLines, scrape_of

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.25


class CounterWatch:
    """Watches one launch of an engine; of an engine whose profile has no metrics page it does nothing.

    A context manager: the first reading is taken on entering, the one after the last answer before leaving. `began` and
    `ended` have the shape of the relay's hooks, return at once and may be called from any thread. `clock` must be the
    relay's, and the relay must be left first. Raises EvidenceError where the file cannot be written.
    """

    def __init__(
        self,
        host: str,
        port: int,
        profile: EngineProfile,
        path: Path,
        *,
        engine_process: int,
        clock: Callable[[], float] = time.monotonic,
        api_key: str | None = None,
    ) -> None:
        self._engine = (host, port)
        self._metrics = profile.metrics
        self._path = path
        self._engine_process = engine_process
        self._clock = clock
        self._api_key = api_key
        self._lines = ReadingLines()
        self._news = threading.Condition()
        self._late_seconds = 0.0 if profile.metrics is None else profile.metrics.late_seconds
        self._settled: float | None = None
        """Requests that the engine had counted when nothing was owed."""

        self._owed = 0
        """Exchanges that ended since then."""

        self._ended = 0
        """Exchanges that ended and are not read after."""

        self._begun_since = False
        """A request began after the last of them."""

        self._closing = False
        self._given_up = False
        self._fetch: PageFetch | None = None
        self._fault: OSError | None = None
        self._done = False
        self._thread = threading.Thread(target=self._run, name="counters", daemon=True)

    def __enter__(self) -> Self:
        if self._metrics is not None:
            try:
                drop_torn_line(self._path)
                self._settled = self._read()
            except OSError as error:
                raise EvidenceError(f"{self._path}: cannot be written ({error.strerror})") from error
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._metrics is None:
            return
        with self._news:
            self._closing = True
            self._given_up = kind is not None
            if self._given_up and self._fetch is not None:
                self._fetch.abandon()
            self._news.notify_all()
        self._thread.join()
        if kind is None and self._fault is not None:
            raise EvidenceError(f"{self._path}: cannot be written ({self._fault.strerror})") from self._fault
        if kind is None and not self._done:
            raise HarnessError("the watch of the engine's counters broke; its traceback stands above")

    def began(self, _label: SessionLabel, _index: int, _at: float) -> None:
        """A request was written to the engine."""
        with self._news:
            self._begun_since = True
            self._news.notify_all()

    def ended(self, _label: SessionLabel, _index: int, _at: float) -> None:
        """An exchange is over, however it ended."""
        with self._news:
            self._ended += 1
            self._begun_since = False
            self._news.notify_all()

    def _run(self) -> None:
        try:
            while True:
                with self._news:
                    self._news.wait_for(lambda: self._ended or self._closing)
                    if not self._ended or self._given_up:
                        self._done = True
                        return
                    self._owed, self._ended = self._owed + self._ended, 0
                self._follow()
        except OSError as error:
            self._fault = error  # raised on leaving

    def _follow(self) -> None:
        """Reads until the engine has counted what ended, or it could no longer be late, or the next request began."""
        deadline, pause = self._clock() + self._late_seconds, _FIRST_PAUSE_SECONDS
        while True:
            finished = self._read()
            settled = self._settled is not None and finished is not None and finished >= self._settled + self._owed
            left = deadline - self._clock()
            if settled or left <= 0:
                # Requests that were refused or aborted may never be counted: what is owed after that time is dropped.
                self._settled, self._owed = finished, 0
                return
            with self._news:
                if self._news.wait_for(
                    lambda: self._begun_since or self._given_up, left if finished is None else min(left, pause)
                ):
                    return
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _read(self) -> float | None:
        """Takes one reading and keeps it; gives how many requests the engine has counted. Raises OSError."""
        metrics = self._metrics
        if metrics is None:
            return None
        fetch = PageFetch(*self._engine, metrics.path, api_key=self._api_key, seconds=metrics.read_seconds)
        with self._news:
            self._fetch = fetch
            if self._given_up:
                fetch.abandon()
        asked_at = self._clock()
        text, lost = fetch.run()
        answered_at = self._clock()
        lines: tuple[str, ...] = ()
        if lost is None:
            try:
                lines = kept_lines(text, metrics)
            except PageError as error:
                lost = str(error)
        reading = Reading(
            engine_process=self._engine_process, asked_at=asked_at, answered_at=answered_at, lines=lines, lost=lost
        )
        with self._path.open("ab") as stream:
            stream.write(self._lines.encode(reading))
        return scrape_of(reading, metrics).values.get("finished_requests")
