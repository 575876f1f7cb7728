"""Event streams split anywhere, and what of them is a token, a finish, an error, a usage."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.sse import SseReader
from bench.measure.stream import AnswerReader, body_error_text, error_text, has_token


def naive_events(data: bytes) -> list[tuple[int, bytes]]:
    """The same cut of a whole stream, written the long way."""
    found: list[tuple[int, bytes]] = []
    held: list[bytes] = []
    at = 0
    for text, end in re.findall(rb"([^\r\n]*)(\r\n|\n|\r|$)", data):
        line = text.removeprefix(b"\xef\xbb\xbf") if at == 0 else text
        # A CR ends a line as soon as it is there; an LF behind it is the next piece's.
        at += len(text) + len(end)
        if not line and held:
            found.append((at - (end == b"\r\n"), b"\n".join(held)))
            held = []
        elif line.partition(b":")[0] == b"data":
            held.append(line.partition(b":")[2].removeprefix(b" "))
    return [*found, (len(data), b"\n".join(held))] if held else found


LINES = st.lists(
    st.sampled_from([b"data: {}", b"data:x", b"data", b": c", b"event: e", b"", b"\xff\xfe", b"datax: 1", b"data:  y"]),
    max_size=12,
)


@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 200), max_size=10), st.booleans())
def test_events_are_the_same_wherever_the_stream_is_split(lines, end, cuts, mark):
    data = (b"\xef\xbb\xbf" if mark else b"") + end.join(lines)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    reader, events = SseReader(), []
    for start, stop in pairwise(places):
        events += reader.feed(data[start:stop])
    assert events + reader.end() == naive_events(data)


@given(st.binary(max_size=300), st.integers(1, 7))
def test_any_bytes_are_read_without_an_exception(data, step):
    reader = AnswerReader()
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
    reader.end()
    AnswerReader().read_body(data)
    body_error_text(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "error", "usage", "type", "id", "message", "response", "finish_reason"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_read_without_an_exception(value):
    reader = AnswerReader()
    reader.feed(b"data: " + json.dumps(value).encode() + b"\n\n")
    reader.read_body(json.dumps(value).encode())


TEXTS = st.sampled_from(
    [b"a", b"", b" b", b"\\n", b"\\u00e9", b"\\x", b'\\"', b'"', b"\xe2\x82", b"\xff", b"\x01", b"\\", b"\\ud83d"]
)
FORMS = st.sampled_from(
    [
        b'{"id":"c","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}',
        b'{"id":"c","choices":[{"index":0,"delta":{"content": "","reasoning_content": "%b"}}],"timings":{"n":1}}',
        b'{"id":"c","choices":[{"delta":{"tool_calls":[{"function":{"arguments":"%b"}}]}}],"usage":{"prompt_tokens":9}}',
        b'{"id":"c","choices":[{"text":"%b","finish_reason":"stop"}]}',
        b'{"choices":[{"delta":{"a\\"content":"%b"}}]}',
        b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"%b"}}',
        b'{"type":"message_delta","delta":{"stop_reason":"%b"},"usage":{"output_tokens":7}}',
        b'{"error":{"message":"%b"},"choices":[{"delta":{"content":"x"}}]}',
        b'{"choices":[],"usage":{"prompt_tokens":9},"timings":{"text":"%b"}}',
    ]
)


@given(st.lists(st.tuples(FORMS, TEXTS, st.integers(1, 4)), max_size=8), st.lists(st.integers(0, 2000), max_size=10))
def test_what_is_not_parsed_again_would_have_said_the_same(spoken, cuts):
    """Most events of a stream differ in a text only and are not parsed one by one: no trace of that may be left."""
    events = [b"data: " + form.replace(b"%b", text) + b"\n\n" for form, text, times in spoken for _ in range(times)]
    data = b"".join([*events, b"data: [DONE]\n\n"])
    slow, ends, at = AnswerReader(), [], 0
    for one in events:
        at += len(one)
        slow._pattern = (b"", b"")
        ends += [at] if slow.feed(one) else []
    slow.feed(b"data: [DONE]\n\n")
    slow.end()
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    quick, found = AnswerReader(), []
    for start, stop in pairwise(places):
        found += quick.feed(data[start:stop])
    found += quick.end()
    assert found == ends
    for name in ("response_id", "finish_reason", "error", "complete", "damage", "usage", "usage_at_object"):
        assert getattr(quick, name) == getattr(slow, name), name
    assert (quick.values, quick.finished_at_object) == (slow.values, slow.finished_at_object)


def chat(delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


@pytest.mark.parametrize(
    "value",
    [
        chat({"content": "a"}),
        chat({"content": " "}),
        chat({"reasoning_content": "a"}),
        chat({"reasoning": "a", "content": ""}),
        chat({"refusal": "no"}),
        chat({"tool_calls": [{"index": 0, "function": {"name": "read", "arguments": ""}}]}),
        chat({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
        chat({"function_call": {"arguments": "{"}}),
        {"choices": [{"text": "a"}]},
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.reasoning_text.delta", "delta": "a"},
        {"type": "response.function_call_arguments.delta", "delta": "{"},
        {"type": "response.output_item.added", "item": {"type": "function_call", "name": "read"}},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "read"}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "a"}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}},
    ],
)
def test_tokens(value):
    assert has_token(value)


@pytest.mark.parametrize(
    "value",
    [
        chat({"role": "assistant", "content": None}),
        chat({"role": "assistant", "content": ""}),
        chat({"reasoning_content": "", "tool_calls": []}),
        chat({"tool_calls": [{"index": 0, "id": "call-1", "function": {"name": "", "arguments": ""}}]}),
        {"choices": [], "usage": {"completion_tokens": 3}},
        {**chat({"role": "assistant"}), "prompt_progress": {"total": 9}},
        {"choices": [{"delta": None, "text": ""}]},
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "x"}},
        {"type": "ping"},
    ],
)
def test_no_tokens(value):
    assert not has_token(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"error": {"message": "m", "type": "t", "code": 400}}, "m (type t, code 400)"),
        ({"error": "plain"}, "plain"),
        ({"object": "error", "message": "flat", "type": "BadRequestError"}, "flat (type BadRequestError)"),
        ({"detail": "Prompt too long: 9 tokens"}, "Prompt too long: 9 tokens"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "busy (type overloaded_error)"),
        ({"choices": [], "error": None}, None),
    ],
)
def test_error_forms(value, text):
    assert error_text(value) == text


def test_a_chunk_with_bad_utf8_is_still_a_token():
    assert AnswerReader().feed(b'data: {"choices":[{"delta":{"content":"\xe2\x82"}}]}\n\n')


def test_several_tokens_and_what_is_not_json():
    reader = AnswerReader()
    assert reader.feed(b"data: nonsense\n\ndata: " + json.dumps(chat({"content": "a b c"})).encode() + b"\n\n")
    assert reader.damage == "1 parts of the answer are not JSON"
    assert not reader.complete


def test_messages_in_two_halves():
    reader = AnswerReader()
    for value in (
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ):
        reader.feed(b"data: " + json.dumps(value).encode() + b"\n\n")
    assert (reader.response_id, reader.finish_reason, reader.complete) == ("msg_1", "end_turn", True)
    assert reader.usage == {"input_tokens": 5, "output_tokens": 7}


def test_responses():
    reader = AnswerReader()
    for value in (
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "usage": None}},
        {"type": "response.output_text.delta", "delta": "hi"},
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "status": "completed", "usage": {"input_tokens": 5}},
        },
    ):
        reader.feed(b"data: " + json.dumps(value).encode() + b"\n\n")
    assert (reader.response_id, reader.finish_reason, reader.complete) == ("resp_1", "completed", True)
    assert reader.usage == {"input_tokens": 5}
