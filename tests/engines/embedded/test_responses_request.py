"""Requests of the Responses API become what chat requests become."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engines.embedded.chat_request import ChatRequest, Message, ToolCall, read_chat_request
from bench.engines.embedded.chat_template import prompt_tokens
from bench.engines.embedded.refusal import Refusal
from bench.engines.embedded.responses_request import read_responses_request


def read(**data):
    return read_responses_request(json.dumps(data).encode())


def call(number, name="bash", arguments="{}"):
    return {"type": "function_call", "call_id": f"call_{number}", "name": name, "arguments": arguments}


def output(number, text="ok"):
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": text}


def said(text):
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def thought(text):
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]}
FUNCTION = {"name": "bash", "description": "Runs.", "parameters": {"type": "object", "properties": {}}}


def test_the_same_conversation_is_the_same_prompt_in_both_apis():
    calls = [{"id": str(at), "type": "function", "function": {"name": "bash", "arguments": "{}"}} for at in (1, 2)]
    chat = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Stay inside."},
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": "I run it.", "reasoning_content": "Twice.", "tool_calls": calls},
            {"role": "tool", "content": "one"},
            {"role": "tool", "content": "two"},
            {"role": "assistant", "content": None, "tool_calls": calls[:1]},
            {"role": "tool", "content": "ok"},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Go."},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
        "max_tokens": 7,
    }
    asked = read(
        instructions="Be brief.",
        input=[
            {"role": "developer", "content": "Stay inside."},
            USER,
            thought("Twice."),
            said("I run it."),
            call(1),
            call(2),
            output(1, "one"),
            output(2, [{"type": "input_text", "text": "two"}]),
            call(1),
            output(1),
            said("Done."),
            USER,
        ],
        tools=[{"type": "function", **FUNCTION}, {"type": "web_search"}, {"type": "namespace", "tools": [FUNCTION]}],
        max_output_tokens=7,
    )
    expected = read_chat_request(json.dumps(chat).encode())
    assert asked.messages == expected.messages
    assert prompt_tokens(asked) == prompt_tokens(expected)
    assert (asked.turn, asked.max_tokens, asked.stream) == (expected.turn, 7, False) == (3, 7, False)


def test_answers_without_anything_between_them_are_told_apart():
    asked = read(input=[USER, thought("a"), said("b"), thought("c"), said("d"), said("e"), call(1), said("f")])
    told = [(message.reasoning, message.content, len(message.calls)) for message in asked.messages[1:]]
    assert told == [("a", "b", 0), ("c", "d", 0), ("", "e", 1), ("", "f", 0)]
    assert asked.turn == 4


def test_what_other_items_become():
    asked = read(
        input=[
            {"role": "user", "content": "Go."},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "In short."}], "content": None},
            {"type": "web_search_call", "status": "completed"},
            {"type": "custom_tool_call", "call_id": "1", "name": "apply_patch", "input": "*** Begin Patch"},
            {"type": "custom_tool_call_output", "call_id": "1", "output": "Done"},
            {"type": "local_shell_call", "call_id": "2", "action": {"type": "exec", "command": ["ls"]}},
            {"type": "local_shell_call_output", "call_id": "2", "output": "a.txt"},
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
            {"type": "not_known_yet"},
        ]
    )
    shell = ToolCall(name="local_shell", arguments='{"type":"exec","command":["ls"]}')
    patch = ToolCall(name="apply_patch", arguments="*** Begin Patch")
    assert asked.messages[1:] == (
        Message(role="assistant", content="", reasoning="In short.", calls=(patch,)),
        Message(role="tool", content="Done"),
        Message(role="assistant", content="", calls=(shell,)),
        Message(role="tool", content="a.txt"),
    )


def test_a_plain_text_is_a_user_message_and_tools_may_be_turned_off():
    asked = read(input="Go.", tools=[{"type": "function", **FUNCTION}], tool_choice="none", parallel_tool_calls=True)
    assert asked.messages == (Message(role="user", content="Go."),)
    assert (asked.tools, asked.parallel_calls, asked.max_tokens) == ((), True, None)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "'input' must be a text or a list"),
        ({"input": []}, "'input' must be a text or a list"),
        ({"input": 3}, "'input' must be a text or a list"),
        (
            {"input": "x", "previous_response_id": "resp_1"},
            "'previous_response_id' names what this engine does not keep",
        ),
        ({"input": ["x"]}, "'input[0]' must be an object."),
        ({"input": [{"role": "oracle"}]}, "'input[0].role' must be one of system"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "'input[0].content' must be a string"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "'input[0]' refers to an item"),
        ({"input": [{"type": "function_call", "name": ""}]}, "must have 1 to 128 characters"),
        (
            {"input": [{"type": "function_call", "name": "x", "arguments": {}}]},
            "'input[0].arguments' must be a string.",
        ),
        ({"input": "x", "max_output_tokens": 0}, "'max_output_tokens' must be at least 1."),
        ({"input": "x", "tools": ["x"]}, "'tools[0]' must be an object."),
        ({"input": "x", "instructions": 3}, "'instructions' must be a string."),
    ],
)
def test_what_is_wrong_is_said(data, problem):
    with pytest.raises(Refusal) as caught:
        read(**data)
    assert caught.value.status == 400
    assert problem in caught.value.message


TYPES = ["message", "reasoning", "function_call", "custom_tool_call", "local_shell_call", "function_call_output", "x"]
KEYS = ["type", "role", "content", "summary", "text", "name", "arguments", "input", "output", "action", "function"]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(TYPES)
VALUES = st.recursive(
    LEAVES | st.sampled_from(["user", "assistant", "input_text", "output_text", "reasoning_text"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
ITEMS = st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6) | VALUES, max_size=5)
BODIES = st.fixed_dictionaries(
    {"input": ITEMS | VALUES},
    optional=dict.fromkeys(("instructions", "tools", "stream", "max_output_tokens", "tool_choice", "model"), VALUES),
)


@given(BODIES)
def test_any_json_is_a_request_or_a_refusal(data):
    try:
        asked = read_responses_request(json.dumps(data).encode())
    except Refusal:
        return
    assert isinstance(asked, ChatRequest)
    assert prompt_tokens(asked)


@given(st.binary(max_size=60) | st.just(b"[" * 200_000) | st.just(b'{"input":' * 20_000))
def test_any_bytes_are_a_request_or_a_refusal(body):
    with pytest.raises(Refusal):
        read_responses_request(body)
