from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.matching import match_claims, match_claims_to_summaries, match_requests, match_summaries
from bench.records.schema import EngineSummary, RequestRecord, UsageRecord


def request(session=1, index=0, response_id=None, error=None, *, counts=None, at=None, process=1):
    values = dict.fromkeys(RequestRecord.__dataclass_fields__)
    begin, end = at or (float(index), index + 0.5)
    values |= {"session": session, "index": index, "response_id": response_id, "error": error}
    values |= {"sent_at": begin, "ended_at": end, "engine_process": process}
    values |= dict(zip(("prompt_tokens", "output_tokens", "cached_tokens"), counts or (None,) * 3, strict=True))
    return RequestRecord(**values)


def claim(session=1, index=0, response_id=None, error=None, *, counts=None, stop=None):
    values = dict.fromkeys(UsageRecord.__dataclass_fields__)
    values |= {"session": session, "index": index, "response_id": response_id, "error": error, "stop_reason": stop}
    if counts:
        prompt, output, cached = counts
        values |= {"input_tokens": prompt - cached, "output_tokens": output, "cached_tokens": cached}
    return UsageRecord(**values)


def summary(order, counts=None, response_id=None, *, process=1):
    values = dict.fromkeys(EngineSummary.__dataclass_fields__)
    values |= {"engine_process": process, "order": order, "line": order + 1, "response_id": response_id}
    values |= dict(zip(("prompt_tokens", "output_tokens", "cached_tokens"), counts or (None,) * 3, strict=True))
    return EngineSummary(**values)


A, B, C = (1_000, 50, 0), (1_200, 51, 992), (1_400, 52, 1_192)


def pairs(matching):
    return {key: (one.engine_process, one.order) for key, one in matching.summaries.items()}


# --- relay and agent -----------------------------------------------------------------------------------------------


def test_ids_first_and_what_stands_alone_has_a_reason():
    requests = [request(1, 0, "a"), request(1, 1, "b"), request(2, 0, "a"), request(2, 1, None, "reset: x")]
    usage = [claim(1, 0, "b"), claim(1, 1, "c"), claim(2, 0, "a"), claim(2, 1, None, "503")]
    matches = match_requests(requests, usage)
    assert [(m.session, m.request_index, m.usage_index) for m in matches if m.how == "response-id"] == [
        (1, 1, 0),
        (2, 0, 0),
    ]
    assert {(m.session, m.request_index, m.usage_index): m.reason for m in matches if m.how == "unmatched"} == {
        (1, 0, None): "no token counts: the answer has none",
        (2, 1, None): "error response: reset: x",
        (1, None, 1): "no token counts: the agent gives none",
        (2, None, 1): "error response: 503",
    }


def test_an_id_that_occurs_twice_proves_nothing():
    matching = match_claims([request(1, 0, "a"), request(1, 1, "a")], [claim(1, 0, "a")])
    assert {match.how for match in matching.matches} == {"unmatched"}
    assert matching.unassigned == {"ambiguous": 3}


def test_an_agent_without_ids_is_matched_by_counts_within_a_session():
    requests = [request(1, 0, "x", counts=A), request(1, 1, "y", counts=B), request(2, 0, "z", counts=A)]
    usage = [claim(1, 0, counts=A), claim(1, 1, counts=B), claim(2, 0, counts=A), claim(3, 0, counts=A)]
    matching = match_claims(requests, usage)
    assert [(m.session, m.request_index, m.usage_index, m.how) for m in matching.matches[:3]] == [
        (1, 0, 0, "forced-order"),
        (1, 1, 1, "forced-order"),
        (2, 0, 0, "forced-order"),
    ]
    assert [match.reason for match in matching.matches[3:]] == ["the relay saw no such response"]


def test_with_the_same_ids_on_both_sides_counts_are_not_asked():
    requests = [request(1, 0, "x", counts=A), request(1, 1, "b", counts=B)]
    matching = match_claims(requests, [claim(1, 0, "y", counts=A), claim(1, 1, "b", counts=B)])
    assert [match.how for match in matching.matches] == ["response-id", "unmatched", "unmatched"]


def test_ids_that_the_other_side_does_not_know_at_all_say_nothing():
    told = [summary(0, A, "log-1"), summary(1, B, "log-2")]
    matching = match_summaries([request(1, 0, "x", counts=A), request(1, 1, "y", counts=B)], told)
    assert {match.how for match in matching.matches} == {"forced-order"}


