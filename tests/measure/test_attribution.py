"""Counters of one engine, told apart by request: right, or None with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.engine_profile import EngineProfile, MetricSeries, MetricsPage
from bench.measure.attribution import attribute, attribute_summaries
from bench.measure.counters import OBSERVATIONS
from bench.records.schema import EngineSummary, RequestRecord, Scrape

QUANTITIES = (
    *("prompt_tokens", "cached_tokens", "output_tokens", "drafted_tokens", "accepted_tokens"),
    *("ttft_seconds", "prefill_seconds", "decode_seconds", "queue_seconds", "finished_requests"),
)
FILLED = ("ttft_seconds", "prefill_seconds", "decode_seconds", "queue_seconds", "drafted_tokens", "accepted_tokens")


def profile_of(*names: str, late: float = 0.0, simulated: bool = True) -> EngineProfile:
    series = {name: MetricSeries(names=(name,), unit="tokens") for name in names or QUANTITIES}
    return EngineProfile(
        name="any",
        title="Any",
        simulated=simulated,
        response_fields={},
        metrics=MetricsPage(path="/metrics", series=series, late_seconds=late, read_seconds=5),
        includes={},
        unavailable={},
        memory_errors=(),
        context_errors=(),
    )


def request(index: int, sent: float, ended: float, **more) -> RequestRecord:
    empty = dict.fromkeys(
        (*FILLED, "source", "draft_source", "error", "reasoning_tokens", "task", "first_byte_at", "first_token_at")
    )
    plain = {
        **empty,
        "last_token_at": None,
        "reason": "ttft_seconds: the profile names no field of the answer for it, and a request's times all have one source",
        "session": 1,
        "role": "builder",
        "attempt": 1,
        "retry": 0,
        "engine_process": 1,
        "streamed": True,
        "path": "/v1/chat/completions",
        "status": 200,
        "response_id": f"r{index}",
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "output_tokens": 5,
    }
    return RequestRecord(index=index, sent_at=sent, ended_at=ended, **{**plain, **more})


def reading(at: float, *, process: int = 1, took: float = 0.0, problem: str | None = None, **values: float) -> Scrape:
    return Scrape(engine_process=process, asked_at=at, answered_at=at + took, values=values, problem=problem)


GROWN = {
    "prompt_tokens": 10,
    "cached_tokens": 4,
    "output_tokens": 5,
    "finished_requests": 1,
    "queue_seconds": 0.25,
    "ttft_seconds": 0.5,
    "prefill_seconds": 0.4,
    "decode_seconds": 1.5,
    "drafted_tokens": 8,
    "accepted_tokens": 3,
}
ZERO = dict.fromkeys(GROWN, 0.0)


def grown(times: float, **more: float) -> dict[str, float]:
    return {name: 100.0 + value * times + more.get(name, 0) for name, value in GROWN.items()}


def test_the_growth_between_the_reading_before_and_the_one_after():
    records = [request(0, 1, 3), request(1, 5, 7)]
    told = attribute(records, [reading(0, **grown(0)), reading(4, **grown(1)), reading(8, **grown(2))], profile_of())
    for record in told:
        assert [getattr(record, name) for name in FILLED] == [GROWN[name] for name in FILLED]
        assert (record.source, record.draft_source, record.reason) == ("engine-counter", "engine-counter", None)
        assert isinstance(record.drafted_tokens, int)
    assert [record.index for record in told] == [0, 1]


def test_differences_are_exact_to_the_nanosecond():
    before, after = reading(0, **{**ZERO, "ttft_seconds": 48.001}), reading(4, **{**GROWN, "ttft_seconds": 49.739})
    [told] = attribute([request(0, 1, 3)], [before, after], profile_of())
    assert told.ttft_seconds == 1.738


def test_timings_of_the_response_stay_and_none_is_added_to_them():
    own = request(0, 1, 3, decode_seconds=9.0, source="engine-response", reason="ttft_seconds: not given")
    [told] = attribute([own], [reading(0, **grown(0)), reading(4, **grown(1))], profile_of())
    assert told == replace(own, drafted_tokens=8, accepted_tokens=3, draft_source="engine-counter")
    whole = replace(own, drafted_tokens=2, accepted_tokens=1, draft_source="engine-response")
    assert attribute([whole], [], profile_of()) == (whole,)
    queued = request(0, 1, 3, queue_seconds=0.0)
    [told] = attribute([queued], [reading(0, **grown(0)), reading(4, **grown(1))], profile_of())
    assert (told.queue_seconds, told.ttft_seconds, told.source) == (0.0, None, None)


def test_a_profile_without_a_page_changes_nothing():
    records = (request(0, 1, 3),)
    assert attribute(records, [reading(0, **ZERO)], replace(profile_of(), metrics=None)) == records


def refused(records, scrapes, profile=None) -> str:
    """The reason of the last of the records, which must have got nothing."""
    told = attribute(records, scrapes, profile or profile_of())[-1]
    assert [getattr(told, name) for name in FILLED] == [None] * len(FILLED)
    assert (told.source, told.draft_source) == (None, None)
    return told.reason


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({**GROWN, "finished_requests": 0}, "0 requests were counted between the readings, not one"),
        ({**GROWN, "finished_requests": 2}, "2 requests were counted"),
        ({**GROWN, "output_tokens": 6}, "output_tokens grew by 6, the response used 5"),
        ({**GROWN, "prompt_tokens": 1113626}, "prompt_tokens grew by 1113626, the response used 10"),
        ({**GROWN, "cached_tokens": 0}, "cached_tokens grew by 0, the response used 4"),
        ({**GROWN, "ttft_seconds": -1}, "ttft_seconds fell: the engine was started anew"),
        ({**GROWN, "prompt_tokens": -10, "finished_requests": -1}, "prompt_tokens, finished_requests fell"),
        ({"prompt_tokens": 10, "cached_tokens": 4, "output_tokens": 5}, "finished_requests is not on both pages"),
        ({"prompt_tokens": 10, "finished_requests": 1}, "the page does not count what"),
        ({"output_tokens": 5, "finished_requests": 1}, "the page does not count what"),
    ],
)
def test_growth_that_is_not_the_responses(after, says):
    assert says in refused([request(0, 1, 3)], [reading(0, **ZERO), reading(4, **after)])


@pytest.mark.parametrize(
    ("records", "scrapes", "says"),
    [
        ([request(0, 1, 3)], [reading(4, **GROWN)], "no reading between the end of the request before"),
        ([request(0, 1, 3)], [reading(0, **ZERO)], "no reading between this end and the next request's"),
        ([request(0, 1, 3)], [reading(0, **ZERO), reading(4, problem="gone")], "(1 readings of this launch are lost)"),
        ([request(0, 1, 3)], [reading(0, **ZERO), reading(2.5, took=9, **GROWN)], "no reading between this end"),
        ([request(1, 2, 3.5), request(0, 1, 3)], [reading(0, **ZERO), reading(3.2, **GROWN)], "at the same time"),
        (
            [request(1, 1, 2, error="aborted"), request(0, 1, 3)],
            [reading(0, **ZERO), reading(4, **GROWN)],
            "no reading",
        ),
        ([request(1, 1, 2), request(0, 2.5, 3)], [reading(0, **ZERO), reading(4, **GROWN)], "no reading"),
        (
            [request(1, 1, 2, error="aborted"), request(0, 2.1, 3)],
            [reading(2.2, **ZERO), reading(4, **GROWN)],
            "the request before failed",
        ),
    ],
)
def test_windows_that_are_not_the_requests_own(records, scrapes, says):
    assert says in refused(records, scrapes)


def test_a_response_that_does_not_say_what_it_used_gets_nothing():
    scrapes = [reading(0, **ZERO), reading(4, **GROWN)]
    assert "nothing can be checked" in refused([request(0, 1, 3, prompt_tokens=None)], scrapes)
    assert "nothing can be checked" in refused([request(0, 1, 3, output_tokens=None)], scrapes)
    computed = profile_of("computed_prompt_tokens", "output_tokens", "ttft_seconds")
    page = {"computed_prompt_tokens": 6.0, "output_tokens": 5.0, "ttft_seconds": 0.5}
    scrapes = [reading(0, **dict.fromkeys(page, 0.0)), reading(4, **page)]
    assert "nothing can be checked" in refused([request(0, 1, 3, cached_tokens=None)], scrapes, computed)
    [told] = attribute([request(0, 1, 3)], scrapes, computed)
    assert (told.ttft_seconds, told.decode_seconds) == (0.5, None)


def test_a_request_that_failed_gets_nothing_and_is_not_spoken_of():
    failed = request(0, 1, 3, error="HTTP 500")
    assert attribute([failed], [reading(0, **ZERO), reading(4, **GROWN)], profile_of()) == (failed,)


def test_asking_for_the_models_disturbs_nothing():
    models = request(0, 0.2, 1.5, path="/v1/models", prompt_tokens=None, output_tokens=None)
    told = attribute([models, request(1, 1, 3)], [reading(0, **ZERO), reading(4, **GROWN)], profile_of())
    assert told[0] == models
    assert told[1].ttft_seconds == 0.5


def test_launches_do_not_meet():
    records = [request(0, 1, 3), request(0, 1, 3, session=2, engine_process=2)]
    scrapes = [
        reading(0, **grown(0)),
        reading(4, **grown(1)),
        reading(0, process=2, **ZERO),
        reading(4, process=2, **GROWN),
    ]
    assert [one.ttft_seconds for one in attribute(records, scrapes, profile_of())] == [0.5, 0.5]


def test_lost_readings_are_passed_over():
    scrapes = [reading(0, **ZERO), reading(0.5, problem="late"), reading(4, problem="late"), reading(5, **GROWN)]
    assert attribute([request(0, 1, 3)], scrapes, profile_of())[0].ttft_seconds == 0.5


def test_what_is_missing_on_the_page_is_said_and_the_rest_taken():
    less = {name: value for name, value in GROWN.items() if name not in ("accepted_tokens", "queue_seconds")}
    after = reading(4, problem="accepted_tokens: x is 'NaN', no count", **less)
    [told] = attribute([request(0, 1, 3)], [reading(0, **ZERO), after], profile_of())
    assert (told.ttft_seconds, told.queue_seconds, told.drafted_tokens, told.draft_source) == (0.5, None, None, None)
    assert told.reason == (
        "queue_seconds: its counter is not on both pages; accepted_tokens: its counter is not on both pages; "
        "counters: accepted_tokens: x is 'NaN', no count"
    )


def test_a_histogram_in_which_another_clients_first_token_fell_tells_no_time_to_it():
    timed = OBSERVATIONS.format("ttft_seconds")
    before, after = reading(0, **grown(1), **{timed: 3.0}), reading(10, **grown(2), **{timed: 5.0})
    [told] = attribute([request(0, 1, 9)], [before, after], profile_of())
    assert (told.ttft_seconds, told.decode_seconds) == (None, GROWN["decode_seconds"])
    assert "ttft_seconds: 2 requests were timed between the readings, not one" in told.reason
    [alone] = attribute([request(0, 1, 9)], [before, replace(after, values={**after.values, timed: 4.0})], profile_of())
    assert alone.ttft_seconds == GROWN["ttft_seconds"]


def test_a_reading_from_before_the_late_count_of_the_request_before_is_none_to_go_from():
    """Two equal requests; the first is counted while the second runs, the second not in time."""
    first, second = request(0, 0.5, 1.5), request(1, 1.52, 5.52)
    readings = [
        *(reading(0.1, **grown(0)), reading(1.51, **grown(0))),
        *(reading(4.0, **grown(1)), reading(5.53, **grown(1, ttft_seconds=0.1))),
    ]
    told = attribute([first, second], readings, profile_of(late=2.0))
    assert told[0].ttft_seconds == GROWN["ttft_seconds"]
    assert (told[1].ttft_seconds, told[1].source) == (None, None)
    assert "may not have been counted yet" in told[1].reason


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ttft_seconds", 3, "ttft_seconds: 3.000 s is longer than the whole exchange (2.000 s)"),
        ("decode_seconds", 1e-9, "decode_seconds: 5 tokens in 1e-09 s cannot be"),
        ("ttft_seconds", 0, "ttft_seconds: 0 s cannot be"),
        ("prefill_seconds", 0, "prefill_seconds: 0 s cannot be"),
        ("accepted_tokens", 9, "accepted_tokens: 9 is more than the whole, 8"),
    ],
)
def test_what_cannot_be_is_not_taken(name, value, says):
    scrapes = [reading(0, **ZERO), reading(4, **{**GROWN, name: value})]
    [told] = attribute([request(0, 1, 3)], scrapes, profile_of(simulated=False))
    assert getattr(told, name) is None
    assert told.reason.endswith(says)


@pytest.mark.parametrize(
    ("before", "after", "value"), [(1538.69, 1538.71, None), (1538.69, 1540.69, 2.0), (0.5, 0.51, 0.01)]
)
def test_a_time_is_not_taken_where_six_digits_are_too_few(before, after, value):
    scrapes = [reading(0, **{**ZERO, "ttft_seconds": before}), reading(4, **{**GROWN, "ttft_seconds": after})]
    assert attribute([request(0, 1, 3)], scrapes, profile_of())[0].ttft_seconds == round(after - before, 9)
    rounded = [replace(one, rounded=True) for one in scrapes]
    [told] = attribute([request(0, 1, 3)], rounded, profile_of())
    assert told.ttft_seconds == value
    assert (told.decode_seconds, told.drafted_tokens) == (1.5, 8)
    assert value or told.reason.endswith("ttft_seconds: its counter grew by 0.02, and the page may round by 0.01")


def test_a_prompt_that_was_cached_whole_costs_no_prefill():
    scrapes = [reading(0, **ZERO), reading(4, **{**GROWN, "cached_tokens": 10, "prefill_seconds": 0})]
    [told] = attribute([request(0, 1, 3, cached_tokens=10)], scrapes, profile_of(simulated=False))
    assert (told.prefill_seconds, told.ttft_seconds) == (0, 0.5)


# --- engines that count late ---


def test_of_a_late_engine_the_first_reading_that_counts_is_taken():
    scrapes = [reading(0, **ZERO), reading(3, **ZERO), reading(3.2, **GROWN), reading(9, **grown(9))]
    assert attribute([request(0, 1, 3)], scrapes, profile_of(late=1))[0].ttft_seconds == 0.5


def test_what_a_late_engine_may_have_counted_for_the_request_before_is_not_taken():
    records = [request(0, 1, 3), request(1, 3.1, 5)]
    scrapes = [reading(0, **ZERO), reading(3, **ZERO), reading(5.1, **GROWN), reading(5.5, **GROWN)]
    assert "may not have been counted yet" in refused(records, scrapes, profile_of(late=1))
    scrapes = [
        reading(0, **ZERO),
        reading(3.05, **GROWN),
        reading(5.1, **{name: 2 * value for name, value in GROWN.items()}),
    ]
    assert [one.ttft_seconds for one in attribute(records, scrapes, profile_of(late=1))] == [0.5, 0.5]


def test_of_a_late_engine_that_counts_no_requests_the_last_quiet_reading_is_taken():
    names = [name for name in QUANTITIES if name != "finished_requests"]
    less = {name: GROWN[name] for name in names}
    scrapes = [reading(0, **dict.fromkeys(names, 0)), reading(3, **dict.fromkeys(names, 0)), reading(4, **less)]
    assert attribute([request(0, 1, 3)], scrapes, profile_of(*names, late=1))[0].ttft_seconds == 0.5


# --- any traffic at all ---


def _contributions(draw, record: RequestRecord, seconds: float, late: float) -> list[tuple[float, dict[str, float]]]:
    """When the engine counts which part of a request."""
    failed = record.error is not None
    middle = (record.sent_at + record.ended_at) / 2
    early = {"prompt_tokens": record.prompt_tokens, "cached_tokens": record.cached_tokens, "ttft_seconds": seconds}
    final = {"output_tokens": record.output_tokens, "decode_seconds": 2 * seconds, "finished_requests": 1}
    counted_at = record.ended_at - 0.001 + draw(st.sampled_from([0, 0.5, 1])) * late
    early_at = middle if draw(st.booleans()) else counted_at
    if not failed:
        return [(early_at, early), (counted_at, final)]
    if draw(st.booleans()):
        return []  # refused: nothing is counted
    some = {name: value for name, value in final.items() if draw(st.booleans())}
    return [(counted_at, early), (counted_at, some)]


@st.composite
def traffic(draw):
    """Requests that may overlap, readings at any instant, and an engine that counts at once, in parts, or late."""
    late = draw(st.sampled_from([0.0, 0.0, 2.0]))
    records, counted, now = [], [], 1.0
    for index in range(draw(st.integers(1, 6))):
        sent = max(0.5, now + draw(st.sampled_from([-2.5, 0.02, 0.02, 1.0, 3.0])))
        ended = sent + draw(st.sampled_from([1.0, 2.0, 4.0]))
        record = request(
            index,
            sent,
            ended,
            prompt_tokens=draw(st.integers(2, 3)),
            cached_tokens=draw(st.integers(0, 1)),
            output_tokens=draw(st.integers(1, 2)),
            error=draw(st.sampled_from([None, None, None, "aborted"])),
        )
        records.append(record)
        counted += _contributions(draw, record, 2.0**index, late)
        now = max(now, ended)
    ends = [record.ended_at + shift for record in records for shift in (0.01, 0.5, 2.5)]
    starts = sorted({0.1, *draw(st.lists(st.sampled_from(ends), max_size=12))})
    scrapes = []
    for at in starts:
        took = draw(st.sampled_from([0.005, 0.005, 0.3]))
        seen = at + took * draw(st.sampled_from([0, 1]))
        values = dict.fromkeys(
            ("prompt_tokens", "cached_tokens", "output_tokens", "ttft_seconds", "decode_seconds"), 0.0
        )
        values["finished_requests"] = 0.0
        for when, parts in counted:
            if when <= seen:
                for name, value in parts.items():
                    values[name] += value
        scrapes.append(reading(at, took=took, **values))
    return records, scrapes, late


NAMES = ("prompt_tokens", "cached_tokens", "output_tokens", "ttft_seconds", "decode_seconds", "finished_requests")


@settings(max_examples=400)
@given(traffic())
def test_no_request_gets_what_is_anothers(made):
    records, scrapes, late = made
    told = attribute(records, scrapes, profile_of(*NAMES, late=late))
    assert len(told) == len(records)
    for record, mine in zip(records, told, strict=True):
        assert (mine.ttft_seconds, mine.decode_seconds) in [
            (None, None),
            (2.0**record.index, 2 * 2.0**record.index),
        ]
        assert mine.ttft_seconds is not None or mine.reason


@given(st.integers(1, 6), st.sampled_from([0.0, 2.0]))
def test_one_request_at_a_time_with_a_reading_between_is_always_told(count, late):
    records = [request(index, 10 * index + 1, 10 * index + 5) for index in range(count)]
    scrapes = [reading(10 * index, **grown(index)) for index in range(count + 1)]
    told = attribute(records, scrapes, profile_of(late=late))
    assert [one.ttft_seconds for one in told] == [0.5] * count


# --- from a log ---

SUMMARY = EngineSummary(
    engine_process=1,
    order=0,
    line=7,
    response_id=None,
    prompt_tokens=10,
    cached_tokens=4,
    output_tokens=5,
    drafted_tokens=8,
    accepted_tokens=3,
    ttft_seconds=0.5,
    prefill_seconds=None,
    decode_seconds=1.5,
    queue_seconds=None,
)


def test_a_matched_summary_gives_what_is_missing():
    [told] = attribute_summaries([request(0, 1, 3)], {(1, 0): SUMMARY}, profile_of())
    assert (told.ttft_seconds, told.decode_seconds, told.source) == (0.5, 1.5, "engine-log")
    assert (told.drafted_tokens, told.accepted_tokens, told.draft_source) == (8, 3, "engine-log")
    assert told.reason is None
    timed = request(0, 1, 3, ttft_seconds=0.1, source="engine-counter")
    [told] = attribute_summaries([timed], {(1, 0): SUMMARY}, profile_of())
    assert (told.ttft_seconds, told.decode_seconds, told.source) == (0.1, None, "engine-counter")
    assert told.draft_source == "engine-log"


def test_a_summary_with_other_counts_gives_nothing():
    record = request(0, 1, 3, output_tokens=6)
    [told] = attribute_summaries([record], {(1, 0): SUMMARY}, profile_of())
    assert told == replace(record, reason=f"{record.reason}; engine log: line 7 says output_tokens 5, the response 6")


def test_requests_without_a_summary_and_failed_ones_stay():
    records = (request(0, 1, 3), request(1, 4, 5, error="HTTP 500"))
    assert attribute_summaries(records, {(1, 1): SUMMARY}, profile_of()) == records
