"""Every shape an answer can have, on every endpoint: each is recorded as what it is, and passes unchanged."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass

import pytest

from bench.measure.exchange import read_exchanges, request_record


def named(value: dict) -> bytes:
    """An event as the responses and messages APIs write it: with its type in a line of its own."""
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()


def plain(value: dict) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """How one endpoint says the same things. `usage`: 12 prompt tokens, 8 of them cached, 5 generated."""

    opening: bytes
    reasoning: bytes
    tool: bytes
    text: bytes
    """Three tokens in one event."""

    finish: bytes
    usage: bytes
    done: bytes
    error: bytes
    early_usage: bytes
    """A text event with a usage that counts what came so far."""

    response_id: str = "answer-1"
    finish_reason: str = "stop"
    cached: int | None = 8


def chat(delta: dict, **more: object) -> bytes:
    return plain(
        {
            "id": "answer-1",
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
            **more,
        }
    )


def counted(output: int) -> dict:
    return {"prompt_tokens": 12, "completion_tokens": output, "prompt_tokens_details": {"cached_tokens": 8}}


def completion(text: str, **more: object) -> bytes:
    return plain({"id": "answer-1", "choices": [{"index": 0, "text": text, "finish_reason": None}], **more})


ERROR = plain({"error": {"message": "out of memory", "type": "server_error", "code": 500}})
DONE = b"data: [DONE]\n\n"
STOP = {"index": 0, "delta": {}, "finish_reason": "stop"}
FUNCTION = {"index": 0, "id": "c1", "function": {"name": "read", "arguments": ""}}
COMPLETED = {"id": "answer-1", "object": "response", "status": "completed"}
CLAUDE = {"input_tokens": 4, "cache_read_input_tokens": 8, "output_tokens": 1}
SPOKEN = {
    "/v1/chat/completions": Spoken(
        opening=chat({"role": "assistant", "content": ""}),
        reasoning=chat({"reasoning_content": "hm"}),
        tool=chat({"tool_calls": [FUNCTION]}),
        text=chat({"content": "one two three"}),
        finish=plain({"id": "answer-1", "choices": [STOP]}),
        usage=plain({"id": "answer-1", "choices": [], "usage": counted(5)}),
        done=DONE,
        error=ERROR,
        early_usage=chat({"content": "one"}, usage=counted(1)),
    ),
    "/v1/completions": Spoken(
        opening=completion(""),
        reasoning=completion("<think>"),
        tool=completion("<tool_call>"),
        text=completion("one two three"),
        finish=plain({"id": "answer-1", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}),
        usage=plain({"id": "answer-1", "choices": [], "usage": counted(5)}),
        done=DONE,
        error=ERROR,
        early_usage=completion("one", usage=counted(1)),
    ),
    "/v1/responses": Spoken(
        opening=named({"type": "response.created", "response": {**COMPLETED, "status": "in_progress"}}),
        reasoning=named({"type": "response.reasoning_text.delta", "delta": "hm"}),
        tool=named({"type": "response.output_item.added", "item": {"type": "function_call", "name": "read"}}),
        text=named({"type": "response.output_text.delta", "delta": "one two three"}),
        finish=b"",
        usage=named(
            {
                "type": "response.completed",
                "response": {
                    **COMPLETED,
                    "usage": {
                        "input_tokens": 12,
                        "output_tokens": 5,
                        "input_tokens_details": {"cached_tokens": 8},
                    },
                },
            }
        ),
        done=b"",
        error=named({"type": "error", "message": "out of memory", "code": "server_error"}),
        early_usage=named({"type": "response.output_text.delta", "delta": "one", "usage": {"output_tokens": 1}}),
        finish_reason="completed",
    ),
    "/v1/messages": Spoken(
        opening=named({"type": "message_start", "message": {"id": "answer-1", "usage": CLAUDE}}),
        reasoning=named({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        tool=named({"type": "content_block_start", "content_block": {"type": "tool_use", "name": "read"}}),
        text=named({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "one two three"}}),
        finish=b"",
        usage=named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        done=named({"type": "message_stop"}),
        error=named({"type": "error", "error": {"type": "server_error", "message": "out of memory"}}),
        early_usage=named({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "one"}}),
        finish_reason="end_turn",
    ),
}
PATHS = sorted(SPOKEN)
COMMENT = b": keep-alive\n\n"


@pytest.fixture
def exchanged(relayed, play, tmp_path, profile):
    """Has an engine play parts to one request and returns what the client got, the exchange, and its record.

    A gate among the parts opens once the client has all that the engine sent before it.
    """

    def ask(path: str, parts: list, **options: object):
        _, relay, address = relayed(parts, **options)
        with play.connect(address) as connection:
            connection.sendall(play.post(path=path))
            answer, expected = b"", b""
            for part in parts:
                if isinstance(part, threading.Event):
                    while not answer.endswith(expected):
                        answer += connection.recv(65536) or pytest.fail(f"the answer ended: {answer!r}")
                    part.set()
                elif isinstance(part, bytes):
                    expected = b"\r\n\r\n" if part.startswith(b"HTTP") else expected + part
            answer += play.read_all(connection)
        relay.exchanges(play.label())
        (exchange,) = read_exchanges(tmp_path / "exchanges.jsonl", warn=pytest.fail)
        return answer.partition(b"\r\n\r\n")[2], exchange, request_record(exchange, profile)

    return ask


def unchunked(answer: bytes) -> bytes:
    body = b""
    while answer and (size := int(answer.partition(b"\r\n")[0], 16)):
        rest = answer.partition(b"\r\n")[2]
        body, answer = body + rest[:size], rest[size + 2 :]
    return body


def spaced(play, *events: bytes) -> list:
    """The events, each in a piece of its own."""
    parts: list = [play.sse_head()]
    for one in events:
        parts += [threading.Event(), play.chunk(one)]
    return [*parts, threading.Event(), play.LAST_CHUNK]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("first", ["reasoning", "tool", "text"])
def test_whatever_token_comes_first(exchanged, play, path, first):
    said = SPOKEN[path]
    events = [said.opening, COMMENT, getattr(said, first), said.text, said.finish + said.usage + said.done]
    answer, exchange, record = exchanged(path, spaced(play, *events))
    assert unchunked(answer) == exchange.response == b"".join(events)
    assert (record.error, record.finish_reason, record.response_id) == (None, said.finish_reason, "answer-1")
    # Several tokens a chunk: the count is the engine's, never that of chunks.
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens) == (12, 8, 5)
    ends = [len(b"".join(events[:count])) for count in (3, 4)]
    assert [offset for offset, _ in exchange.arrivals] == ends
    assert record.first_byte_at < record.first_token_at < record.last_token_at < record.ended_at


@pytest.mark.parametrize("path", PATHS)
def test_no_usage(exchanged, play, path):
    said = SPOKEN[path]
    end = {
        "/v1/responses": named({"type": "response.completed", "response": COMPLETED}),
        "/v1/messages": named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) + said.done,
    }.get(path, said.finish + said.done)
    opening = (
        named({"type": "message_start", "message": {"id": "answer-1"}}) if path == "/v1/messages" else said.opening
    )
    _, _, record = exchanged(path, play.whole_stream(opening, said.text, end))
    assert (record.error, record.finish_reason) == (None, said.finish_reason)
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens) == (None, None, None)
    assert "usage: the answer reports none" in record.reason


@pytest.mark.parametrize("path", PATHS)
def test_usage_in_every_chunk(exchanged, play, path):
    said = SPOKEN[path]
    events = (said.opening, said.early_usage, said.early_usage, said.finish, said.usage, said.done)
    _, exchange, record = exchanged(path, play.whole_stream(*(event for event in events if event)))
    assert (record.error, record.output_tokens, record.prompt_tokens) == (None, 5, 12)
    assert len(exchange.arrivals) >= 1


@pytest.mark.parametrize("path", PATHS)
def test_no_finish_reason(exchanged, play, path):
    said = SPOKEN[path]
    # A usage that came all the same counts nothing: the answer is not whole.
    usage = said.usage if said.finish else b""
    events = [event for event in (said.opening, said.text, usage, said.done) if event]
    _, _, record = exchanged(path, play.whole_stream(*events))
    assert record.error == "truncated: the answer ended without a finish reason"
    assert (record.output_tokens, record.decode_seconds) == (None, None)
    assert record.first_token_at is not None


@pytest.mark.parametrize("path", PATHS)
def test_comments_only(exchanged, play, path):
    _, exchange, record = exchanged(path, play.whole_stream(COMMENT, COMMENT * 3))
    assert exchange.response == COMMENT * 4
    assert record.error == "truncated: the answer ended without a finish reason"
    assert (record.first_token_at, record.output_tokens) == (None, None)
    assert record.first_byte_at is not None


@pytest.mark.parametrize("path", PATHS)
def test_an_error_inside_a_200(exchanged, play, path):
    said = SPOKEN[path]
    _, _, record = exchanged(path, play.whole_stream(said.opening, said.text, said.error))
    assert record.status == 200
    assert record.error.startswith("out of memory")
    assert "server_error" in record.error
    assert record.output_tokens is None


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("how", "fault"), [("reset", "reset: "), ("cut", "truncated: "), ("stall", "stalled: ")])
def test_an_engine_that_does_not_end(exchanged, play, path, how, fault):
    said = SPOKEN[path]
    parts = spaced(play, said.opening, said.text)[:-1]
    parts += {"reset": [play.RESET], "cut": [], "stall": [play.UNTIL_CLIENT_LEAVES]}[how]
    answer, exchange, record = exchanged(path, parts, stall_seconds=1.0 if how == "stall" else 60.0)
    assert not answer.endswith(play.LAST_CHUNK)
    assert record.error.startswith(fault)
    assert exchange.response == said.opening + said.text
    assert len(exchange.arrivals) == 1
    assert (record.output_tokens, record.ttft_seconds) == (None, None)


@pytest.mark.parametrize("path", PATHS)
def test_half_of_a_plain_body_that_ends_in_order(exchanged, play, path):
    """Its length is right, and what is missing is only seen by reading it."""
    body = b'{"id": "c", "choices": [{"index": 0, "mess'
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    _, exchange, record = exchanged(path, [head + body])
    assert (exchange.fault, record.status) == (None, 200)
    assert record.error.startswith("truncated: ")
    assert "not JSON" in record.error


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_goes_away(relayed, play, tmp_path, profile, path):
    said = SPOKEN[path]
    parts = [play.sse_head(), play.chunk(said.opening), play.chunk(said.text), play.UNTIL_CLIENT_LEAVES]
    engine, relay, address = relayed(parts)
    with play.connect(address) as connection:
        connection.sendall(play.post(path=path))
        answer = b""
        while b"three" not in answer:
            answer += connection.recv(65536)
    assert engine.played[0].left.wait(20)
    (summary,) = relay.exchanges(play.label())
    assert summary.error == "aborted: the client went away before the answer's end"
    (exchange,) = read_exchanges(tmp_path / "exchanges.jsonl", warn=pytest.fail)
    record = request_record(exchange, profile)
    assert (record.error, record.output_tokens) == (summary.error, None)
    assert len(exchange.arrivals) == 1


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_leaves_after_the_closing_event(relayed, play, path):
    said = SPOKEN[path]
    gate = threading.Event()
    events = said.opening + said.text + said.finish + said.usage + said.done
    _, relay, address = relayed([play.sse_head(), play.chunk(events), gate, play.LAST_CHUNK])
    with play.connect(address) as connection:
        connection.sendall(play.post(path=path))
        answer = b""
        while (said.done or said.usage) not in answer:
            answer += connection.recv(65536)
    threading.Timer(0.05, gate.set).start()
    (summary,) = relay.exchanges(play.label())
    assert (summary.error, summary.output_tokens, summary.finish_reason) == (None, 5, said.finish_reason)
