"""A figure rests on one source class; the rest is left out and counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures.one_source import ENGINE_SOURCES, most_common


@given(st.lists(st.none() | st.sampled_from(ENGINE_SOURCES)))
def test_the_commonest_source_is_taken_whatever_the_order(sources):
    chosen = most_common(sources)
    assert chosen == most_common(reversed(sources))
    if chosen is None:
        assert set(sources) <= {None}
    else:
        assert all(sources.count(chosen) >= sources.count(other) for other in ENGINE_SOURCES)


def test_of_equal_ones_the_first_of_the_page_is_taken():
    assert most_common(["engine-log", "engine-counter", None]) == "engine-counter"


def test_drafts_have_a_source_of_their_own(figures, request_of):
    requests = (
        request_of(ttft_seconds=1.0, drafted_tokens=10, accepted_tokens=5, draft_source="engine-log"),
        request_of(index=1, ttft_seconds=2.0, drafted_tokens=10, accepted_tokens=10, draft_source="engine-log"),
        request_of(index=2, ttft_seconds=3.0, drafted_tokens=90, accepted_tokens=0, draft_source="engine-response"),
        request_of(index=3, ttft_seconds=9.0, draft_source=None, source="engine-counter"),
    )
    found = figures(requests=requests)
    drafts = found["draft_acceptance"]
    assert (drafts.value, drafts.n, drafts.source) == (0.75, 2, "engine-log")
    assert drafts.includes == (
        "15 of 20 drafted tokens; 1 of 4 requests left out, whose source is not engine-log; not reported by 1 of 4 requests"
    )
    ttft = found["ttft_median"]
    assert (ttft.value, ttft.n, ttft.source) == (2.0, 3, "engine-response")
    assert ttft.includes == "queueing excluded; 1 of 4 requests left out, whose source is not engine-response"
    assert found["requests_without_drafts"].value == 1
    assert found["requests_without_drafts"].source == "engine-log"
    assert found["requests_without_timings"].value == 0


def test_requests_in_which_nothing_was_drafted_do_not_outvote_those_that_drafted(figures, request_of):
    drafted = request_of(drafted_tokens=50, accepted_tokens=40, draft_source="engine-response")
    nothing = [
        request_of(index=number, drafted_tokens=0, accepted_tokens=0, draft_source="engine-counter")
        for number in (1, 2, 3)
    ]
    drafts = figures(requests=(drafted, *nothing))["draft_acceptance"]
    assert (drafts.value, drafts.n, drafts.source) == (0.8, 1, "engine-response")
    assert figures(requests=tuple(nothing))["draft_acceptance"].reason == "nothing was drafted"


def test_counters_say_themselves_what_they_include(figures, request_of, profile):
    from dataclasses import replace

    from bench.engine_profile import MetricSeries, MetricsPage

    series = MetricSeries(names=("t",), unit="s", includes="queueing included")
    page = MetricsPage(path="/metrics", series={"ttft_seconds": series}, late_seconds=0, read_seconds=1)
    counted = replace(profile, metrics=page)
    one = figures(requests=(request_of(ttft_seconds=1.0, source="engine-counter"),), profile=counted)["ttft_median"]
    assert (one.source, one.includes) == ("engine-counter", "queueing included")
    other = figures(requests=(request_of(ttft_seconds=1.0),), profile=counted)["ttft_median"]
    assert (other.source, other.includes) == ("engine-response", "queueing excluded")


@pytest.mark.parametrize("name", ["ttft_median", "decode_tps", "draft_acceptance"])
def test_without_any_source_the_first_of_the_definition_stands(figures, request_of, name):
    figure = figures(requests=(request_of(source=None, draft_source=None),))[name]
    assert (figure.value, figure.source) == (None, "engine-response")