def test_a_retried_error_and_an_abort_are_told_apart():
    usage = [claim(1, 0, None, "503"), claim(1, 1, None, "gone", stop="aborted"), claim(1, 2, None, "503")]
    matching = match_claims([request(1, 0, None, "aborted: the agent hung up")], usage)
    assert matching.unassigned == {
        "aborted": 1,
        "error response, retried": 1,
        "aborted, retried": 1,
        "error response": 1,
    }


IDS = st.lists(
    st.tuples(st.integers(1, 2), st.none() | st.sampled_from("abc"), st.sampled_from((A, B, None))), max_size=7
)


@given(IDS, IDS)
def test_everything_is_listed_exactly_once(left, right):
    requests = [request(session, index, name, counts=key) for index, (session, name, key) in enumerate(left)]
    usage = [claim(session, index, name, counts=key) for index, (session, name, key) in enumerate(right)]
    matches = match_requests(requests, usage)
    assert sorted(m.request_index for m in matches if m.request_index is not None) == list(range(len(left)))
    assert sorted(m.usage_index for m in matches if m.usage_index is not None) == list(range(len(right)))
    for match in matches:
        if match.how == "unmatched":
            assert match.reason
            continue
        seen, said = left[match.request_index], right[match.usage_index]
        assert seen[0] == said[0] == match.session
        assert seen[1] == said[1] if match.how == "response-id" else seen[2] == said[2]


# --- relay and engine ----------------------------------------------------------------------------------------------


def test_requests_and_summaries_of_one_process():
    requests = [
        request(0, 0, counts=(20, 1, 0), at=(0, 1)),
        request(1, 0, counts=A, at=(2, 3)),
        request(1, 1, counts=B, at=(4, 5)),
        request(1, 2, counts=A, at=(2, 3), process=2),
        request(1, 3, None, "aborted: the agent hung up", at=(6, 7)),
        request(1, 4, counts=C, at=(8, 9)),
    ]
    told = [summary(0, (20, 1, 0)), summary(1, A), summary(2, (9, 9, 0)), summary(3, B), summary(0, A, process=2)]
    matching = match_summaries(requests, told)
    assert pairs(matching) == {(0, 0): (1, 0), (1, 0): (1, 1), (1, 1): (1, 3), (1, 2): (2, 0)}
    assert matching.unassigned_summaries == {"another client": 1}
    assert matching.unassigned_others == {"aborted": 1, "the engine's log has no such summary": 1}


def test_where_summaries_stand_says_what_they_may_be():
    told = [
        summary(0, A, process=1),
        summary(0, (20, 1, 0), process=2),
        summary(1, A, process=2),
        summary(2, (20, 1, 0), process=2),
        summary(3, B, process=2),
        summary(4, (21, 2, 0), process=2),
        summary(5, None, process=2),
    ]
    matching = match_claims_to_summaries(
        [claim(1, 0, counts=A), claim(2, 0, counts=B)], told, segment_of=lambda session: session
    )
    assert matching.unassigned_others == {"ambiguous": 1}  # two launches have its counts, and it may be of either
    assert pairs(matching) == {(2, 0): (2, 4 - 1)}
    kinds = {one.summary.order: one.reason.partition(":")[0] for one in matching.matches if one.session is None}
    assert kinds == {
        0: "before the first request",
        1: "ambiguous",
        2: "before the first request",
        4: "after the last request",
        5: "no token counts",
    }


def test_a_launch_without_a_match_served_no_session():
    told = [
        summary(0, C, process=1),
        summary(0, A, process=2),
        summary(1, (5, 5, 0), process=2),
        summary(2, B, process=2),
    ]
    matching = match_claims_to_summaries([claim(1, 0, counts=A), claim(1, 1, counts=B)], told)
    assert pairs(matching) == {(1, 0): (2, 0), (1, 1): (2, 2)}
    assert matching.unassigned_summaries == {"another launch": 1, "another client": 1}


def test_repeated_keys_are_counted_and_unequal_ones_refused():
    told = [summary(place, key) for place, key in enumerate((A, B, A, B, C, C))]
    usage = [claim(1, place, counts=key) for place, key in enumerate((A, B, A, B, C))]
    matching = match_claims_to_summaries(usage, told)
    assert matching.repeated_keys == 2
    assert len(matching.summaries) == 4
    assert matching.unassigned_others == {"ambiguous": 1}
    assert matching.unassigned_summaries == {"ambiguous": 2}


