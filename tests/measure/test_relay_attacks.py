"""Nothing but the model endpoints is reachable through the relay, however a request is written."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.measure.exchange import read_exchanges
from bench.measure.relay import Relay

FORBIDDEN = [
    "GET /metrics",
    "GET /slots",
    "POST /slots/0?action=erase",
    "GET /props",
    "GET /v1/models/",
    "GET //v1/models",
    "GET /v1/models/../../metrics",
    "GET /v1/models/..%2f..%2fmetrics",
    "GET /v1/models%3f",
    "GET /v1/models;x=/metrics",
    "GET /v1/models#/metrics",
    "GET /v1%2fmodels",
    "GET /V1/models",
    "GET /v1/models\\..\\metrics",
    "GET http://127.0.0.1/metrics",
    "GET http://127.0.0.1/v1/models",
    "GET metrics",
    "GET *",
    "POST /v1/models",
    "GET /v1/chat/completions",
    "DELETE /v1/chat/completions",
    "OPTIONS /v1/chat/completions",
    "HEAD /v1/models",
    "CONNECT 127.0.0.1:80",
    "POST /v1/chat/completions/",
    "POST /v1/chat/completions/metrics",
    "POST /v1/embeddings",
    "POST /completion",
    "POST /tokenize",
]


@pytest.mark.parametrize("line", FORBIDDEN)
def test_everything_else_is_404(relayed, play, line):
    engine, relay, address = relayed([])
    answer = play.ask(address, f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi".encode())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert relay.refused(play.label()) == 1
    assert relay.exchanges(play.label()) == ()
    assert engine.played == []


def test_a_query_is_dropped(relayed, play):
    engine, _, address = relayed(play.json_answer({"ok": 1}))
    assert b'"ok"' in play.ask(address, play.post(path="/v1/messages?beta=true&path=/metrics"))
    assert engine.played[0].head.startswith("POST /v1/messages HTTP/1.1\r\n")


MALFORMED = {
    "two lengths": b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
    "list of lengths": b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\nhi",
    "length and chunked": b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "other coding": b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "hidden coding": b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "signed length": b"POST /v1/completions HTTP/1.1\r\nContent-Length: +2\r\n\r\nhi",
    "hex length": b"POST /v1/completions HTTP/1.1\r\nContent-Length: 0x2\r\n\r\nhi",
    "folded header": b"POST /v1/completions HTTP/1.1\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nhi",
    "bare line feed": b"POST /v1/completions HTTP/1.1\r\nX: a\nGET /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
    "bare carriage return": b"POST /v1/completions HTTP/1.1\r\nX: a\rb\r\nContent-Length: 2\r\n\r\nhi",
    "null byte": b"POST /v1/completions HTTP/1.1\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nhi",
    "blank before colon": b"POST /v1/completions HTTP/1.1\r\nContent-Length : 2\r\n\r\nhi",
    "leading empty line": b"\r\nPOST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
    "two blanks": b"POST  /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
    "tab": b"POST\t/v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
    "other version": b"POST /v1/completions HTTP/2.0\r\nContent-Length: 2\r\n\r\nhi",
    "no version": b"GET /v1/models\r\n\r\n",
    "lower case": b"get /v1/models HTTP/1.1\r\n\r\n",
    "HTTP/1.0": b"POST /v1/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi",
    "bad chunk": b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=1\r\nhi\r\n0\r\n\r\n",
    "long chunk": b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n",
    "endless head": b"GET /v1/models HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
    "many headers": b"GET /v1/models HTTP/1.1\r\n" + b"X: a\r\n" * 200 + b"\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_never_reach_the_engine(relayed, play, name):
    engine, relay, address = relayed([])
    assert play.ask(address, MALFORMED[name]).startswith(b"HTTP/1.1 400 ")
    assert relay.refused(play.label()) == 1
    assert engine.played == []


def test_what_follows_a_request_is_never_read_as_one(relayed, play):
    engine, relay, address = relayed(play.json_answer({"ok": 1}))
    smuggled = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = play.ask(address, play.post() + smuggled + play.post())
    assert answer.count(b"HTTP/1.1 ") == 1
    assert len(relay.exchanges(play.label())) == 1
    assert len(engine.played) == 1
    assert b"metrics" not in engine.played[0].request


def test_half_a_request_asks_nothing_of_the_engine(relayed, play):
    engine, relay, address = relayed([])
    for half in (b"POST /v1/completions HT", play.post(b"x" * 100)[:-1]):
        with play.connect(address) as connection:
            connection.sendall(half)
    with play.connect(address):
        pass
    assert relay.close_session(play.label()) == ()
    assert engine.played == []


def test_expect_continue_and_chunked_bodies(relayed, play):
    engine, _, address = relayed(play.json_answer({"ok": 1}))
    head = b"POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    with play.connect(address) as connection:
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.sendall(b"3\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: 1\r\n\r\n")
        assert b'"ok"' in play.read_all(connection)
    assert engine.played[0].body == b"abcde"
    assert "expect" not in engine.played[0].head.lower()


def test_interim_answers_are_dropped(relayed, play):
    parts = play.json_answer({"ok": 1})
    _, _, address = relayed([b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", *parts])
    assert play.ask(address, play.post()).startswith(b"HTTP/1.1 200 OK\r\n")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bodies_are_the_same_bytes_on_both_sides(engine, play, tmp_path_factory, data):
    """Any bytes, in any pieces, through a real relay; the evidence gives them back too."""
    requests = data.draw(st.lists(st.binary(max_size=400), min_size=1, max_size=3))
    pieces = data.draw(st.lists(st.binary(min_size=1, max_size=200), max_size=8))
    streamed = data.draw(st.booleans())
    head = play.sse_head() if streamed else b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    served = engine([head, *(play.chunk(piece) for piece in pieces), play.LAST_CHUNK])
    folder = tmp_path_factory.mktemp("evidence")
    with Relay("127.0.0.1", served.port, api_key=None) as relay:
        address = relay.open_session(play.label(), folder)
        for request in requests:
            answer = play.ask(address, play.post(request)).partition(b"\r\n\r\n")[2]
            assert b"".join(_chunks(answer)) == b"".join(pieces)
        relay.close_session(play.label())
    kept = read_exchanges(folder / "exchanges.jsonl", warn=pytest.fail)
    assert [exchange.request for exchange in kept] == requests == [played.body for played in served.played]
    assert {exchange.response for exchange in kept} == {b"".join(pieces)}


def _chunks(data: bytes):
    while data:
        size, _, data = data.partition(b"\r\n")
        yield data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]
