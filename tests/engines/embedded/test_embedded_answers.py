"""Whole answers over real sockets: every count that a client is told is the one of the truth log."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from bench.engines.embedded.tokeniser import tokenise

USER = {"role": "user", "content": "Build the totals program. " * 40}


def agrees(reply, line):
    """What the client was told against what was done."""
    usage, timings = reply.usage, reply.timings
    assert reply.body["id"] == line["response_id"]
    assert usage == {
        "prompt_tokens": line["prompt_tokens"],
        "completion_tokens": line["output_tokens"],
        "total_tokens": line["prompt_tokens"] + line["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": line["cached_tokens"]},
        "completion_tokens_details": {"reasoning_tokens": line["reasoning_tokens"]},
    }
    assert timings == {
        "queue_ms": pytest.approx(line["queue_seconds"] * 1e3),
        "ttft_ms": pytest.approx(line["ttft_seconds"] * 1e3),
        "prompt_n": line["prompt_tokens"] - line["cached_tokens"],
        "cache_n": line["cached_tokens"],
        "prompt_ms": pytest.approx(line["prefill_seconds"] * 1e3),
        "predicted_n": line["output_tokens"],
        "predicted_ms": pytest.approx(line["decode_seconds"] * 1e3),
        "draft_n": line["drafted_tokens"],
        "draft_n_accepted": line["accepted_tokens"],
    }
    assert reply.finish_reason == line["finish_reason"]
    assert line["output_tokens"] == 1 + line["decode_steps"] + line["accepted_tokens"]
    assert line["cached_tokens"] == line["cached_ram_tokens"] + line["cached_ssd_tokens"]
    assert line["received_at"] <= line["first_token_at"] <= line["ended_at"]
    assert not line["aborted"]


def visible_tokens(reply):
    texts = [reply.reasoning, reply.content, *(call["function"]["arguments"] for call in reply.calls)]
    return sum(len(tokenise(text)) for text in texts) + len(reply.calls)


def test_streamed_and_whole_answers_are_the_same(launch):
    streamed, whole = launch(), launch()
    first, second = streamed.ask([USER]), whole.ask([USER], stream=False)
    assert first.counts == second.counts
    assert (first.usage, first.timings) == (second.usage, second.timings)
    for engine, reply in ((streamed, first), (whole, second)):
        (line,) = engine.truth()
        agrees(reply, line)
    assert visible_tokens(first) == first.usage["completion_tokens"]
    assert len(tokenise(first.reasoning)) == first.usage["completion_tokens_details"]["reasoning_tokens"] > 0
    assert [call["function"]["name"] for call in first.calls] == ["write", "bash"]
    assert first.finish_reason == "tool_calls"


def test_one_chunk_carries_the_tokens_of_one_step(engine):
    reply = engine.ask([USER])
    (line,) = engine.truth()
    assert reply.events[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert len(reply.events) == line["chunks"] == 1 + (1 + line["decode_steps"]) + 2
    assert 0 < line["accepted_tokens"] < line["drafted_tokens"]


def test_without_asking_for_usage_there_is_none(used_engine):
    reply = used_engine.ask([USER], usage=False)
    assert reply.usage is None
    assert reply.timings["predicted_n"] == used_engine.truth()[-1]["output_tokens"]
    assert reply.events[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_without_drafts_each_step_gives_one_token(launch):
    engine = launch("--draft-tokens", "0")
    engine.ask([USER])
    (line,) = engine.truth()
    assert (line["drafted_tokens"], line["accepted_tokens"]) == (0, 0)
    assert line["decode_steps"] == line["output_tokens"] - 1


def test_a_session_from_its_first_turn_to_its_last(engine):
    messages = [USER]
    replies = []
    for _ in range(4):
        reply = engine.ask(messages)
        replies.append(reply)
        messages = [*messages, reply.message()]
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in reply.calls]
    assert [reply.finish_reason for reply in replies] == ["tool_calls", "tool_calls", "stop", "stop"]
    assert replies[2].content == "Both checks pass now."
    assert replies[3].content == "Nothing left to do."
    assert len({call["id"] for reply in replies for call in reply.calls}) == 4
    lines = engine.truth()
    assert [line["turn"] for line in lines] == [0, 1, 2, 3]
    for reply, line in zip(replies, lines, strict=True):
        agrees(reply, line)
    for before, after in pairwise(lines):
        # The whole state of the last request, in whole blocks, is found again.
        assert after["cached_tokens"] >= (before["prompt_tokens"] + before["output_tokens"]) // 64 * 64
        assert after["cached_tokens"] % 64 == 0


def test_history_without_reasoning_shares_the_last_prompt(engine):
    reply = engine.ask([USER])
    engine.ask([USER, reply.message(keep_reasoning=False)])
    before, after = engine.truth()
    assert after["cached_tokens"] == before["prompt_tokens"] // 64 * 64


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 17, 30, 45])
def test_max_tokens_cuts_at_the_exact_token(used_engine, stream, limit):
    whole = used_engine.ask([USER])
    cut = used_engine.ask([USER], max_tokens=limit, stream=stream)
    assert cut.finish_reason == "length"
    assert cut.usage["completion_tokens"] == limit == visible_tokens(cut)
    assert whole.reasoning.startswith(cut.reasoning)
    assert whole.content.startswith(cut.content)
    for full, part in zip(whole.calls, cut.calls, strict=False):
        assert full["function"]["arguments"].startswith(part["function"]["arguments"])
    agrees(cut, used_engine.truth()[-1])


def test_a_limit_that_is_not_reached_does_not_cut(used_engine):
    output = used_engine.ask([USER]).usage["completion_tokens"]
    assert used_engine.ask([USER], max_tokens=output).finish_reason == "tool_calls"
    assert used_engine.ask([USER], max_tokens=output - 1).finish_reason == "length"


def test_the_same_requests_in_the_same_order_give_the_same_counts(launch):
    def counts(engine):
        for task in ("T001", "T002", "T001"):
            engine.ask([USER], task=task)
        changing = ("response_id", "received_at", "first_token_at", "ended_at")
        return [{key: value for key, value in line.items() if key not in changing} for line in engine.truth()]

    assert counts(launch()) == counts(launch())


def test_acceptance_over_a_long_answer(used_engine):
    used_engine.ask([USER], task="T002")
    line = used_engine.truth()[-1]
    assert line["output_tokens"] > 4000
    assert 0.58 < line["accepted_tokens"] / line["drafted_tokens"] < 0.68


def test_where_only_a_shell_exists_everything_becomes_commands(used_engine):
    shell = {"type": "function", "function": {"name": "bash", "parameters": {"properties": {"command": {}}}}}
    reply = used_engine.ask([USER], tools=[shell])
    commands = [json.loads(call["function"]["arguments"])["command"] for call in reply.calls]
    assert commands[0].startswith("mkdir -p src && printf '%s' 'values = ")
    assert commands[1] == "python3 src/total.py | sort -n"


def test_without_tools_it_says_what_it_cannot_do(used_engine):
    reply = used_engine.ask([USER], tools=[])
    assert reply.finish_reason == "stop"
    assert reply.content.endswith(
        "No tool here can do this: write src/total.py\nNo tool here can do this: run python3 src/total.py | sort -n"
    )


def test_the_summary_line_of_the_log_says_the_same(engine):
    engine.ask([USER])
    (line,) = engine.truth()
    (text,) = [text for text in engine.log().splitlines() if " request id=" in text]
    said = dict(part.split("=", 1) for part in text.partition(" request ")[2].split(" "))
    assert said == {
        "id": line["response_id"],
        "prompt": str(line["prompt_tokens"]),
        "cached": str(line["cached_tokens"]),
        "output": str(line["output_tokens"]),
        "reasoning": str(line["reasoning_tokens"]),
        "drafted": str(line["drafted_tokens"]),
        "accepted": str(line["accepted_tokens"]),
        "queue_seconds": str(line["queue_seconds"]),
        "ttft_seconds": str(line["ttft_seconds"]),
        "prefill_seconds": str(line["prefill_seconds"]),
        "decode_seconds": str(line["decode_seconds"]),
        "finish": "tool_calls",
        "error": "-",
    }