def test_where_a_side_tells_no_cached_tokens_prompt_and_output_must_do():
    told = [summary(0, (1_000, 50, None)), summary(1, (1_200, 51, None))]
    assert len(match_summaries([request(1, 0, counts=A), request(1, 1, counts=B)], told).summaries) == 2


def test_ids_of_a_log_win():
    told = [summary(0, A, "two"), summary(1, A, "one")]
    matching = match_summaries([request(1, 0, "one", counts=A), request(1, 1, "two", counts=A)], told)
    assert pairs(matching) == {(1, 0): (1, 1), (1, 1): (1, 0)}
    assert {match.how for match in matching.matches} == {"response-id"}


# --- requests that overlapped --------------------------------------------------------------------------------------


def test_ends_that_crossed_while_requests_overlapped_are_no_contradiction():
    requests = [request(1, 0, counts=A, at=(0, 5.0)), request(2, 0, counts=B, at=(1, 5.001))]
    assert len(match_summaries(requests, [summary(0, B), summary(1, A)]).summaries) == 2


def test_ends_that_crossed_although_one_was_over_before_the_other_began_are():
    requests = [request(1, 0, counts=A, at=(0, 1)), request(1, 1, counts=B, at=(2, 3))]
    matching = match_summaries(requests, [summary(0, B), summary(1, A)])
    assert matching.summaries == {}
    assert matching.unassigned_others == {"ambiguous": 2}


def test_equal_counts_of_overlapping_requests_are_ambiguous():
    requests = [request(1, 0, counts=A, at=(0, 5)), request(2, 0, counts=A, at=(1, 6))]
    assert match_summaries(requests, [summary(0, A), summary(1, A)]).summaries == {}
    apart = [request(1, 0, counts=A, at=(0, 5)), request(2, 0, counts=A, at=(5, 6))]
    assert pairs(match_summaries(apart, [summary(0, A), summary(1, A)])) == {(1, 0): (1, 0), (2, 0): (1, 1)}


@st.composite
def served(draw):
    """Requests with a truth: which summary is whose. Some overlap, some summaries are another client's, some are lost."""
    count = draw(st.integers(0, 7))
    clock, requests, truth, log = 0.0, [], {}, []
    for index in range(count):
        begin = clock + draw(st.sampled_from((-1.2, -0.4, 0.1)))
        clock = max(clock, begin) + draw(st.sampled_from((0.3, 1.0)))
        counts = (draw(st.integers(1, 3)) * 100, draw(st.integers(1, 2)), 0)
        requests.append(request(1, index, counts=counts, at=(begin, clock)))
        # The engine may write down what ended a moment later first, as long as the two ran side by side.
        log.append((clock + draw(st.sampled_from((0.0, -0.29))), index, counts))
    others = draw(st.lists(st.floats(0, max(clock, 1)), max_size=2))
    log += [(at, None, (900 + place, 1, 0)) for place, at in enumerate(others)]
    log.sort(key=lambda line: line[0])
    lost = draw(st.sets(st.integers(0, 6), max_size=1))
    kept = [line for line in log if line[1] not in lost]
    for order, (_, index, _) in enumerate(kept):
        if index is not None:
            truth[1, index] = order
    return requests, [summary(order, counts) for order, (_, _, counts) in enumerate(kept)], truth, lost


@given(served())
def test_no_pair_is_wrong_whatever_overlaps(case):
    requests, summaries, truth, lost = case
    matching = match_summaries(requests, summaries)
    if not lost:  # where a summary is lost, another one of its counts may stand for it
        for key, one in matching.summaries.items():
            assert one.order == truth[key]
    everyone = Counter(match.summary.order for match in matching.matches if match.summary is not None)
    assert everyone == Counter(range(len(summaries)))
    assert sorted(m.index for m in matching.matches if m.index is not None) == list(range(len(requests)))


@pytest.mark.parametrize("count", [3, 400])
def test_sessions_side_by_side_are_matched_by_their_instants(count):
    usage = [claim(place % 3, place // 3, counts=(1_000 + place, 5, 0)) for place in range(count)]
    spans = [(place - 1.5, float(place)) for place in range(count)]
    told = [summary(order, (1_000 + (order ^ 1 if order ^ 1 < count else order), 5, 0)) for order in range(count)]
    assert len(match_claims_to_summaries(usage, told, spans=spans).summaries) == count
