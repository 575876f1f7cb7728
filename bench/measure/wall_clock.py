"""Was the machine's clock set, or was it asleep, while a run was measured? Each exchange has both a wall instant and one that cannot step."""

from __future__ import annotations

from bench.measure.exchange_line import Exchange

STEP_SECONDS = 5.0
"""Less may be a slow request body between the two instants, or a clock that is being slewed."""


class WallClock:
    """Looks at the exchanges of a run in any order, launch by launch: the relay's clock begins anew with each."""

    def __init__(self) -> None:
        self._offsets: dict[int, tuple[float, float]] = {}

    def look(self, exchange: Exchange) -> None:
        offset = exchange.started_at - exchange.sent_at
        least, most = self._offsets.get(exchange.engine_process, (offset, offset))
        self._offsets[exchange.engine_process] = (min(least, offset), max(most, offset))

    def step(self) -> str | None:
        """What the clock did, if it stepped within a launch."""
        widest = max((most - least for least, most in self._offsets.values()), default=0.0)
        return (
            f"the machine's clock was set, or it slept: {widest:,.0f} s while an engine served"
            if widest > STEP_SECONDS
            else None
        )
