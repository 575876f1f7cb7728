"""An API key that an engine repeats reaches neither the agent nor the evidence; all else stays as it was."""

from __future__ import annotations

import json
import threading
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.measure.exchange import read_exchanges
from bench.measure.key_strike import KeyStrike

KEY = "sk-secret/123"


def passed(key: str | None, data: bytes, cuts: list[int]) -> tuple[bytes, bool]:
    strike = KeyStrike(key)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    out = b"".join(strike.feed(data[start:stop]) for start, stop in pairwise(places))
    return out + strike.end(), strike.struck


PIECES = st.lists(st.sampled_from([b"sk-", b"sk-secret/123", b"sk-secret\\/123", b"s", b"3", b"\xff", b"k-secret"]))


@given(PIECES, st.lists(st.integers(0, 300), max_size=12))
@example([b"sk-secret/123"], list(range(14)))
def test_it_is_struck_wherever_the_stream_is_split(pieces, cuts):
    data = b"".join(pieces)
    out, struck = passed(KEY, data, cuts)
    assert out == data.replace(b"sk-secret/123", b"*" * 13).replace(b"sk-secret\\/123", b"*" * 14)
    assert struck == (out != data)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6))
def test_other_bytes_pass_unchanged(data, cuts):
    assert passed("a-key-that-no-data-holds", data, cuts) == (data, False)
    assert passed(None, data, cuts) == (data, False)


@pytest.mark.parametrize("key", ["EMPTY", "none", "x", ""])
def test_a_word_is_no_secret(key):
    data = b'{"data": "EMPTY or none", "x": ""}'
    assert passed(key, data, [3]) == (data, False)


def test_only_a_possible_beginning_waits():
    strike = KeyStrike(KEY)
    assert strike.feed(b"data: {}\n\n") == b"data: {}\n\n"
    assert strike.feed(b"is sk-") == b"is "
    assert strike.feed(b"a word") == b"sk-a word"
    assert strike.end() == b""


def test_a_quote_in_a_key_is_found_as_json_writes_it():
    key = 'pass"word\\1'
    out, struck = passed(key, json.dumps({"error": f"bad key {key}"}).encode(), [20])
    assert struck
    assert b"word" not in out


@pytest.mark.parametrize("streamed", [True, False])
def test_through_the_relay(relayed, play, tmp_path, streamed):
    """In the head, in one piece, and across two chunks."""
    gate = threading.Event()
    kind = b"text/event-stream" if streamed else b"application/json"
    body = [b'data: {"error": "key sk-secr', b'et/123 and sk-secret/123 are bad"}\n\n']
    head = b"HTTP/1.1 200 OK\r\nX-Echo: Bearer sk-secret/123\r\nContent-Type: %b\r\n" % kind
    parts = [head + b"Transfer-Encoding: chunked\r\n\r\n", play.chunk(body[0]), gate, play.chunk(body[1])]
    engine, relay, address = relayed([*parts, play.LAST_CHUNK], api_key=KEY)
    with play.connect(address) as connection:
        connection.sendall(play.post())
        answer = b""
        while b'"error": "key ' not in answer:
            answer += connection.recv(65536) or pytest.fail("the answer ended")
        gate.set()
        answer += play.read_all(connection)
    assert f"Authorization: Bearer {KEY}" in engine.played[0].head
    assert b"secr" not in answer
    assert b"X-Echo: Bearer *************\r\n" in answer
    relay.exchanges(play.label())
    (exchange,) = read_exchanges(tmp_path / "exchanges.jsonl", warn=pytest.fail)
    assert exchange.redacted
    assert exchange.response == b"".join(body).replace(KEY.encode(), b"*" * len(KEY))
    assert exchange.response_bytes == len(b"".join(body))


@pytest.mark.parametrize("name", ["last chunk", "length", "close", "torn"])
def test_what_was_held_back_is_not_lost(relayed, play, tmp_path, name):
    """However the answer ends: it was no key."""
    parts = {
        "last chunk": [play.sse_head(), play.chunk(b"data: sk-"), play.LAST_CHUNK],
        "length": [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nsk-"],
        "close": [b"HTTP/1.1 200 OK\r\n\r\nsk-"],
        "torn": [play.sse_head(), play.chunk(b"data: sk-")],
    }[name]
    _, relay, address = relayed(parts, api_key=KEY)
    assert b"sk-" in play.ask(address, play.post())
    relay.exchanges(play.label())
    (exchange,) = read_exchanges(tmp_path / "exchanges.jsonl", warn=pytest.fail)
    assert exchange.response.endswith(b"sk-")
    assert not exchange.redacted
    assert (exchange.fault is None) == (name != "torn")
