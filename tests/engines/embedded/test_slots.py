from __future__ import annotations

import time
from threading import Thread

import pytest

from bench.engines.embedded.refusal import ClientGoneError
from bench.engines.embedded.slots import Slots


def stay():
    """A client that is still there."""


def wait_for(slots, waiting):
    while slots.counts()[1] != waiting:
        time.sleep(0.001)


def test_one_after_another_nobody_waits():
    slots = Slots(1, time_scale=0)
    for _ in range(3):
        slot = slots.enter(stay)
        assert slot.queue_seconds == 0
        slots.leave(slot, seconds=10)
    assert slots.counts() == (0, 0)


def test_those_who_wait_are_served_in_order_and_charged_for_those_before_them():
    slots = Slots(1, time_scale=0)
    first = slots.enter(stay)
    served = []

    def run(name, seconds):
        slot = slots.enter(stay)
        served.append((name, slot.queue_seconds))
        slots.leave(slot, seconds=seconds)

    threads = []
    for count, (name, seconds) in enumerate((("second", 3), ("third", 5)), start=1):
        threads.append(Thread(target=run, args=(name, seconds)))
        threads[-1].start()
        wait_for(slots, count)
    assert slots.counts() == (1, 2)
    slots.leave(first, seconds=10)
    for thread in threads:
        thread.join()
    assert served == [("second", 10.0), ("third", 13.0)]


def test_a_client_that_goes_away_gives_its_place_up():
    slots = Slots(1, time_scale=0)
    slot = slots.enter(stay)

    def gone():
        raise ClientGoneError

    with pytest.raises(ClientGoneError):
        slots.enter(gone)
    assert slots.counts() == (1, 0)
    slots.leave(slot, seconds=1)
    assert slots.enter(stay).queue_seconds == 0


def test_with_a_time_scale_the_wait_is_the_real_one():
    slots = Slots(1, time_scale=0.5)
    slot = slots.enter(stay)
    found = []
    thread = Thread(target=lambda: found.append(slots.enter(stay)))
    thread.start()
    wait_for(slots, 1)
    began = time.monotonic()
    time.sleep(0.05)
    waited = time.monotonic() - began
    slots.leave(slot, seconds=100)
    thread.join()
    assert found[0].queue_seconds >= waited / 0.5
