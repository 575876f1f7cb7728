"""Waits until a launched engine answers: its process must live and own the port, then refused -> loading -> ready."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.contracts import Progress, ProgressSink
from bench.engines.engine_http import Endpoint
from bench.engines.supervised import Supervised
from bench.processes import listeners

if TYPE_CHECKING:
    from bench.engines.profile_parts import Ready

_SILENT_SECONDS = 2.0
"""A start that takes no longer is not reported."""


class NotReadyError(Exception):
    """Why the engine did not become ready, as the end of a sentence, and what helps."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why)
        self.why = why
        self.advice = advice


def wait_until_ready(
    supervised: Supervised, *, endpoint: Endpoint, ready: Ready, title: str, progress: ProgressSink
) -> float:
    """Returns the seconds that the start took. Raises NotReadyError."""
    began = time.monotonic()
    reported = began + _SILENT_SECONDS
    pause = 0.01
    port, state = endpoint.port, "not listening yet"
    while True:
        supervised.listen()
        now = time.monotonic()
        _check_alive(supervised, seconds=now - began)
        if now - began > ready.seconds:
            _check_owner(supervised, port)
            raise NotReadyError(
                f"it was not ready after {ready.seconds:g} s ({state})",
                "look for the reason in the log; a slow machine or a large model may need a larger 'ready.seconds'",
            )
        if now > reported:
            first = reported == began + _SILENT_SECONDS
            text = f"{title}: {state}, {now - began:.0f} s of at most {ready.seconds:g} s"
            progress(Progress(text=text, transient=not first))
            reported = now + 1.0
        answer = endpoint.ask("GET", ready.path)
        if answer.status is not None:
            _check_owner(supervised, port)
            if answer.status == 200:
                return time.monotonic() - began
            if answer.status not in ready.loading:
                raise NotReadyError(
                    f"it answered HTTP {answer.status} to GET {ready.path} instead of 200",
                    "another version may have another address for this: see 'ready' in the engine's profile",
                )
            state = "loading the model"
        time.sleep(pause)
        pause = min(pause * 1.3, 0.2)


def _check_alive(supervised: Supervised, *, seconds: float) -> None:
    if supervised.failed is not None:
        raise NotReadyError(f"it could not be started: {supervised.failed}", "run the command by hand")
    if supervised.ended is not None:
        raise NotReadyError(f"{supervised.ended} after {seconds:.1f} s", "the log says why; run the command by hand")


def _check_owner(supervised: Supervised, port: int) -> None:
    """Whoever answers on the port must be the engine or its child, where the system can tell."""
    holders = listeners(port)
    if holders is None or _ours(supervised, holders):
        return
    who = f"process {', '.join(map(str, holders))}" if holders else "another user's process"
    raise NotReadyError(
        f"port {port} is taken: {who} answers there, not the engine",
        "start again, another port will be taken; or end that process",
    )


def _ours(supervised: Supervised, holders: Sequence[int]) -> bool:
    family = {process.pid for process in supervised.family()}
    return bool(family & set(holders))
