"""The relay before engines of every shape: bytes, instants, counts, faults, evidence."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from bench.errors import EvidenceError, HarnessError, UsageError
from bench.measure.exchange import read_exchanges, request_record
from bench.measure.relay import Relay
from bench.measure.stream import AnswerReader


def kept(folder):
    return read_exchanges(folder / "exchanges.jsonl", warn=pytest.fail)


def unchunked(answer: bytes) -> bytes:
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"chunked" not in head:
        return rest
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size, 16):
            return body
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    raise AssertionError("no last chunk")


def test_a_stream_passes_unchanged_and_is_counted(relayed, play, tmp_path, profile):
    events = (play.ROLE, b": ping\n\n", play.delta("one"), play.delta("two"), play.delta(finish="stop"), play.USAGE)
    engine, relay, address = relayed(play.whole_stream(*events, play.DONE))
    request = json.dumps({"stream": True, "messages": [{"role": "user", "content": "ü" * 300}]}).encode()
    answer = play.ask(address, play.post(request))
    assert unchunked(answer) == b"".join(events) + play.DONE
    assert engine.played[0].body == request
    (summary,) = relay.exchanges(play.label())
    assert (summary.status, summary.finish_reason, summary.error) == (200, "stop", None)
    assert (summary.prompt_tokens, summary.output_tokens) == (12, 3)
    assert relay.output_tokens(play.label()) == 3
    (exchange,) = kept(tmp_path)
    assert (exchange.request, exchange.response) == (request, b"".join(events) + play.DONE)
    record = request_record(exchange, profile)
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens, record.reasoning_tokens) == (12, 8, 3, 1)
    assert (record.drafted_tokens, record.accepted_tokens) == (4, 3)
    assert record.ttft_seconds == pytest.approx(0.002)
    assert (record.source, record.reason, record.response_id) == ("engine-response", None, "chatcmpl-1")


def test_instants_against_the_engines_own(relayed, play, tmp_path, profile):
    gates = [threading.Event() for _ in range(5)]
    pieces = [
        play.ROLE + b": prompt progress\n\n",
        play.delta(reasoning_content="hm"),
        play.delta("a") + play.delta("b"),
        play.delta(finish="stop"),
        play.USAGE + play.DONE,
    ]
    parts = [play.sse_head()]
    for gate, piece in zip(gates, pieces, strict=True):
        parts += [gate, play.chunk(piece)]
    engine, relay, address = relayed([*parts, play.LAST_CHUNK])
    with play.connect(address) as connection:
        asked_at = time.monotonic()
        connection.sendall(play.post())
        answer, seen_at = b"", []
        for gate, piece in zip(gates, pieces, strict=True):
            gate.set()
            while piece not in answer:
                answer += connection.recv(65536)
            seen_at.append(time.monotonic())
        play.read_all(connection)
    (exchange,) = kept_after(relay, play, tmp_path)
    record = request_record(exchange, profile)
    sent = [instant for instant, _ in engine.played[0].sent]
    assert asked_at <= record.sent_at <= record.first_byte_at <= seen_at[0]
    assert sent[0] <= record.first_byte_at
    assert sent[2] <= record.first_token_at <= seen_at[1] <= sent[3]
    assert sent[3] <= record.last_token_at <= seen_at[2] <= sent[4]
    assert seen_at[2] <= record.ended_at


def kept_after(relay, play, folder):
    relay.exchanges(play.label())
    return kept(folder)


def test_evidence_of_arrivals_can_be_read_again(relayed, play, tmp_path):
    pieces = [play.delta("x" * size) for size in (1, 5000, 70_000, 3)]
    _, relay, address = relayed(play.whole_stream(play.ROLE, *pieces, play.delta(finish="stop"), play.DONE))
    play.ask(address, play.post())
    (exchange,) = kept_after(relay, play, tmp_path)
    ends = [offset for offset, _ in exchange.arrivals]
    assert ends == sorted(ends)
    assert all(earlier[1] <= later[1] for earlier, later in zip(exchange.arrivals, exchange.arrivals[1:], strict=False))
    reader, start = AnswerReader(), 0
    for end in ends:
        assert reader.feed(exchange.response[start:end])
        start = end
    assert not reader.feed(exchange.response[start:])


@pytest.mark.parametrize("framing", ["length", "close"])
def test_plain_bodies(relayed, play, tmp_path, profile, framing):
    choice = {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}
    value = {"id": "c", "choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    parts = play.json_answer(value)
    if framing == "close":
        head, _, body = parts[0].partition(b"\r\n\r\n")
        parts = [head.partition(b"\r\nContent-Length")[0].replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n\r\n" + body]
    _, relay, address = relayed(parts)
    assert json.loads(unchunked(play.ask(address, play.post()))) == value
    record = request_record(kept_after(relay, play, tmp_path)[0], profile)
    assert (record.streamed, record.first_token_at, record.error) == (False, None, None)
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens) == (5, None, 2)
    assert record.reason.startswith("ttft_seconds: the answer has no timings.prompt_ms")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-finish", "truncated: the answer ended without a finish reason"),
        ("comments", "truncated: the answer ended without a finish reason"),
        ("error-inside", "Context size has been exceeded. (type server_error, code 500)"),
        ("cut", "truncated: the engine closed the connection within its answer"),
        ("reset", "reset: the engine broke the connection off"),
        ("bad-chunk", "malformed: not HTTP, a chunk's size is malformed"),
    ],
)
def test_faults_within_a_stream(relayed, play, tmp_path, profile, *, name, said):
    trouble = {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}
    start = [play.sse_head(), play.chunk(play.ROLE)]
    token = play.chunk(play.delta("a"))
    gate = threading.Event()
    parts = {
        "no-finish": [*start, token, play.chunk(play.USAGE + play.DONE), play.LAST_CHUNK],
        "comments": [*start, play.chunk(b": keepalive 1/2\n\n" * 3), play.LAST_CHUNK],
        "error-inside": [*start, token, play.chunk(play.event(trouble)), play.LAST_CHUNK],
        "cut": [*start, token],
        "reset": [*start, token, gate, play.RESET],
        "bad-chunk": [*start, token, b"zz\r\n"],
    }[name]
    _, relay, address = relayed(parts)
    with play.connect(address) as connection:
        connection.sendall(play.post())
        answer = connection.recv(65536)
        gate.set()
        answer += play.read_all(connection)
    assert b" 200 " in answer.partition(b"\r\n")[0]
    assert answer.endswith(play.LAST_CHUNK) == (name in ("no-finish", "comments", "error-inside"))
    (summary,) = relay.exchanges(play.label())
    assert summary.error.startswith(said)
    record = request_record(kept(tmp_path)[0], profile)
    assert record.error.startswith(said)
    assert (record.ttft_seconds, record.decode_seconds, record.output_tokens) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reset", "reset: "),
        ("eof", "closed: the engine closed the connection without an answer"),
        ("not-http", "malformed: not HTTP, it does not begin with HTTP/1"),
        ("two-lengths", "malformed: not HTTP, the body's length is stated more than once"),
        ("stall", "stalled: the engine sent nothing for 0.2 s"),
    ],
)
def test_faults_before_an_answer(relayed, play, tmp_path, name, said):
    parts = {
        "reset": [play.RESET],
        "eof": [],
        "not-http": [b"SSH-2.0-x\r\n", play.UNTIL_CLIENT_LEAVES],
        "two-lengths": [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"],
        "stall": [play.UNTIL_CLIENT_LEAVES],
    }[name]
    _, relay, address = relayed(parts, stall_seconds=0.2)
    answer = play.ask(address, play.post())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert said in json.loads(unchunked(answer))["error"]["message"]
    (summary,) = relay.exchanges(play.label())
    assert summary.status is None
    assert summary.error.startswith(said)
    assert kept(tmp_path)[0].status is None


def test_an_answer_in_one_piece_may_take_longer_than_a_stream(play, relayed):
    """The engine sends nothing to either, and both are given up, each after its own time."""
    silent = [play.UNTIL_CLIENT_LEAVES]
    engine, relay, address = relayed(silent, stall_seconds=0.1, one_piece_stall_seconds=0.3)
    engine.plays.append(silent)
    for body in (b"{}", b'{"stream":true}'):
        play.ask(address, play.post(body))
    one_piece, streamed = relay.exchanges(play.label())
    assert one_piece.error == "stalled: the engine sent nothing for 0.3 s"
    assert one_piece.ended_at - one_piece.sent_at >= 0.25
    assert streamed.error == "stalled: the engine sent nothing for 0.1 s"


def test_an_engine_that_takes_no_connection(play, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with Relay("127.0.0.1", port, api_key=None) as relay:
        address = relay.open_session(play.label(), tmp_path)
        assert play.ask(address, play.post()).startswith(b"HTTP/1.1 502 ")
        (summary,) = relay.close_session(play.label())
    assert summary.error.startswith("refused: ")


def test_an_http_error_keeps_the_engines_words(relayed, play, tmp_path, profile):
    trouble = {"error": {"message": "needs 9 bytes, 3 free", "type": "insufficient_memory", "code": None}}
    _, relay, address = relayed(play.json_answer(trouble, "400 Bad Request"))
    assert play.ask(address, play.post()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    (summary,) = relay.exchanges(play.label())
    assert (summary.status, summary.error) == (400, "needs 9 bytes, 3 free (type insufficient_memory)")
    assert request_record(kept(tmp_path)[0], profile).error == summary.error


def test_a_client_that_leaves_frees_the_engine_at_once(relayed, play, tmp_path):
    parts = [play.sse_head(), play.chunk(play.delta("a")), play.UNTIL_CLIENT_LEAVES]
    engine, relay, address = relayed(parts)
    with play.connect(address) as connection:
        connection.sendall(play.post())
        while b'"a"' not in connection.recv(65536):
            pass
    assert engine.played[0].left.wait(20)
    (summary,) = relay.exchanges(play.label())
    assert summary.error == "aborted: the client went away before the answer's end"
    assert len(kept(tmp_path)[0].arrivals) == 1


def test_a_client_may_leave_after_the_closing_event(relayed, play):
    gate = threading.Event()
    events = play.delta("a") + play.delta(finish="stop") + play.USAGE + play.DONE
    _, relay, address = relayed([play.sse_head(), play.chunk(events), gate, play.LAST_CHUNK])
    with play.connect(address) as connection:
        connection.sendall(play.post())
        answer = b""
        while play.DONE not in answer:
            answer += connection.recv(65536)
    threading.Timer(0.05, gate.set).start()
    (summary,) = relay.exchanges(play.label())
    assert (summary.error, summary.output_tokens) == (None, 3)


def test_close_session_cuts_what_is_under_way(relayed, play, tmp_path):
    engine, relay, address = relayed([play.sse_head(), play.chunk(play.delta("a")), play.UNTIL_CLIENT_LEAVES])
    with play.connect(address) as connection, play.connect(address):
        connection.sendall(play.post())
        connection.recv(65536)
        (summary,) = relay.close_session(play.label())
        assert summary.error == "aborted: the session ended before the answer's end"
        assert engine.played[0].left.wait(20)
    assert not address.socket.exists()
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", address.port), 5):
        pass
    with pytest.raises(HarnessError, match="not open"):
        relay.exchanges(play.label())
    # The same number may be opened anew, e.g. by a later segment, and its file goes on.
    relay.open_session(play.label(), tmp_path)


def test_headers_key_and_session(relayed, play, tmp_path):
    engine, relay, address = relayed(
        play.json_answer({"error": "bad key sk-secret-1"}, "401 No"), api_key="sk-secret-1"
    )
    extra = (
        "Authorization: Bearer dummy\r\nX-Api-Key: dummy\r\nx_runcard_session: forged\r\nX-Runcard-Session: forged\r\n"
        "Accept-Encoding: gzip\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-Kept: yes\r\nUpgrade: h2c\r\n"
    )
    answer = play.ask(address, play.post(extra=extra))
    assert answer.startswith(b"HTTP/1.1 401 ")
    head = engine.played[0].head
    relay.exchanges(play.label())
    lines = head.split("\r\n")
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert "Authorization: Bearer sk-secret-1" in lines
    assert f"X-Runcard-Session: {play.label().header}" in lines
    assert "Accept-Encoding: identity" in lines
    assert "X-Kept: yes" in lines
    assert not any(word in head.lower() for word in ("dummy", "forged", "gzip", "x-hop", "upgrade"))
    (exchange,) = kept(tmp_path)
    assert exchange.redacted
    assert b"bad key ***********" in exchange.response
    assert b"sk-secret-1" not in (tmp_path / "exchanges.jsonl").read_bytes()
    assert all(b"sk-secret-1" not in body for body in (exchange.request, exchange.response))


def test_an_address_that_leads_nowhere():
    with pytest.raises(UsageError, match=r"the engine's address no\.such\.name\.invalid:1 leads nowhere"):
        Relay("no.such.name.invalid", 1, api_key=None)


def test_a_name_with_several_addresses(engine, play, tmp_path):
    """`localhost` may be ::1 first, where an engine on 127.0.0.1 does not listen."""
    served = engine(play.json_answer({"ok": 1}))
    with Relay("localhost", served.port, api_key=None) as relay:
        address = relay.open_session(play.label(), tmp_path)
        assert b'"ok"' in play.ask(address, play.post())
    assert f"Host: localhost:{served.port}" in served.played[-1].head


def test_a_key_that_no_header_can_carry_is_refused_unseen():
    with pytest.raises(UsageError) as caught:
        Relay("127.0.0.1", 1, api_key="sk-1\n")
    assert "sk-1" not in str(caught.value)


def test_a_line_of_ten_megabytes(relayed, play, tmp_path):
    huge = play.delta("y" * 10_000_000)
    events = (play.ROLE, huge, play.delta(finish="stop"), play.USAGE)
    _, relay, address = relayed(play.whole_stream(*events, play.DONE))
    request = json.dumps({"text": "z" * 5_000_000}).encode()
    assert unchunked(play.ask(address, play.post(request))) == b"".join(events) + play.DONE
    (summary,) = relay.exchanges(play.label())
    assert (summary.error, summary.output_tokens) == (None, 3)
    (exchange,) = kept(tmp_path)
    assert exchange.request == request
    assert len(exchange.arrivals) == 1


def test_a_slow_client_slows_the_engine_and_nobody_has_stalled(relayed, play, tmp_path):
    body = b"0123456789abcdef" * 2_500_000
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    _, relay, address = relayed([head, body], stall_seconds=1.0)
    with play.connect(address) as connection:
        connection.sendall(play.post())
        time.sleep(1.5)  # longer than an engine may be silent
        pieces = []
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
    assert b"".join(pieces).endswith(body)
    (exchange,) = kept_after(relay, play, tmp_path)
    assert exchange.fault is None
    assert exchange.response == body


def test_an_answer_to_a_request_that_was_not_read(play, tmp_path):
    """An engine that refuses a request by its head: the answer passes, and what was not sent is no fault."""
    request = b"x" * 30_000_000
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Relay("127.0.0.1", server.getsockname()[1], api_key=None) as relay,
    ):
        address = relay.open_session(play.label(), tmp_path)
        with play.connect(address) as connection, ThreadPoolExecutor(1) as pool:
            sending = pool.submit(connection.sendall, play.post(request))
            asked, _ = server.accept()
            with asked:
                asked.recv(1000)
                asked.sendall(play.json_answer({"error": "too large"}, "413 No")[0])
                assert play.read_all(connection).startswith(b"HTTP/1.1 413 No\r\n")
                sending.result()
        (summary,) = relay.close_session(play.label())
    assert (summary.status, summary.error) == (413, "too large")
    (exchange,) = kept(tmp_path)
    assert exchange.request == request
    assert exchange.sent_at <= exchange.first_byte_at


def test_sixty_four_streams_at_once(relayed, play, tmp_path):
    gate = threading.Event()
    pieces = [play.delta(f"{number} ") for number in range(20)]
    parts = [play.sse_head(), play.chunk(play.ROLE), gate, *(play.chunk(piece) for piece in pieces)]
    parts += [play.chunk(play.delta(finish="stop") + play.USAGE + play.DONE), play.LAST_CHUNK]
    engine, relay, address = relayed(parts)
    bodies = [json.dumps({"n": number}).encode() for number in range(64)]
    with ThreadPoolExecutor(64) as pool:
        answers = [pool.submit(play.ask, address, play.post(body)) for body in bodies]
        while len(engine.played) < 64:
            time.sleep(0.01)
        gate.set()
        whole = {unchunked(answer.result()) for answer in answers}
    assert len(whole) == 1
    summaries = relay.exchanges(play.label())
    assert [summary.index for summary in summaries] == list(range(64))
    assert all(summary.error is None and summary.output_tokens == 3 for summary in summaries)
    assert relay.output_tokens(play.label()) == 64 * 3
    assert sorted(exchange.request for exchange in kept(tmp_path)) == sorted(bodies)


@pytest.mark.parametrize("way", ["socket", "port"])
def test_an_ordinary_client(relayed, play, way):
    _, relay, address = relayed(play.whole_stream(play.ROLE, play.delta("a"), play.delta(finish="stop"), play.DONE))
    transport = httpx.HTTPTransport(uds=str(address.socket)) if way == "socket" else None
    with httpx.Client(transport=transport, trust_env=False) as client:
        for _ in range(3):  # its connection pool must cope with one request a connection
            answer = client.post(f"http://127.0.0.1:{address.port}/v1/chat/completions", json={"stream": True})
            assert answer.status_code == 200
            assert answer.text.endswith("data: [DONE]\n\n")
    assert len(relay.exchanges(play.label())) == 3


def test_the_list_of_models_is_evidence_but_no_exchange_of_the_session(relayed, play, tmp_path):
    engine, relay, address = relayed(play.json_answer({"data": [{"id": "m"}]}))
    assert b'"m"' in play.ask(address, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    assert relay.exchanges(play.label()) == ()
    assert kept(tmp_path)[0].path == "/v1/models"
    assert "Content-Length" not in engine.played[0].head


def test_other_users_can_connect_but_not_look_around(relayed, play):
    _, _, address = relayed([])
    assert stat.S_IMODE(address.socket.stat().st_mode) == 0o666
    assert stat.S_IMODE(address.socket.parent.stat().st_mode) == 0o711
    assert len(os.fsencode(address.socket)) < 100


def test_hooks_hear_of_every_call_of_the_model(relayed, play, tmp_path):
    heard: list[tuple] = []
    gate = threading.Event()
    parts = [play.sse_head(), play.chunk(play.delta("a")), gate, play.chunk(play.DONE), play.LAST_CHUNK]
    _, relay, address = relayed(
        play.json_answer({"data": []}),
        parts,
        [play.RESET],
        on_begin=lambda *told: heard.append(("begin", *told)),
        on_end=lambda *told: heard.append(("end", *told)),
    )
    play.ask(address, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    with play.connect(address) as connection:
        connection.sendall(play.post())
        while b'"a"' not in connection.recv(65536):
            pass
        assert [one[0] for one in heard] == ["begin"]
        gate.set()
        play.read_all(connection)
    play.ask(address, play.post())
    play.ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    relay.close_session(play.label())
    assert [(what, one, index) for what, one, index, _ in heard] == [
        (what, play.label(), index) for index in (1, 2) for what in ("begin", "end")
    ]
    told = [at for *_, at in heard]
    assert told == [at for one in kept(tmp_path)[1:] for at in (one.sent_at, one.ended_at)]


@pytest.mark.parametrize("error", [OSError("disk on fire"), RuntimeError("a bug")])
@pytest.mark.parametrize("hook", ["on_begin", "on_end"])
def test_a_hook_that_raises_breaks_the_relay_but_no_answer(engine, play, tmp_path, hook, error):
    def broken(*_told):
        raise error

    served = engine(play.json_answer({"ok": 1}))

    def run():
        with Relay("127.0.0.1", served.port, api_key=None, **{hook: broken}) as relay:
            address = relay.open_session(play.label(), tmp_path)
            assert b'"ok"' in play.ask(address, play.post())
            relay.close_session(play.label())

    with pytest.raises((HarnessError, EvidenceError)):
        run()


def test_sessions_do_not_mix(relayed, play, tmp_path):
    stream = play.whole_stream(play.delta("a"), play.delta(finish="stop"), play.USAGE, play.DONE)
    engine, relay, address = relayed(stream)
    second = tmp_path / "second"
    second.mkdir()
    other = relay.open_session(play.label(2), second)
    play.ask(address, play.post())
    play.ask(other, play.post())
    play.ask(other, play.post())
    assert len(relay.close_session(play.label(2))) == 2
    assert len(relay.exchanges(play.label())) == 1
    assert [exchange.label.session for exchange in kept(second)] == [2, 2]
    assert sum("session=2" in played.head for played in engine.played) == 2
    with pytest.raises(HarnessError, match="open already"):
        relay.open_session(play.label(), tmp_path)


def test_evidence_that_cannot_be_written_is_said(engine, play, tmp_path):
    whole = contextlib.ExitStack()
    relay = whole.enter_context(Relay("127.0.0.1", engine(play.json_answer({})).port, api_key=None))
    address = relay.open_session(play.label(), tmp_path)
    with pytest.raises(EvidenceError, match="cannot be written"):
        relay.open_session(play.label(2), tmp_path / "missing")
    with no_file_may_grow():
        play.ask(address, play.post())
        with pytest.raises(EvidenceError, match="could not keep evidence"):
            relay.exchanges(play.label())
    # A relay that broke stays broken: nothing of its run may be taken for whole.
    with pytest.raises(EvidenceError, match="could not keep evidence"):
        relay.close_session(play.label())
    with pytest.raises(EvidenceError, match="could not keep evidence"):
        whole.close()


@contextlib.contextmanager
def no_file_may_grow():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
