"""A real engine-like server on loopback and a unix socket, and a box that is none: the command runs as it is."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.contracts import ExchangeSummary, RelayAddress, SessionLabel, SessionProgress, SessionRequest
from bench.engine_profile import EngineProfile


@dataclass(frozen=True, kw_only=True)
class Reply:
    """Bytes on the wire, how the connection ends after them, and what a relay would say of it."""

    data: bytes
    then: str = "close"
    """`close`, `reset`, or `stall` until the server stops."""

    status: int | None = 200
    finish_reason: str | None = None
    error: str | None = None
    output_tokens: int | None = None
    text: str = ""


def head(status=200, content_type="text/event-stream", extra=""):
    return f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nConnection: close\r\n{extra}\r\n".encode()


def event(value):
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def delta(content, *, finish=None, **more):
    return {"id": "resp-1", "choices": [{"index": 0, "delta": content, "finish_reason": finish}], **more}


USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 50,
    "total_tokens": 1050,
    "prompt_tokens_details": {"cached_tokens": 900},
    "completion_tokens_details": {"reasoning_tokens": 20},
}


def says(text, *, finish="stop", usage=USAGE, name="resp-1"):
    """A whole streamed answer of text, in two pieces, with comments and a reasoning piece between."""
    half = len(text) // 2
    pieces = [
        b": keep-alive\n\n",
        event({**delta({"role": "assistant", "content": ""}), "id": name}),
        event({**delta({"reasoning_content": "Let me see."}), "id": name}),
        event({**delta({"content": text[:half]}), "id": name}),
        event({**delta({"content": text[half:]}), "id": name}),
        event({**delta({}, finish=finish), "id": name}),
        event({"id": name, "choices": [], "usage": usage}),
        event(b"[DONE]"),
    ]
    return Reply(data=head() + b"".join(pieces), finish_reason=finish, output_tokens=50, text=text)


def calls(*tools, name="resp-1"):
    """A whole streamed answer of tool calls (name, arguments as a dict or as raw text), arguments in pieces."""
    pieces = []
    for index, (tool, arguments) in enumerate(tools):
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        begun = {"index": index, "id": f"c{index}", "type": "function", "function": {"name": tool, "arguments": ""}}
        pieces.append(delta({"tool_calls": [begun]}))
        parts = (raw[at : at + 7] for at in range(0, len(raw), 7))
        pieces.extend(delta({"tool_calls": [{"index": index, "function": {"arguments": part}}]}) for part in parts)
    pieces += [delta({}, finish="tool_calls"), {"id": name, "choices": [], "usage": USAGE}]
    data = head() + b"".join(event({**piece, "id": name}) for piece in pieces) + event(b"[DONE]")
    return Reply(data=data, finish_reason="tool_calls", output_tokens=50)


def fails(status, body, *, error=None):
    text = body if isinstance(body, str) else json.dumps(body)
    return Reply(data=head(status, "application/json") + text.encode(), status=status, error=error or text)


class EngineServer:
    """Answers the n-th request with the n-th reply (the last one again and again), on TCP and on a unix socket."""

    def __init__(self, folder: Path) -> None:
        self.replies: list[Reply] = []
        self.requests: list[dict] = []
        self.summaries: list[ExchangeSummary] = []
        self.held_back = False
        self._answer = ""
        self._progress_at = time.monotonic()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        tcp = socket.create_server(("127.0.0.1", 0))
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = folder / "e.sock"
        unix.bind(str(path))
        unix.listen()
        self.address = RelayAddress(socket=path, port=tcp.getsockname()[1])
        self._listeners = (tcp, unix)
        self._threads = [threading.Thread(target=self._accept, args=(listener,)) for listener in self._listeners]
        for listener in self._listeners:
            listener.settimeout(0.02)
        for thread in self._threads:
            thread.start()

    def exchanges(self):
        with self._lock:
            return tuple(self.summaries)

    def progress(self):
        with self._lock:
            return SessionProgress(
                underway=len(self.requests) - len(self.summaries),
                idle_seconds=time.monotonic() - self._progress_at,
                held_back=self.held_back,
            )

    def last_answer(self, _told):
        return self._answer

    def close(self):
        self._stop.set()
        for listener in self._listeners:
            listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self, listener):
        while not self._stop.is_set():
            try:
                connection, _ = listener.accept()
            except (TimeoutError, OSError):
                continue
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _read(self, connection):
        """The request's first line and its body; None where nothing was asked."""
        with connection.makefile("rb") as file:
            headers = iter(lambda: file.readline().strip(), b"")
            first = next(headers, b"")
            if not first:
                return None
            length = next(
                (int(line.split(b":")[1]) for line in headers if line.lower().startswith(b"content-length")), 0
            )
            list(headers)
            return first, json.loads(file.read(length))

    def _serve(self, connection):
        with connection:
            connection.settimeout(10)
            try:
                asked = self._read(connection)
            except ConnectionError:  # whoever asked has left
                return
            if asked is None:
                return
            first, body = asked
            with self._lock:
                index = len(self.requests)
                self.requests.append({"line": first.decode(), "body": body})
                sent_at = self._progress_at = time.monotonic()
                reply = self.replies[min(index, len(self.replies) - 1)]
            try:
                connection.sendall(reply.data)
            except ConnectionError:  # whoever asked has left
                return
            if reply.then == "stall":
                self._stop.wait(30)
                return
            if reply.then == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with self._lock:
                self._answer = self._answer if reply.error else reply.text
                self._progress_at = time.monotonic()
                self.summaries.append(
                    ExchangeSummary(
                        index=index,
                        status=reply.status,
                        finish_reason=reply.finish_reason,
                        prompt_tokens=None,
                        output_tokens=reply.output_tokens,
                        error=reply.error,
                        sent_at=sent_at,
                        ended_at=time.monotonic(),
                    )
                )


