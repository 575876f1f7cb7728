"""A clock that steps within a launch is told, one that differs between launches is not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bench.measure.wall_clock import WallClock


@dataclass
class Seen:
    started_at: float
    sent_at: float
    engine_process: int = 1


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ([], None),
        ([Seen(1000.0, 5.0), Seen(1010.0, 15.001)], None),
        ([Seen(1000.0, 5.0), Seen(4610.0, 15.0)], "3,600 s"),
        ([Seen(1000.0, 5.0), Seen(410.0, 15.0)], "600 s"),
        ([Seen(1000.0, 5.0), Seen(9000.0, 1.0, engine_process=2)], None),
    ],
    ids=["nothing", "steady", "forwards", "backwards", "two launches"],
)
def test_steps(seen, told):
    clock = WallClock()
    for one in seen:
        clock.look(one)
    assert (clock.step() is None) if told is None else (told in clock.step())
