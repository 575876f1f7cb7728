from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.measure.matching import match_requests
from bench.records.schema import RequestRecord, UsageRecord


def request(session, index, response_id, error=None):
    names = RequestRecord.__dataclass_fields__
    values = dict.fromkeys(names, None)
    values |= {"session": session, "index": index, "response_id": response_id, "error": error, "sent_at": 0.0}
    return RequestRecord(**values)


def claim(session, index, response_id, error=None):
    values = dict.fromkeys(UsageRecord.__dataclass_fields__, None)
    return UsageRecord(**{**values, "session": session, "index": index, "response_id": response_id, "error": error})


def test_pairs_and_leftovers():
    requests = [request(1, 0, "a"), request(1, 1, "b"), request(2, 0, "a"), request(2, 1, None, "reset: x")]
    usage = [claim(1, 0, "b"), claim(1, 1, "c"), claim(2, 0, "a"), claim(2, 1, None)]
    matches = match_requests(requests, usage)
    assert [(m.session, m.request_index, m.usage_index) for m in matches if m.how == "response-id"] == [
        (1, 1, 0),
        (2, 0, 0),
    ]
    assert {(m.session, m.request_index, m.usage_index): m.reason for m in matches if m.how == "unmatched"} == {
        (1, 0, None): "the agent claims no response with this id",
        (2, 1, None): "no response id: reset: x",
        (1, None, 1): "no request of this session was answered with this id",
        (2, None, 1): "no response id",
    }


def test_an_id_that_occurs_twice_proves_nothing():
    matches = match_requests([request(1, 0, "a"), request(1, 1, "a")], [claim(1, 0, "a")])
    assert {match.how for match in matches} == {"unmatched"}
    assert matches[0].reason == "the id occurs 2 times at the relay and 1 times at the agent"


IDS = st.lists(st.tuples(st.integers(1, 2), st.none() | st.sampled_from("abc")), max_size=8)


@given(IDS, IDS)
def test_everything_is_listed_exactly_once(left, right):
    requests = [request(session, index, name) for index, (session, name) in enumerate(left)]
    usage = [claim(session, index, name) for index, (session, name) in enumerate(right)]
    matches = match_requests(requests, usage)
    assert sorted(m.request_index for m in matches if m.request_index is not None) == list(range(len(left)))
    assert sorted(m.usage_index for m in matches if m.usage_index is not None) == list(range(len(right)))
    for match in matches:
        if match.how == "response-id":
            assert left[match.request_index] == right[match.usage_index]
        else:
            assert match.reason