@dataclass
class BareProcess:
    process: subprocess.Popen
    ended: int = 0

    def end(self):
        self.ended += 1
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class BareBox:
    """A `contracts.Box` for tests: same command, real paths, own session."""

    unix: bool = False
    name: str = "bare"
    isolation: str = "none"
    started: list = field(default_factory=list)

    def project_path(self, plan_project):
        return str(plan_project)

    def mount_path(self, mount):
        return str(mount.source)

    def relay_url(self, relay):
        return f"unix://{relay.socket}" if self.unix else f"http://127.0.0.1:{relay.port}"

    def start(self, plan, *, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        argv = [sys.executable if plan.argv[0] == "python3" else plan.argv[0], *plan.argv[1:]]
        streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        env = {"PATH": "/usr/bin:/bin", **plan.env}
        boxed = BareProcess(subprocess.Popen(argv, cwd=plan.project, env=env, start_new_session=True, **streams))
        self.started.append(boxed)
        return boxed


@pytest.fixture(scope="session")
def wire():
    """The makers of replies, for tests that import nothing from here."""
    return SimpleNamespace(
        Reply=Reply, USAGE=USAGE, head=head, event=event, delta=delta, says=says, calls=calls, fails=fails
    )


@pytest.fixture
def bare_box():
    return BareBox()


@pytest.fixture
def engine(tmp_path_factory):
    server = EngineServer(tmp_path_factory.mktemp("s"))
    yield server
    server.close()


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def profile():
    return EngineProfile(
        name="test",
        title="Test",
        simulated=True,
        response_fields={},
        includes={},
        unavailable={},
        memory_errors=("insufficient_memory", "out of memory"),
        context_errors=("context_length_exceeded",),
    )


@pytest.fixture
def make_request(tmp_path, project):
    def make(prompt="Build it.", *, requests=20, seconds=30.0, no_progress_seconds=None):
        evidence = tmp_path / "evidence"
        evidence.mkdir(exist_ok=True)
        label = SessionLabel(run_id="r", session=7, role="builder", task="T003", attempt=1, retry=0)
        return SessionRequest(
            label=label,
            prompt=prompt,
            project=project,
            evidence=evidence,
            model="tiny",
            context_window=4096,
            output_tokens_per_request=256,
            output_tokens=1_000_000,
            requests=requests,
            seconds=seconds,
            no_progress_seconds=no_progress_seconds or seconds,
        )

    return make
