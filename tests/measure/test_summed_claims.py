"""Claims for compactions name no response: their place and their sums must do."""

from __future__ import annotations

from bench.measure.matching import match_claims
from bench.records.schema import RequestRecord, UsageRecord


def request(index, name, prompt, output, *, purpose="turn", error=None):
    values = dict.fromkeys(RequestRecord.__dataclass_fields__)
    values |= {"session": 1, "index": index, "response_id": name, "purpose": purpose, "error": error}
    values |= {"sent_at": float(index), "ended_at": index + 0.5, "prompt_tokens": prompt, "output_tokens": output}
    return RequestRecord(**values)


def claim(index, name, prompt, output, *, stop=None, cached=0):
    values = dict.fromkeys(UsageRecord.__dataclass_fields__)
    values |= {"session": 1, "index": index, "response_id": name, "stop_reason": stop}
    fresh = None if prompt is None else prompt - cached
    values |= {"input_tokens": fresh, "cached_tokens": cached, "output_tokens": output}
    return UsageRecord(**values)


def told(requests, claims):
    return [
        (one.request_index, one.usage_index, one.how, one.reason)
        for one in match_claims(requests, claims).matches
        if one.how != "response-id"
    ]


FIRST, LAST = request(0, "a", 900, 9), request(9, "z", 300, 3)
SAID_FIRST, SAID_LAST = claim(0, "a", 900, 9), claim(9, "z", 300, 3)


def test_one_summary_between_two_responses_is_the_one_that_is_meant():
    requests = [FIRST, request(1, "b", 700, 70, purpose="compaction"), LAST]
    claims = [SAID_FIRST, claim(1, None, 700, 70, stop="compaction", cached=64), SAID_LAST]
    assert told(requests, claims) == [(1, 1, "forced-order", None)]
    claims[1] = claim(1, None, 650, 70, stop="compaction")
    assert told(requests, claims) == [(1, 1, "forced-order", None)]


def test_a_claim_that_sums_two_calls_up_takes_both():
    requests = [
        FIRST,
        request(1, "b", 0, 0, purpose="compaction", error="HTTP 503"),
        request(2, "c", 700, 70, purpose="retry"),
        request(3, "d", 400, 40, purpose="compaction"),
        LAST,
    ]
    claims = [SAID_FIRST, claim(1, None, 1_100, 110, stop="compaction"), SAID_LAST]
    assert told(requests, claims) == [
        (2, 1, "summed", None),
        (3, 1, "summed", None),
        (1, None, "unmatched", "error response: HTTP 503"),
    ]


def test_two_claims_share_the_calls_out_in_their_order():
    requests = [
        FIRST,
        *(request(n, f"c{n}", 100 * n, n, purpose="compaction") for n in range(1, 4)),
    ]
    claims = [
        SAID_FIRST,
        claim(1, None, 300, 3, stop="compaction"),
        claim(2, None, 300, 3, stop="compaction"),
    ]
    assert told(requests, claims) == [
        (1, 1, "summed", None),
        (2, 1, "summed", None),
        (3, 2, "forced-order", None),
    ]


def test_what_is_no_sum_stands_alone_and_says_so():
    requests = [
        FIRST,
        request(1, "b", 700, 70, purpose="compaction"),
        request(2, "c", 400, 40, purpose="compaction"),
        LAST,
    ]
    why = "compaction: its counts are no sum of the 2 compaction requests there"
    claims = [SAID_FIRST, claim(1, None, 1_000, 110, stop="compaction"), SAID_LAST]
    assert told(requests, claims)[-1] == (None, 1, "unmatched", why)
    silent = [SAID_FIRST, claim(1, None, None, None, stop="compaction"), SAID_LAST]
    assert [one[2] for one in told(requests, silent)] == ["unmatched"] * 3


def test_a_summary_on_the_other_side_of_a_response_is_not_meant():
    requests = [FIRST, request(1, "b", 700, 70, purpose="compaction"), LAST]
    claims = [SAID_FIRST, SAID_LAST, claim(10, None, 700, 70, stop="compaction")]
    assert told(requests, claims) == [
        (1, None, "unmatched", "the agent claims no such response"),
        (None, 10, "unmatched", "compaction: the relay saw no such request there"),
    ]


def test_a_claim_of_another_kind_takes_no_summary():
    requests = [FIRST, request(1, "b", 700, 70, purpose="compaction"), LAST]
    claims = [SAID_FIRST, claim(1, None, 700, 70, stop="branch-summary"), SAID_LAST]
    assert {one[2] for one in told(requests, claims)} == {"unmatched"}
