"""The words of an answer, in each of the four forms, whole and streamed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.answer_text import answer_text


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
