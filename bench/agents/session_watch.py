"""Must the harness end a session? Waits for the agent's end and looks at every limit meanwhile."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.agents.adapters import EVENTS_FILE, Adapter
from bench.agents.failed_exchanges import FAILURES_IN_A_ROW, failing_last
from bench.agents.pipe_copy import PipeCopies
from bench.agents.project_weight import outgrown
from bench.agents.session_outcome import UNUSABLE_IN_A_ROW, CutBy, output_tokens
from bench.contracts import BoxedProcess, ExchangeSummary, Progress, ProgressSink, SessionProgress, SessionRequest
from bench.engine_profile import EngineProfile

_TICK_SECONDS = 0.1
_PROGRESS_SECONDS = 0.5
_DISK_SECONDS = 3.0
"""How often the project is weighed; a look takes a few milliseconds."""

_DEAD_ENGINE_SECONDS = 2.0
"""How long an agent may still use what it already has from an engine that is gone."""

_EVENTS_READ_BYTES = 8_000_000
"""A longer event stream is not read before the session's end: the agent would wait meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What can be asked about a session that goes on."""

    exchanges: Callable[[], tuple[ExchangeSummary, ...]]
    progress_of: Callable[[], SessionProgress]
    last_answer: Callable[[str], str]
    engine_dead: Callable[[], str | None]
    stop_requested: Callable[[], bool]


class SessionWatch:
    """Watches one session, from the instant at which it is made. `sink` gets a line now and then.

    `home`: the agent's own folder, which it could fill as well as the project. `profile`: of the engine, which words
    its errors.
    """

    def __init__(
        self,
        request: SessionRequest,
        adapter: Adapter,
        watched: Watched,
        sink: ProgressSink,
        *,
        home: Path,
        profile: EngineProfile,
    ) -> None:
        self.started_at = time.time()
        self.progress: SessionProgress | None = None
        """How the traffic stood when it was last looked at."""

        self._request = request
        self._home = home
        self._profile = profile
        self._adapter = adapter
        self._watched = watched
        self._sink = sink
        self._started = time.monotonic()
        self._next_report = self._started
        self._next_disk_look = self._started + _DISK_SECONDS
        self._next_events_look = UNUSABLE_IN_A_ROW
        """At so many exchanges the event stream is read."""

        self._dead_at: float | None = None

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._started

    def until_end(self, boxed: BoxedProcess, copies: PipeCopies) -> CutBy | None:
        """None when the agent's process has ended, else why it is to be ended."""
        next_check = self._started
        while not _ended(boxed.process, copies):
            now = time.monotonic()
            if now < next_check:
                continue
            next_check = now + _TICK_SECONDS
            seen = self._watched.exchanges()
            if cut := self._cut(now, seen):
                return cut
            if now >= self._next_report:
                self._next_report = now + _PROGRESS_SECONDS
                self._sink(Progress(text=self._line(now, seen), transient=True))
        return None

    def _cut(self, now: float, seen: tuple[ExchangeSummary, ...]) -> CutBy | None:
        if self._dead_at is None and self._watched.engine_dead() is not None:
            self._dead_at = now
        if self._dead_at is not None and now - self._dead_at >= _DEAD_ENGINE_SECONDS:
            return "engine-dead"
        if self._watched.stop_requested():
            return "asked"
        if now - self._started >= self._request.seconds:
            # Half the session's time is stall enough, however long an engine may be silent otherwise.
            progress = self.progress = self._watched.progress_of()
            stalled = _owes(progress) and progress.idle_seconds >= self._request.seconds / 2
            return "stall" if stalled else "seconds"
        if cut := self._without_progress():
            return cut
        if len(failing_last(seen, self._profile)) >= FAILURES_IN_A_ROW:
            return "failures"
        if len(seen) > self._request.requests:
            return "requests"
        if output_tokens(seen) > self._request.output_tokens:
            return "output-tokens"
        if len(seen) >= self._next_events_look and self._goes_round(len(seen)):
            return "tool-loop"
        if now >= self._next_disk_look:
            self._next_disk_look = now + _DISK_SECONDS
            return "disk" if outgrown(self._request.project, self._home) else None
        return None

    def _without_progress(self) -> CutBy | None:
        """Whose silence it is, where there was no progress for too long.

        An answer in one piece may take as long as half of the session: nobody sees before its end whether it comes.
        """
        progress = self.progress = self._watched.progress_of()
        if progress.idle_seconds < self._request.no_progress_seconds:
            return None
        if not _owes(progress):
            return "no-progress"
        return None if progress.in_one_piece else "stall"

    def _goes_round(self, exchanges: int) -> bool:
        """Whether the agent tells of too many unusable answers; looks again when there can be so many."""
        evidence = self._request.evidence
        if (evidence / EVENTS_FILE).stat().st_size > _EVENTS_READ_BYTES:
            return False
        unusable = self._adapter.read_events(evidence, self._request.label.session).unusable_turns
        self._next_events_look = exchanges + max(1, UNUSABLE_IN_A_ROW - unusable)
        return unusable >= UNUSABLE_IN_A_ROW

    def _line(self, now: float, seen: tuple[ExchangeSummary, ...]) -> str:
        label = self._request.label
        elapsed, tokens = now - self._started, output_tokens(seen)
        rate = f", {tokens / elapsed:.1f} tok/s" if tokens and elapsed > 0 else ""
        name = " ".join(part for part in (f"session {label.session:03d}", label.role, label.task) if part)
        return f"{name}: {elapsed:.0f} s, {len(seen)} requests, {tokens:,} output tokens{rate}"


def _owes(progress: SessionProgress) -> bool:
    """Whether the agent waits for the engine, and takes what it gives."""
    return progress.underway > 0 and not progress.held_back


def _ended(process: subprocess.Popen[bytes], copies: PipeCopies) -> bool:
    """Copies or waits for at most one tick; whether the process has ended, its pipes open or not."""
    if copies.open:
        copies.pump(_TICK_SECONDS)
        return process.poll() is not None
    try:
        process.wait(_TICK_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
