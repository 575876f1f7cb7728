"""Differences between agent, relay and engine are said in words, bounded and tame."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.adapters import AgentEvents
from bench.figures.compute import compute
from bench.figures.run_evidence import Evidence
from bench.figures.stream_warnings import event_warnings, stream_warnings
from bench.records.schema import JournalEntry

EVENTS = AgentEvents(
    usage=(), requests=0, tool_calls=0, compactions=0, final_text="", end="done", end_detail="", damage=None
)


@pytest.fixture
def warnings(profile, segment_of, session_of):
    def said(**parts):
        given = {"profile": profile, "segments": (segment_of(1, 0.0, 60.0),), "sessions": (session_of(),), **parts}
        evidence = Evidence(**given)
        return stream_warnings(evidence, compute(evidence))

    return said


def both(request_of, claim_of, index, *, prompt=100, output=10, said=None, session=1):
    name = f"r{session}-{index}"
    return (
        request_of(session=session, index=index, response_id=name, prompt_tokens=prompt, output_tokens=output),
        claim_of(
            session=session,
            index=index,
            response_id=name,
            input_tokens=prompt if said is None else said,
            cached_tokens=0,
            output_tokens=output,
        ),
    )


def test_streams_that_agree_say_nothing(warnings, request_of, claim_of):
    pairs = [both(request_of, claim_of, index) for index in range(3)]
    failed = request_of(index=3, error="HTTP 500"), claim_of(index=3, error="500")
    requests, claims = zip(*pairs, failed, strict=True)
    assert warnings(requests=requests, usage=claims, retries=0, compactions=0) == ()


def test_where_counts_disagree_is_named_five_times_and_then_counted(warnings, request_of, claim_of):
    requests, claims = zip(*(both(request_of, claim_of, n, said=99) for n in range(7)), strict=True)
    first, second = warnings(requests=requests, usage=claims)
    assert first.startswith(
        "responses with other token counts at the relay than the agent claims: 7; session 001, request 0: "
        "100 prompt and 10 output tokens seen, 99 and 10 claimed; session 001, request 1"
    )
    assert first.endswith("; and 2 more")
    assert first.count("request ") == 5
    assert second == "7 tokens lie between the agent's claims and what passed the relay"


def test_what_stands_alone_is_told_by_kind(warnings, request_of, claim_of):
    requests = (
        request_of(index=0, response_id="a", prompt_tokens=5, output_tokens=1),
        *(request_of(index=n, error="HTTP 503") for n in (1, 2, 3)),
    )
    claims = (claim_of(index=0, response_id="b", input_tokens=7, cached_tokens=0, output_tokens=1),)
    claims += (claim_of(index=1, error="503", stop_reason="error"),)
    lonely, claimed, residual = warnings(requests=requests, usage=claims)
    assert lonely == (
        "requests without a claim of the agent: 3, of these error response (2); the agent claims no such response (1); "
        "sessions 001"
    )
    assert claimed.startswith("claims of the agent without a request at the relay: 1, of these ")
    assert residual.startswith("14 tokens lie between the agent's claims and what passed the relay")


def test_answers_of_an_agent_that_gives_no_counts_are_only_counted(warnings, figures, request_of, claim_of):
    """aider: its counts are estimates. What one side tells more often than the other is said all the same."""
    requests = tuple(request_of(index=n, response_id=f"r{n}", prompt_tokens=500, output_tokens=9) for n in range(3))
    claims = tuple(claim_of(index=n) for n in range(3))
    assert warnings(requests=requests, usage=claims) == ()
    (more,) = warnings(requests=requests, usage=claims[:2])
    assert more.startswith("requests without a claim of the agent: 1, of these the agent claims no such response (1)")
    (fewer,) = warnings(requests=requests[:2], usage=claims)
    assert fewer.startswith("claims of the agent without a request at the relay: 1")
    elsewhere = tuple(replace(one, session=2) for one in claims)
    assert len(warnings(requests=requests, usage=elsewhere)) == 2
    found = figures(requests=requests, usage=claims)
    for name in ("residual_agent_relay_tokens", "residual_agent_engine_tokens"):
        assert (found[name].value, found[name].reason) == (None, "the agent gives no token counts")


def test_a_claim_without_counts_beside_others_stands_alone(warnings, request_of, claim_of):
    requests = tuple(request_of(index=n, response_id=f"r{n}", prompt_tokens=500, output_tokens=9) for n in range(2))
    counted = claim_of(response_id="r0", input_tokens=500, cached_tokens=0, output_tokens=9)
    lonely, claimed, residual = warnings(requests=requests, usage=(counted, claim_of(index=1)))
    assert (lonely.split(":")[0], claimed.split(":")[0]) == (
        "requests without a claim of the agent",
        "claims of the agent without a request at the relay",
    )
    assert residual.startswith("509 tokens lie between")


def test_an_agent_that_was_ended_need_not_tell_of_what_it_broke_off(warnings, request_of, session_of):
    requests = (request_of(error="aborted: the client went away before the answer's end"),)
    assert warnings(requests=requests, sessions=(session_of(outcome="limit"),)) == ()
    assert len(warnings(requests=requests)) == 1


def test_retries_and_summaries_that_only_one_side_knows(warnings, request_of, claim_of):
    requests, claims = zip(*(both(request_of, claim_of, n) for n in range(4)), strict=True)
    requests = (requests[0], *(replace(one, purpose="retry") for one in requests[1:3]), requests[3])
    assert warnings(requests=requests, usage=claims, retries=1, compactions=2) == (
        "requests asked again: 2 at the relay, 1 in the agent's words",
        "summaries of the conversation: 0 requests at the relay, 2 compactions in the agent's words",
    )
    assert warnings(requests=requests, usage=claims) == ()


def test_no_relay_no_words(warnings, request_of):
    assert warnings(requests=(request_of(prompt_tokens=5),), counted_by="engine-log") == ()


def test_events_that_nobody_knows_are_loud():
    unknown = {"new_kind": 12, "\x1b[31mred\n": 3, **{f"k{n}": 1 for n in range(9)}}
    (said,) = event_warnings({1: replace(EVENTS, unknown=unknown), 2: replace(EVENTS, unknown={"new_kind": 1})})
    assert said.startswith("events of the agent that its adapter does not know: 25; new_kind (13); ")
    assert said.endswith("; and 6 more; figures of the agent may lack something")
    assert said.isprintable()


def test_a_session_file_that_differs_is_named_with_its_session():
    differences = ("Pi's session file holds 3 responses, its event stream 4",)
    (said,) = event_warnings({7: replace(EVENTS, differences=differences), 8: EVENTS})
    assert said == (
        "the agent's session files and its event stream differ: session 007: "
        "Pi's session file holds 3 responses, its event stream 4"
    )
    assert event_warnings({1: EVENTS}) == ()


@given(st.dictionaries(st.text(max_size=2_000), st.integers(1, 9), max_size=30), st.lists(st.text(), max_size=30))
def test_whatever_an_agent_wrote_is_short_and_printable(unknown, differences):
    for said in event_warnings({1: replace(EVENTS, unknown=unknown, differences=tuple(differences))}):
        assert len(said) < 2_000
        assert "\n" not in said
        assert "\x1b" not in said
        said.encode()


@pytest.mark.parametrize(
    ("allowed", "said"), [(300, ("answers over the limit of 300 output tokens: 1, the longest of 1,444",)), (1444, ())]
)
def test_an_answer_over_the_limit_is_said(warnings, request_of, claim_of, allowed, said):
    pairs = [both(request_of, claim_of, index, output=output) for index, output in enumerate((300, 1444))]
    requests, claims = zip(*pairs, strict=True)
    opened = JournalEntry(
        seq=1,
        event="segment-started",
        at=0.0,
        detail={"configuration": {"limits": {"output_tokens_per_request": allowed}}},
    )
    assert warnings(requests=requests, usage=claims, retries=0, compactions=0, journal=(opened,)) == said
