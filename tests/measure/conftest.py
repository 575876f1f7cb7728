"""A real engine on a real socket that plays what a test lays out, byte for byte, and knows when it sent what."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from bench.contracts import RelayAddress, SessionLabel
from bench.engine_profile import EngineProfile, ResponseField
from bench.measure.relay import Relay

RESET = "reset"
UNTIL_CLIENT_LEAVES = "until-client-leaves"
Part = bytes | str | threading.Event


@dataclass
class Played:
    """One connection as the engine saw it."""

    request: bytes = b""
    sent: list[tuple[float, bytes]] = field(default_factory=list)
    """Instant before each send, and what was sent."""

    left: threading.Event = field(default_factory=threading.Event)
    """Set when the engine saw its client go away."""

    @property
    def head(self) -> str:
        return self.request.partition(b"\r\n\r\n")[0].decode("latin-1")

    @property
    def body(self) -> bytes:
        return self.request.partition(b"\r\n\r\n")[2]


class PlayedEngine:
    """Answers the n-th connection with the n-th list of parts; the last list serves all later ones."""

    def __init__(self, *plays: Sequence[Part]) -> None:
        self.plays = list(plays)
        self.played: list[Played] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._lock = threading.Lock()
        self._threads[0].start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                played = Played()
                parts = self.plays[min(len(self.played), len(self.plays) - 1)]
                self.played.append(played)
                thread = threading.Thread(target=self._serve, args=(connection, parts, played))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, parts: Sequence[Part], played: Played) -> None:
        with connection, contextlib.suppress(ConnectionError):
            connection.settimeout(20)
            _read_request(connection, played)
            for part in parts:
                if isinstance(part, threading.Event):
                    assert part.wait(20)
                elif part == RESET:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif part == UNTIL_CLIENT_LEAVES:
                    with contextlib.suppress(ConnectionError):
                        while connection.recv(65536):
                            pass
                    played.left.set()
                elif isinstance(part, bytes):
                    played.sent.append((time.monotonic(), part))
                    connection.sendall(part)


def _read_request(connection: socket.socket, played: Played) -> None:
    while b"\r\n\r\n" not in played.request:
        data = connection.recv(65536)
        if not data:
            return
        played.request += data
    length = next(
        (int(line.split(":")[1]) for line in played.head.split("\r\n") if line.lower().startswith("content-length:")), 0
    )
    while len(played.body) < length:
        data = connection.recv(1 << 20)
        if not data:
            return
        played.request += data


def sse_head(extra: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{extra}Transfer-Encoding: chunked\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(content: object = None, *, finish: str | None = None, **more: object) -> bytes:
    change = {"content": content} if content is not None else {}
    choice = {"index": 0, "delta": {**change, **more}, "finish_reason": finish}
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]})


ROLE = delta(role="assistant", content=None)
DONE = b"data: [DONE]\n\n"
USAGE = event(
    {
        "id": "chatcmpl-1",
        "choices": [],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
        "timings": {"prompt_n": 4, "prompt_ms": 2.0, "predicted_ms": 1.0, "draft_n": 4, "draft_n_accepted": 3},
    }
)
LAST_CHUNK = b"0\r\n\r\n"


def whole_stream(*events: bytes) -> list[Part]:
    return [sse_head(), *(chunk(one) for one in events), LAST_CHUNK]


def json_answer(value: object, status: str = "200 OK") -> list[Part]:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return [head.encode() + body]


def post(body: bytes = b'{"stream":true}', path: str = "/v1/chat/completions", extra: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body


def connect(address: RelayAddress) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(str(address.socket))
    return connection


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while piece := connection.recv(1 << 20):
        data += piece
    return data


def ask(address: RelayAddress, request: bytes) -> bytes:
    """The whole answer as bytes, head and framing included."""
    with connect(address) as connection:
        connection.sendall(request)
        return read_all(connection)


def label(session: int = 1) -> SessionLabel:
    return SessionLabel(run_id="run-1", session=session, role="builder", task="T001", attempt=1, retry=0)


@pytest.fixture(scope="session")
def play() -> ModuleType:
    """The helpers of this file, by name."""
    return sys.modules[__name__]


@pytest.fixture
def profile() -> EngineProfile:
    return EngineProfile(
        name="played",
        title="Played engine",
        simulated=False,
        response_fields={
            "ttft_seconds": ResponseField(path="timings.prompt_ms", unit="ms"),
            "prefill_seconds": ResponseField(path="timings.prompt_ms", unit="ms"),
            "decode_seconds": ResponseField(path="timings.predicted_ms", unit="ms"),
            "drafted_tokens": ResponseField(path="timings.draft_n", unit="tokens"),
            "accepted_tokens": ResponseField(path="timings.draft_n_accepted", unit="tokens"),
            "computed_prompt_tokens": ResponseField(path="timings.prompt_n", unit="tokens"),
        },
        includes={"ttft_seconds": "queueing excluded"},
        unavailable={},
        memory_errors=(),
        context_errors=(),
    )


@pytest.fixture
def engine() -> Iterator[Callable[..., PlayedEngine]]:
    started: list[PlayedEngine] = []

    def start(*plays: Sequence[Part]) -> PlayedEngine:
        started.append(PlayedEngine(*plays))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def relayed(engine: Callable[..., PlayedEngine], tmp_path: Path) -> Iterator[Callable[..., tuple]]:
    """Starts an engine that plays, a relay before it and a session on that; returns (engine, relay, address)."""
    with contextlib.ExitStack() as stack:

        def start(*plays: Sequence[Part], **options: object) -> tuple[PlayedEngine, Relay, RelayAddress]:
            played = engine(*plays)
            relay = stack.enter_context(Relay("127.0.0.1", played.port, **{"api_key": None, **options}))
            return played, relay, relay.open_session(label(), tmp_path)

        yield start
