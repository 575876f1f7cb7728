"""Both readers of request bodies know the same kinds of items."""

from __future__ import annotations

import json

import pytest

from bench.measure.message_kinds import CALLS, RESULTS, THOUGHTS, TOOL_ROLES
from bench.measure.request_body import answered_texts, message_text
from bench.measure.request_pieces import read_request


def pieces(item):
    return [(piece.kind, piece.text) for piece in read_request(json.dumps({"input": [item]}).encode()).pieces]


@pytest.mark.parametrize("kind", [kind for kind in RESULTS if kind != "tool_result"])
def test_what_a_tool_answered(kind):
    item = {"type": kind, "call_id": "c", "output": "12 files"}
    assert (pieces(item), list(answered_texts(item))) == ([("result", "12 files")], ["12 files"])


def test_what_a_tool_answered_within_a_users_message():
    block = {"type": "tool_result", "tool_use_id": "c", "content": "12 files"}
    message = {"role": "user", "content": [block]}
    assert (pieces(message), list(answered_texts(message))) == ([("result", "12 files")], ["12 files"])


@pytest.mark.parametrize("role", TOOL_ROLES)
def test_what_a_tool_answered_as_a_message(role):
    message = {"role": role, "tool_call_id": "c", "content": "12 files"}
    assert (pieces(message), list(answered_texts(message))) == ([("result", "12 files")], ["12 files"])


@pytest.mark.parametrize("kind", CALLS)
def test_calls_are_no_words(kind):
    item = {"type": kind, "name": "ls", "arguments": '{"path": "."}'}
    assert (pieces(item), list(answered_texts(item))) == ([("call", '{"path": "."}')], [])


@pytest.mark.parametrize("kind", THOUGHTS)
def test_thoughts_are_left_out_where_messages_are_compared(kind):
    message = {"role": "assistant", "content": [{"type": kind, "thinking": "Hm."}, {"type": "text", "text": "So."}]}
    assert message_text(message) == "assistant\nSo."
    assert ("text", "So.") in pieces(message)
    assert all(found in ("text", "thinking") for found, _ in pieces(message))
