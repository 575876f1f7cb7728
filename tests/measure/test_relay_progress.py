"""What the relay calls progress, on a clock that the test moves."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from dataclasses import dataclass

import pytest

from bench.contracts import SessionProgress
from bench.errors import HarnessError
from bench.measure.answer_text import last_answer_text
from bench.measure.exchange import read_exchanges
from bench.measure.relay import Relay
from bench.processes import free_port


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Opened:
    """A session whose only answer comes piece by piece, each when the test wants it; the engine then stays."""

    def __init__(self, relayed, play, clock, *pieces, request=None, **options):
        self.gates = [threading.Event() for _ in (*pieces, "the end")]
        parts = itertools.chain.from_iterable(zip(self.gates, pieces, strict=False))
        self.engine, self.relay, self.address = relayed([*parts, self.gates[-1]], clock=clock, **options)
        self._label = play.label()
        self.connection = play.connect(self.address)
        self._request = request or play.post()

    def ask(self):
        self.connection.sendall(self._request)
        until(lambda: self.engine.played and self.engine.played[0].body)

    def gives(self, number):
        """The engine sends its next piece, and the client has some of it."""
        self.gates[number].set()
        assert self.connection.recv(65536)

    def to_end(self, play):
        for gate in self.gates:
            gate.set()
        play.read_all(self.connection)
        self.relay.exchanges(self._label)

    @property
    def progress(self):
        return self.relay.progress(self._label)

    def close(self):
        for gate in self.gates:
            gate.set()
        self.connection.close()


@pytest.fixture
def opened(relayed, play, clock):
    with contextlib.ExitStack() as stack:

        def start(*pieces, **options):
            session = Opened(relayed, play, clock, *pieces, **options)
            stack.callback(session.close)
            return session

        yield start


def stands(underway, idle, *, held_back=False, in_one_piece=False):
    return SessionProgress(underway=underway, idle_seconds=idle, held_back=held_back, in_one_piece=in_one_piece)


def test_a_session_that_asks_nothing_is_idle_since_it_was_opened(opened, clock):
    session = opened(b"")
    assert session.progress == stands(0, 0)
    clock.now += 7
    assert session.progress == stands(0, 7)


def test_a_request_and_each_token_are_progress_and_what_surrounds_them_is_none(opened, clock, play):
    session = opened(
        play.sse_head() + play.chunk(play.ROLE),
        play.chunk(b": keep-alive\n\n"),
        play.chunk(play.delta("one")),
        play.chunk(play.delta("")),
        play.chunk(play.delta(finish="stop")) + play.chunk(play.USAGE) + play.chunk(play.DONE) + play.LAST_CHUNK,
    )
    clock.now += 5
    session.ask()
    assert session.progress == stands(1, 0)
    for number, idle in [(0, 2), (1, 4), (2, 0), (3, 2)]:
        clock.now += 2
        session.gives(number)
        assert session.progress == stands(1, idle), number
    clock.now += 2
    session.to_end(play)
    assert session.progress == stands(0, 0)
    clock.now += 3
    assert session.progress == stands(0, 3)


def test_a_token_counts_from_when_it_came_not_from_when_it_was_looked_at(opened, clock, play):
    session = opened(play.sse_head(), play.chunk(play.delta("one")))
    session.ask()
    session.gives(0)
    clock.now += 4
    session.gives(1)
    clock.now += 6
    assert session.progress == stands(1, 6)


def test_an_answer_in_one_piece_is_progress_only_at_its_end(opened, clock, play):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"
    session = opened(head + b'{"id"', b':"c"  ', b"}", request=play.post(b"{}"))
    session.ask()
    assert session.progress == stands(1, 0, in_one_piece=True)
    clock.now += 3
    session.gives(0)
    clock.now += 3
    session.gives(1)
    assert session.progress == stands(1, 6, in_one_piece=True)
    session.to_end(play)
    assert session.progress == stands(0, 0)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"stream": true}', False),
        (b'{"messages": [], "stream" :\ttrue}', False),
        (b'{"stream": false}', True),
        (b'{"messages": [{"content": "\\"stream\\": true"}]}', True),
        (b"no JSON", True),
    ],
)
def test_who_asked_for_no_stream_gets_an_answer_in_one_piece(opened, play, body, expected):
    session = opened(play.sse_head(), request=play.post(body))
    session.ask()
    assert session.progress.in_one_piece is expected
    session.gives(0)
    assert not session.progress.in_one_piece, "it comes as a stream all the same"


def test_a_refused_connection_is_an_answer_that_ended(clock, play, tmp_path):
    with Relay("127.0.0.1", free_port("127.0.0.1"), api_key=None, clock=clock) as relay:
        address = relay.open_session(play.label(), tmp_path)
        clock.now += 5
        play.ask(address, play.post())
        assert relay.progress(play.label()) == stands(0, 0)


@pytest.mark.parametrize("request_", [b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /slots HTTP/1.1\r\n\r\n"])
def test_asking_no_model_is_no_progress(relayed, clock, play, request_):
    _, relay, address = relayed(play.json_answer({"data": []}), clock=clock)
    clock.now += 5
    play.ask(address, request_)
    assert relay.progress(play.label()) == stands(0, 5)


def test_a_list_of_models_that_does_not_come_is_no_answer_that_is_owed(opened, clock):
    session = opened(b"", request=b"GET /v1/models HTTP/1.1\r\nContent-Length: 1\r\n\r\nx")
    session.ask()
    clock.now += 5
    assert session.progress == stands(0, 5)


def test_a_client_that_does_not_read_holds_back(opened, clock, play):
    """Nothing more is read of the engine, until the client goes on; that it does is progress."""
    session = opened(play.sse_head(), *[play.chunk(b": " + b"x" * 1_000_000 + b"\n\n")] * 24)
    session.ask()
    for gate in session.gates[:-1]:
        gate.set()
    until(lambda: session.progress.held_back)
    assert session.progress.underway == 1
    clock.now += 50
    assert session.progress == stands(1, 50, held_back=True)
    received = 0
    while received < 23_000_000:
        piece = session.connection.recv(1 << 20)  # no longer than its timeout
        assert piece
        received += len(piece)
    assert session.progress == stands(1, 0)


def test_sessions_are_apart(opened, clock, play, tmp_path):
    session = opened(play.sse_head(), play.chunk(play.delta("one")))
    (tmp_path / "2").mkdir()
    session.relay.open_session(play.label(2), tmp_path / "2")
    clock.now += 5
    session.ask()
    assert session.progress == stands(1, 0)
    assert session.relay.progress(play.label(2)) == stands(0, 5)
    session.relay.close_session(play.label(2))
    with pytest.raises(HarnessError):
        session.relay.progress(play.label(2))


def test_a_client_that_leaves_because_of_an_error_does_not_hide_it(opened, play, tmp_path):
    """The engine told the error inside the stream, and the client hangs up before the connection's end."""
    session = opened(
        play.sse_head() + play.chunk(play.delta("one")),
        play.chunk(play.event({"error": {"message": "slot is gone", "type": "server_error"}})),
        play.LAST_CHUNK,
    )
    session.ask()
    session.gives(0)
    session.gives(1)
    session.connection.close()
    until(lambda: not session.progress.underway)
    session.gates[2].set()
    (summary,) = session.relay.exchanges(play.label())
    assert summary.error == "slot is gone (type server_error)"
    (exchange,) = read_exchanges(tmp_path / "exchanges.jsonl", warn=pytest.fail)
    assert exchange.fault is None


def test_an_answer_whose_connection_ends_late_comes_before_the_next_one(opened, clock, play, tmp_path):
    """The client has the closing event and asks on; a busy engine ends the first connection only after that."""
    whole = play.sse_head() + b"".join(
        play.chunk(one) for one in (play.delta("first"), play.delta(finish="tool_calls"), play.DONE)
    )
    session = opened(whole, play.LAST_CHUNK)
    session.engine.plays.append(play.whole_stream(play.delta("second"), play.delta(finish="stop"), play.DONE))
    session.ask()
    clock.now += 1
    session.gives(0)
    session.connection.close()
    clock.now += 1
    play.ask(session.address, play.post())
    clock.now += 1
    session.gates[1].set()
    ended = session.relay.exchanges(play.label())
    assert [one.finish_reason for one in sorted(ended, key=lambda one: one.ended_at)] == ["tool_calls", "stop"]
    assert last_answer_text(tmp_path / "exchanges.jsonl", "") == "second"
    kept = read_exchanges(tmp_path / "exchanges.jsonl", warn=pytest.fail)
    assert [one.index for one in sorted(kept, key=lambda one: one.ended_at)] == [1, 0], "the connections ended so"
