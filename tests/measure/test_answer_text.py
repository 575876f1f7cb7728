"""The words of an answer, in each of the four forms, whole and streamed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.answer_text import answer_text, last_answer_text


def sse(*events):
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


CHAT = [
    {"choices": [{"delta": {"role": "assistant", "content": None}}]},
    {"choices": [{"delta": {"reasoning_content": "no"}}]},
]
CHAT += [{"choices": [{"delta": {"content": part}}]} for part in ("VER", "DICT")] + [{"choices": [], "usage": {}}]


@pytest.mark.parametrize(
    ("body", "streamed"),
    [
        (sse(*CHAT), True),
        (sse({"choices": [{"text": "VERD"}]}, {"choices": [{"text": "ICT"}]}), True),
        (
            sse(
                {"type": "response.output_text.delta", "delta": "VERDICT"},
                {"type": "response.completed", "response": {}},
            ),
            True,
        ),
        (sse({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "VERDICT"}}), True),
        (json.dumps({"choices": [{"message": {"content": "VERDICT", "reasoning_content": "no"}}]}).encode(), False),
        (json.dumps({"object": "response", "output": [{"content": [{"text": "VERDICT"}]}]}).encode(), False),
        (json.dumps({"type": "message", "content": [{"type": "text", "text": "VERDICT"}]}).encode(), False),
    ],
)
def test_the_words_are_found(body, streamed):
    assert answer_text(body, streamed=streamed) == "VERDICT"


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_give_text(body, streamed):
    assert isinstance(answer_text(body, streamed=streamed), str)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "delta", "content", "type", "message", "output", "text"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_gives_text(value):
    assert isinstance(answer_text(json.dumps(value).encode(), streamed=False), str)


TURN = {"messages": [{"role": "user", "content": "Review it."}], "tools": [{"type": "function"}]}
SUMMARY = {"messages": [{"role": "user", "content": "Sum it up."}]}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([(TURN, "VERDICT: ACCEPT")], "VERDICT: ACCEPT"),
        ([(TURN, "I look."), (TURN, "VERDICT: ACCEPT"), (SUMMARY, "What was done")], "VERDICT: ACCEPT"),
        ([(TURN, "I look."), (SUMMARY, "What was done"), (TURN, "VERDICT: ACCEPT")], "VERDICT: ACCEPT"),
        ([(SUMMARY, "one"), (SUMMARY, "two")], "two"),
        ([({"messages": 3}, "one"), ({}, "two")], "two"),
        ([], ""),
    ],
)
def test_the_last_words_are_those_of_the_conversation(relayed, play, tmp_path, asked, said):
    """An agent that offers tools may have its history summed up, without tools, after its last answer."""
    answers = [play.whole_stream(play.delta(text), play.delta(finish="stop"), play.DONE) for _, text in asked]
    _, relay, address = relayed(*answers)
    for body, _ in asked:
        play.ask(address, play.post(json.dumps({**body, "stream": True}).encode(), extra="Connection: close\r\n"))
    relay.close_session(play.label())
    assert last_answer_text(tmp_path / "exchanges.jsonl", "") == said


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("I looked.\nVERDICT:  CHANGES\n", "I looked. VERDICT: CHANGES"),
        ("VERDICT: ACCEPT", "VERDICT: ACCEPT"),
        ("words that no answer has", "VERDICT: ACCEPT"),
        ("", "VERDICT: ACCEPT"),
    ],
)
def test_of_two_that_asked_the_one_that_the_agent_quotes_is_meant(relayed, play, tmp_path, told, said):
    """Whatever lives in the box can ask the model something after the agent's last answer; spacing is no difference."""
    answers = ("I looked. VERDICT: CHANGES", "VERDICT: ACCEPT")
    _, relay, address = relayed(
        *(play.whole_stream(play.delta(text), play.delta(finish="stop"), play.DONE) for text in answers)
    )
    for _ in answers:
        play.ask(address, play.post(json.dumps({**TURN, "stream": True}).encode(), extra="Connection: close\r\n"))
    relay.close_session(play.label())
    assert last_answer_text(tmp_path / "exchanges.jsonl", told) == said
