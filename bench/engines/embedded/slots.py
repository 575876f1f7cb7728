"""Queueing: so many requests run at once, the others wait in the order in which they came.

With a time scale the wait is the real one. Without, time is only accounted: a request that had to wait begins when the
request whose slot it takes would have ended, on a clock that advances with the modelled seconds of ended requests.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place to run in; seconds of the modelled clock."""

    queue_seconds: float
    began: float


class Slots:
    """Safe for threads."""

    def __init__(self, count: int, *, time_scale: float) -> None:
        self._free_since = [0.0] * count
        self._now = 0.0
        self._time_scale = time_scale
        self._queue: deque[object] = deque()
        self._running = 0
        self._changed = Condition()

    def enter(self, check: Callable[[], None]) -> Slot:
        """Waits for a slot; `check` is called meanwhile and may raise to give the place in the queue up."""
        ticket = object()
        asked = time.monotonic()
        with self._changed:
            arrived = self._now
            self._queue.append(ticket)
            try:
                while self._queue[0] is not ticket or not self._free_since:
                    self._changed.wait(_LOOK_SECONDS)
                    check()
                began = max(arrived, heapq.heappop(self._free_since))
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()
            self._running += 1
        waited = (time.monotonic() - asked) / self._time_scale if self._time_scale else began - arrived
        return Slot(queue_seconds=round(waited, 6), began=began)

    def leave(self, slot: Slot, *, seconds: float) -> None:
        """Frees a slot after so many modelled seconds of work."""
        with self._changed:
            self._running -= 1
            ended = slot.began + seconds
            heapq.heappush(self._free_since, ended)
            self._now = max(self._now, ended)
            self._changed.notify_all()

    def counts(self) -> tuple[int, int]:
        """How many requests run and how many wait."""
        with self._changed:
            return self._running, len(self._queue)
