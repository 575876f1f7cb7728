"""What was said, turn by turn: each request reduced to what is new in it, each answer in pieces, of every API."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.contracts import SessionLabel
from bench.errors import EvidenceError
from bench.measure.answer_pieces import answer_pieces
from bench.measure.exchange_line import Exchange, encode_line
from bench.measure.request_pieces import read_request
from bench.measure.transcript import iterate_turns
from bench.records.conversation import Piece

LABEL = SessionLabel(run_id="r", session=1, role="builder", task=None, attempt=1, retry=0)
CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls", "timeout": 5}'}}


def events(*objects, done="data: [DONE]\n\n"):
    return ("".join(f"data: {json.dumps(one)}\n\n" for one in objects) + done).encode()


def said(text, *, thinking=None, calls=(), finish="stop"):
    """A streamed chat answer; the arguments of its calls come in two halves."""
    deltas = [{"role": "assistant"}, {"reasoning_content": thinking}, {"content": text[:2]}, {"content": text[2:]}]
    for number, call in enumerate(calls):
        function = call["function"]
        half = len(function["arguments"]) // 2
        deltas += [
            {"tool_calls": [{**call, "index": number, "function": {**function, "arguments": part}}]}
            if part is not None
            else {"tool_calls": [{"index": number, "function": {"arguments": function["arguments"][half:]}}]}
            for part in (function["arguments"][:half], None)
        ]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    usage = {"prompt_tokens": 40, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 30}}
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}
    return events(*chunks, last)


@pytest.fixture
def turns(tmp_path):
    """(request, response) pairs, kept as the relay keeps them, read as turns."""

    def read(*pairs, purposes=(), cut=0, **changes):
        place, before = tmp_path / "exchanges.jsonl", b""
        lines = []
        for index, (request, response) in enumerate(pairs):
            body = request if isinstance(request, bytes) else json.dumps(request).encode()
            plain = {
                "label": LABEL,
                "index": index,
                "engine_process": 1,
                "method": "POST",
                "path": "/v1/chat/completions",
                "status": 200,
                "streamed": response.startswith(b"data:"),
                "started_at": 1000.0 + index,
                "sent_at": 5.0,
                "first_byte_at": 5.5,
                "ended_at": 7.0,
                "fault": None,
                "request": body,
                "response": response,
                "response_bytes": len(response),
                "redacted": False,
                "arrivals": (),
            }
            lines.append(encode_line(Exchange(**{**plain, **changes}), before=before))
            before = body
        content = b"".join(lines)
        place.write_bytes(content[: len(content) - cut])
        warnings = []
        return list(iterate_turns(place, None, purposes=dict(purposes), warn=warnings.append)), warnings

    return read


def chat(*messages, **more):
    return {"model": "m", "messages": list(messages), **more}


SYSTEM = {"role": "system", "content": "You build."}
USER = {"role": "user", "content": [{"type": "text", "text": "Build it."}]}
ECHO = {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}


def test_a_conversation_that_grows_is_told_once(turns):
    echo = json.loads(json.dumps(ECHO))
    echo["tool_calls"][0]["function"]["arguments"] = '{"timeout":5,"command":"ls"}'  # written anew by the agent
    (first, second), warnings = turns(
        (chat(SYSTEM, USER), said("I look.", thinking="Hm.", calls=[CALL], finish="tool_calls")),
        (chat(SYSTEM, USER, {**echo, "reasoning_content": "Hm."}, RESULT), said("Done.")),
    )
    assert warnings == []
    assert (first.history, second.history) == ("first", "grown")
    assert first.system == "You build."
    assert second.system is None
    assert first.said == (Piece(kind="user", text="Build it."),)
    assert first.answer == (
        Piece(kind="thinking", text="Hm."),
        Piece(kind="text", text="I look."),
        Piece(kind="call", text='{"command": "ls", "timeout": 5}', name="bash", call="c1"),
    )
    assert second.said == (Piece(kind="result", text="a.py", call="c1"),)
    assert (second.after, second.kept, second.repeated) == (0, 1, 0)
    assert second.answer == (Piece(kind="text", text="Done."),)
    assert (first.finish_reason, first.prompt_tokens, first.cached_tokens, first.output_tokens) == (
        "tool_calls",
        40,
        30,
        7,
    )
    assert first.seconds == 2.0


def test_words_that_the_model_never_said_are_shown(turns):
    forged = {"role": "assistant", "content": "I promise."}
    (_, second), _ = turns(
        (chat(USER), said("I look.")), (chat(USER, forged, {"role": "user", "content": "Go on."}), said("Well."))
    )
    assert [(piece.kind, piece.text) for piece in second.said] == [("text", "I promise."), ("user", "Go on.")]


def test_the_same_again_says_nothing_new(turns):
    error = b'{"error": {"message": "out of memory"}}'
    (first, second), _ = turns((chat(USER), error), (chat(USER), said("Yes.")), purposes={1: "retry"})
    assert first.error == "out of memory"
    assert (second.history, second.after, second.said, second.purpose) == ("same", 0, (), "retry")


def test_a_compaction_and_a_side_request_are_told_apart_from_the_conversation(turns):
    title = chat({"role": "system", "content": "Give a title."}, {"role": "user", "content": "Title of: Build it."})
    summary = {"role": "user", "content": "Summary: it is being built."}
    (main, side, back, anew), _ = turns(
        (chat(SYSTEM, USER), said("I look.", calls=[CALL])),
        (title, said("Building")),
        (chat(SYSTEM, USER, ECHO, RESULT), said("Now.")),
        (chat(SYSTEM, summary, ECHO, RESULT), said("On.")),
    )
    assert (main.history, side.history) == ("first", "other")
    assert (back.history, back.after) == ("grown", 0)
    assert back.system is None, "the instructions were shown with the first request"
    assert (anew.history, anew.after, anew.repeated) == ("other", None, 3)
    assert [piece.text for piece in anew.said] == ["Summary: it is being built."]


def test_a_history_that_was_cut_says_where(turns):
    (_, _, third), _ = turns(
        (chat(USER), said("I look.", calls=[CALL])),
        (chat(USER, ECHO, RESULT), said("Now.")),
        (chat(USER, {"role": "user", "content": "Start over."}), said("Yes.")),
    )
    assert (third.history, third.after, third.kept, third.dropped) == ("changed", 1, 1, 3)
    assert [piece.text for piece in third.said] == ["Start over."]


def test_the_responses_api(turns):
    call = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"command":["ls"]}'}
    answer = events(
        {"type": "response.created", "response": {"id": "r", "output": []}},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm."},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "I "},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "look."},
        {"type": "response.output_item.added", "output_index": 2, "item": {**call, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"command":'},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '["ls"]}'},
        {"type": "response.output_item.done", "output_index": 2, "item": call},
        {"type": "response.completed", "response": {"status": "completed", "output": [call]}},
        done="",
    )
    user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Build it."}]}
    echo = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    result = {"type": "function_call_output", "call_id": "c1", "output": "a.py"}
    first = {"model": "m", "instructions": "You build.", "input": [user]}
    (one, two), _ = turns(
        (first, answer),
        ({**first, "input": [user, {"type": "reasoning", "summary": []}, echo, call, result]}, answer),
        path="/v1/responses",
    )
    assert one.system == "You build."
    assert one.answer == (
        Piece(kind="thinking", text="Hm."),
        Piece(kind="text", text="I look."),
        Piece(kind="call", text='{"command":["ls"]}', name="shell", call="c1"),
    )
    assert one.finish_reason == "completed"
    assert two.said == (Piece(kind="result", text="a.py", call="c1"),)
    body = {"object": "response", "status": "completed", "output": [{**echo, "role": "assistant"}, call]}
    assert answer_pieces(json.dumps(body).encode(), streamed=False) == one.answer[1:]


def test_the_messages_api(turns):
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}
    answer = events(
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I look."}},
        {"type": "content_block_start", "index": 2, "content_block": call},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
        done="",
    )
    system = [{"type": "text", "text": "You build.", "cache_control": {"type": "ephemeral"}}]
    user = {"role": "user", "content": "Build it."}
    blocks = [{"type": "text", "text": "I look."}, {**call, "input": {"a": 1}}]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.py"}]}
    more = [user, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    (one, two), _ = turns(
        ({"model": "m", "system": system, "messages": [user]}, answer),
        ({"model": "m", "system": system, "messages": more}, answer),
        path="/v1/messages",
    )
    assert (one.system, two.system) == ("You build.", None)
    assert [(piece.kind, piece.text, piece.name) for piece in one.answer] == [
        ("thinking", "Hm.", ""),
        ("text", "I look.", ""),
        ("call", '{"a":1}', "Bash"),
    ]
    assert two.said == (Piece(kind="result", text="a.py", call="c1"),)
    whole = {"type": "message", "content": blocks, "stop_reason": "tool_use"}
    assert [piece.kind for piece in answer_pieces(json.dumps(whole).encode(), streamed=False)] == ["text", "call"]


def test_plain_bodies_of_chat_and_completions():
    message = {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [CALL]}
    found = answer_pieces(json.dumps({"choices": [{"message": message}]}).encode(), streamed=False)
    assert [piece.kind for piece in found] == ["thinking", "text", "call"]
    found = answer_pieces(b'{"choices": [{"text": "Once"}]}', streamed=False)
    assert found == (Piece(kind="text", text="Once"),)
    assert read_request(b'{"prompt": "Say OK."}').pieces == (Piece(kind="user", text="Say OK."),)


def test_what_has_no_text_is_named():
    body = chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]})
    assert read_request(json.dumps(body).encode()).pieces == (Piece(kind="other", text="image_url"),)


def test_a_body_that_nobody_can_read_is_said(turns):
    (only,), _ = turns((b"\x00\x01", b"data: {]\n\n"))
    assert only.said[0].kind == "other"
    assert "2 bytes" in only.said[0].text
    assert only.error is not None


def test_what_can_be_read_of_damaged_evidence_is_read(turns, tmp_path):
    pairs = [(chat(USER), said("I look.")), (chat(USER, ECHO, RESULT), said("Done."))]
    found, warnings = turns(*pairs, cut=20)
    assert len(found) == 1
    assert "torn" in warnings[0]
    turns(*pairs, *pairs)
    place = tmp_path / "exchanges.jsonl"
    lines = place.read_bytes().splitlines(keepends=True)
    place.write_bytes(lines[0] + b"{}\n" + b"".join(lines[2:]))
    reading = iterate_turns(place, None, purposes={}, warn=warnings.append)
    assert next(reading).index == 0
    with pytest.raises(EvidenceError, match="line 2 is damaged"):
        next(reading)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "text",
                    "type",
                    "messages",
                    "input",
                    "choices",
                    "delta",
                    "message",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "index",
                    "output",
                    "item",
                    "response",
                    "thinking",
                    "summary",
                    "system",
                    "instructions",
                    "prompt",
                    "call_id",
                ]
            )
            | st.text(string.ascii_letters, max_size=3),
            inner
            | st.sampled_from(
                [
                    "tool",
                    "assistant",
                    "system",
                    "function_call",
                    "tool_use",
                    "tool_result",
                    "reasoning",
                    "response.output_item.added",
                    "content_block_start",
                    "content_block_delta",
                    "response.output_text.delta",
                    "message",
                ]
            ),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(found=JSON, other=JSON)
def test_no_body_is_too_strange(found, other):
    for body in (json.dumps(found).encode(), events(found, other), b"[" * 100_000):
        request = read_request(body)
        assert all(isinstance(piece.text, str) for piece in request.pieces)
        for streamed in (True, False):
            assert all(isinstance(piece.text, str) for piece in answer_pieces(body, streamed=streamed))
