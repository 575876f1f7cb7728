"""Lets modelled seconds pass: not at all at time scale 0, really at 1."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_SECONDS = 0.02


class Pace:
    """One request's clock. Waits aim at instants, so lateness of one wait is not added to the next."""

    def __init__(self, time_scale: float, check: Callable[[], None]) -> None:
        self._time_scale = time_scale
        self._check = check
        self._due = time.monotonic()

    def spend(self, seconds: float) -> None:
        """Passes so many modelled seconds; `check` is called at least once and may raise."""
        self._check()
        self._due += seconds * self._time_scale
        while self._time_scale and (left := self._due - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))
            self._check()
