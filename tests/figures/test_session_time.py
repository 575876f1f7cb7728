"""A session's wall time in four parts: they add up to it whatever the clocks and the agent say."""

from __future__ import annotations

from math import fsum, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures.compute import compute
from bench.figures.run_evidence import Evidence
from bench.figures.session_time import SessionTime, split_time

SECONDS = st.floats(0, 1e6, allow_nan=False)
SPANS = st.lists(st.tuples(SECONDS, SECONDS, st.none() | SECONDS), max_size=8)


@given(wall=SECONDS, spans=SPANS, tools=st.none() | SECONDS, simulated=st.booleans())
def test_the_parts_add_up_to_the_wall_time(request_of, wall, spans, tools, simulated):
    requests = [request_of(sent_at=begin, ended_at=end, queue_seconds=queue) for begin, end, queue in spans]
    time = split_time(wall, requests, tool_seconds=tools, simulated=simulated)
    parts = [time.engine, time.waiting, time.tool, time.agent]
    known = [part for part in parts if part is not None]
    assert all(part >= 0 for part in known)
    assert isclose(fsum(known), wall, rel_tol=1e-9, abs_tol=1e-9)
    assert (time.tool is None) == (tools is None)
    assert (time.waiting is None) == (simulated or all(queue is None for _, _, queue in spans))


def test_requests_at_the_engine_at_once_count_once(request_of):
    requests = [request_of(sent_at=1.0, ended_at=4.0), request_of(sent_at=2.0, ended_at=6.0), request_of(sent_at=8.0)]
    time = split_time(10.0, requests, tool_seconds=2.0, simulated=False)
    assert time == SessionTime(engine=5.0, waiting=None, tool=2.0, agent=3.0)


def test_a_request_waits_only_while_no_other_is_worked_on(request_of):
    alone = request_of(sent_at=0.0, ended_at=3.0, queue_seconds=1.0)
    beside = request_of(sent_at=2.0, ended_at=5.0, queue_seconds=1.5)
    time = split_time(6.0, [alone, beside], tool_seconds=None, simulated=False)
    # 0 to 1 the first waits alone; 2 to 3 the second waits while the first is answered; 3 to 3.5 it waits alone.
    assert time == SessionTime(engine=3.5, waiting=1.5, tool=None, agent=1.0)


def test_a_simulated_queue_is_part_of_the_engines_time(request_of):
    one = request_of(sent_at=0.0, ended_at=1.0, queue_seconds=50.0)
    time = split_time(2.0, [one], tool_seconds=0.0, simulated=True)
    assert time == SessionTime(engine=1.0, waiting=None, tool=0.0, agent=1.0)


def test_an_agent_cannot_claim_more_time_than_there_was(request_of):
    time = split_time(4.0, [request_of(ended_at=3.0)], tool_seconds=99.0, simulated=False)
    assert time == SessionTime(engine=3.0, waiting=None, tool=1.0, agent=0.0)


def test_a_session_that_died_with_the_harness_is_not_split(request_of):
    assert split_time(None, [request_of()], tool_seconds=1.0, simulated=False) == SessionTime()


@pytest.fixture
def figures(profile, session_of, segment_of):
    def compute_of(*rows, **changes):
        evidence = Evidence(profile=profile, segments=(segment_of(1, 0.0, 60.0),), sessions=rows, **changes)
        return {one.id: one for one in compute(evidence)}

    return compute_of


def test_the_figures_are_sums_with_their_share(figures, session_of):
    split = session_of(seconds=10.0, engine_seconds=6.0, tool_seconds=3.0, agent_seconds=1.0)
    untold = session_of(session=2, seconds=10.0, engine_seconds=2.0, agent_seconds=8.0)
    died = session_of(session=3, outcome="interrupted")
    found = figures(split, untold, died)
    assert found["engine_time"].value == 8.0
    assert found["engine_time"].n == 2
    assert "40.0% of the sessions' wall time" in found["engine_time"].includes
    assert "1 sessions without a known end left out" in found["engine_time"].includes
    assert "the queue included" in found["engine_time"].includes
    assert found["tool_time"].value == 3.0
    assert "not told of 1 of 2 sessions" in found["tool_time"].includes
    assert found["agent_time"].value == 9.0
    assert "the time of tools included" in found["agent_time"].includes
    assert found["waiting_time"].value is None
    assert "no queue time" in found["waiting_time"].reason


def test_where_no_session_was_split_there_is_a_reason(figures, session_of):
    for found in (figures(session_of()), figures(session_of(seconds=1.0), counted_by="engine-log")):
        for name in ("engine_time", "tool_time", "waiting_time", "agent_time"):
            assert found[name].value is None
            assert found[name].reason
