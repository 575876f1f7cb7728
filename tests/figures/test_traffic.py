"""What were requests for, and which came to nothing: counts, their tokens, and reasons where nothing can be known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.figures.traffic_definitions import TRAFFIC_DEFINITIONS
from bench.records.schema import JournalEntry

IDS = [definition.id for definition in TRAFFIC_DEFINITIONS]


@pytest.fixture
def requests(request_of):
    return (
        request_of(prompt_tokens=100, output_tokens=10, finish_reason="tool_calls"),
        request_of(index=1, error="HTTP 503", status=503),
        request_of(index=2, prompt_tokens=100, output_tokens=4_096, finish_reason="length", purpose="retry"),
        request_of(index=3, prompt_tokens=50, output_tokens=5, purpose="side"),
        request_of(index=4, prompt_tokens=900, output_tokens=90, purpose="compaction"),
        request_of(index=5, output_tokens=30, purpose="compaction"),
        request_of(index=6, error="aborted: the client went away before the answer's end", prompt_tokens=120),
        request_of(index=7, error="the window holds 8192 tokens (type x)", status=400),
    )


def values(found):
    return {name: (found[name].value, found[name].n, found[name].includes) for name in IDS}


def test_purposes_and_failures_are_counted_with_their_tokens(figures, requests, profile, session_of):
    profile = replace(profile, context_errors=(r"the window holds \d+ tokens",))
    found = figures(requests=requests, profile=profile, retries=1, sessions=(session_of(),))
    assert values(found) == {
        "retried_requests": (1, 8, "100 prompt and 4,096 output tokens"),
        "side_requests": (1, 8, "50 prompt and 5 output tokens"),
        "compaction_requests": (2, 8, "900 prompt and 120 output tokens; not reported by 1 of 2 of them in full"),
        "aborted_requests": (1, 8, "120 prompt and 0 output tokens; not reported by 1 of 1 of them in full"),
        "length_stops": (1, 5, "100 prompt and 4,096 output tokens"),
        "overflow_requests": (1, 8, None),
        "agent_retries": (1, 1, None),
        "tokens_on_failures": (120, 3, "5 of their 6 counts were not reported"),
    }


@pytest.mark.parametrize("reason", ["length", "max_tokens", "incomplete"])
def test_every_api_has_its_word_for_an_answer_that_was_cut(figures, request_of, reason):
    requests = (request_of(finish_reason=reason), request_of(index=1, finish_reason="stop"))
    assert figures(requests=requests)["length_stops"].value == 1


def test_prompts_are_held_against_the_window_that_their_segment_was_granted(figures, request_of, session_of):
    def begun(seq, window):
        configuration = {"engine": {"context_window": window}}
        return JournalEntry(seq=seq, event="segment-started", at=1.0, detail={"configuration": configuration})

    sessions = tuple(session_of(session=number, segment=number) for number in (1, 2, 3))
    requests = tuple(request_of(session=number, prompt_tokens=9_000) for number in (1, 2, 3))
    journal = (begun(0, 8_192), begun(1, 16_384), begun(2, None))
    figure = figures(requests=requests, sessions=sessions, journal=journal)["overflow_requests"]
    assert (figure.value, figure.n) == (1, 3)
    assert figure.includes == "1 of them were answered, their prompts reported longer than the window"


def test_nothing_is_known_where_nobody_looked(figures, request_of, claim_of):
    ingested = figures(requests=(request_of(),), usage=(claim_of(),), counted_by="engine-log")
    told = {name: ingested[name].reason for name in IDS}
    assert told.pop("agent_retries") == "the agent does not report its retries"
    assert set(told.values()) == {"no relay stood between agent and engine"}
    silent = figures(requests=())
    assert {silent[name].reason for name in IDS if name != "agent_retries"} == {"there was no request"}


def test_failures_that_report_no_token_are_not_0_tokens(figures, request_of):
    failed = (request_of(error="HTTP 503"), request_of(index=1, error="reset: x"))
    figure = figures(requests=failed)["tokens_on_failures"]
    assert (figure.value, figure.reason) == (None, "none of 2 failed requests reports a count")
    assert figures(requests=(request_of(),))["tokens_on_failures"].value == 0
