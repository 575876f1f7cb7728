"""What an agent says of cached tokens where the engine tells none: vLLM's default, seen by relay, Pi and mini-swe-agent."""

from __future__ import annotations

import json

import pytest

from bench.agents.mini_events import TRAJECTORY_FILE
from bench.agents.mini_events import read_events as read_mini
from bench.agents.pi_events import read_pi_events
from bench.contracts import SessionLabel
from bench.figures.gather import gather_requests
from bench.measure.exchange_line import Exchange, encode_line
from bench.records.schema import Scrape

LABEL = SessionLabel(run_id="r", session=1, role="builder", task=None, attempt=1, retry=0)
SILENT = {"prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": None}
TELLING = {"prompt_tokens": 300, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}


def answer(index, usage):
    return {
        "id": f"chatcmpl-{index}",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
        "usage": usage,
    }


def exchange(index, usage):
    response = json.dumps(answer(index, usage)).encode()
    asked = {"messages": [{"role": "user", "content": f"Question {index}"}], "tools": [{}]}
    return Exchange(
        label=LABEL,
        index=index,
        engine_process=1,
        method="POST",
        path="/v1/chat/completions",
        status=200,
        streamed=False,
        started_at=1.0,
        sent_at=1.0,
        first_byte_at=1.5,
        ended_at=2.0 + index,
        fault=None,
        request=json.dumps(asked).encode(),
        response=response,
        response_bytes=len(response),
        redacted=False,
        arrivals=(),
    )


def pi_message(index, usage):
    """Pi writes 0 where the engine tells no cached count."""
    counts = {
        "input": usage["prompt_tokens"],
        "output": usage["completion_tokens"],
        "cacheRead": 0,
        "cacheWrite": 0,
        "reasoning": 0,
    }
    content = [{"type": "text", "text": "Done."}]
    return {
        "type": "message_end",
        "message": {
            "role": "assistant",
            "content": content,
            "usage": counts,
            "stopReason": "stop",
            "responseId": f"chatcmpl-{index}",
        },
    }


@pytest.fixture
def asked(tmp_path, profile):
    """The relay's records of answers with these usages."""

    def records(*usages):
        lines, before = b"", b""
        for index, usage in enumerate(usages):
            one = exchange(index, usage)
            lines += encode_line(one, before=before)
            before = one.request
        (tmp_path / "exchanges.jsonl").write_bytes(lines)
        return gather_requests([tmp_path], profile, warn=pytest.fail).requests

    return records


@pytest.fixture
def told_by(tmp_path):
    """What an agent claims of the same answers, through its own reader."""

    def claims(agent, *usages):
        if agent == "pi":
            events = [pi_message(index, usage) for index, usage in enumerate(usages)] + [{"type": "agent_settled"}]
            (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
            return read_pi_events(tmp_path, 1).usage
        said = [
            {"role": "assistant", "content": "Done.", "extra": {"response": answer(index, usage)}}
            for index, usage in enumerate(usages)
        ]
        (tmp_path / TRAJECTORY_FILE).write_text(json.dumps({"messages": said}))
        return read_mini(tmp_path, 1).usage

    return claims


@pytest.mark.parametrize("agent", ["pi", "mini-swe-agent"])
def test_a_cached_count_that_no_answer_told_is_null_whoever_was_asked(asked, told_by, figures, agent):
    found = figures(requests=asked(SILENT, SILENT), usage=told_by(agent, SILENT, SILENT))
    for name in ("cached_input_tokens", "fresh_input_tokens"):
        assert found[name].value is None
        assert found[name].reason.startswith("reported by none of 2 responses")
    assert found["output_tokens"].value == 40
    assert found["requests_without_cached"].value == 2
    assert found["matched_requests"].value == 2
    assert found["residual_agent_relay_tokens"].value == 0


def test_how_many_do_not_tell_stands_beside_the_sum(asked, told_by, figures):
    usages = (SILENT, TELLING)
    found = figures(requests=asked(*usages), usage=told_by("pi", *usages))
    assert (found["fresh_input_tokens"].value, found["cached_input_tokens"].value) == (300, 0)
    for name in ("cached_input_tokens", "fresh_input_tokens"):
        assert found[name].includes == (
            "not reported by 1 of 2 responses; 1 answers told no cached count, for which the agent writes 0"
        )


def test_the_whole_prompt_is_compared_all_the_same(asked, told_by, figures):
    short = {**SILENT, "prompt_tokens": 900}
    found = figures(requests=asked(SILENT), usage=told_by("pi", short))
    assert (found["residual_agent_relay_tokens"].value, found["fresh_input_tokens"].value) == (100, None)


def test_what_the_engine_computed_is_not_held_against_a_prompt_of_which_no_split_is_known(asked, told_by, figures):
    """Its prefix cache had 900 of the 1000 tokens, of which nobody told."""
    grown = [
        Scrape(
            engine_process=1,
            asked_at=at,
            answered_at=at,
            values={"computed_prompt_tokens": prompt, "output_tokens": output},
            problem=None,
        )
        for at, prompt, output in ((0.0, 0, 0), (9.0, 100, 20))
    ]
    found = figures(requests=asked(SILENT), usage=told_by("pi", SILENT), scrapes=tuple(grown))
    residual = found["residual_agent_engine_tokens"]
    assert residual.value == 0
    assert residual.includes == "output tokens only: 1 of 1 responses tell no fresh input"


def test_a_claim_that_stands_alone_is_judged_by_its_session(asked, claim_of, figures):
    alone = claim_of(response_id="other", input_tokens=7, cached_tokens=0, output_tokens=1)
    assert figures(requests=asked(SILENT), usage=(alone,))["cached_input_tokens"].value is None
    assert figures(requests=asked(TELLING), usage=(alone,))["cached_input_tokens"].value == 0
    assert figures(requests=(), usage=(alone,))["cached_input_tokens"].value == 0


def test_without_a_relay_the_agents_word_stands(claim_of, request_of, figures):
    claim = claim_of(response_id="a", input_tokens=7, cached_tokens=0, output_tokens=1)
    request = request_of(response_id="a", prompt_tokens=7, output_tokens=1)
    found = figures(requests=(request,), usage=(claim,), counted_by="engine-log")
    assert (found["cached_input_tokens"].value, found["fresh_input_tokens"].value) == (0, 7)
