"""The embedded engine's HTTP: which path answers what, bodies in, JSON and event streams out.

Every request has a thread. Until the script is loaded all paths answer 503.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event
from typing import Any, cast

from bench.contracts import SESSION_HEADER
from bench.engines.embedded.generation import Generator, Settings
from bench.engines.embedded.refusal import ClientGoneError, Refusal
from bench.engines.embedded.wire_forms import FORMS

_LARGEST_BODY_BYTES = 64_000_000
_METHODS = {"/health": "GET", "/v1/models": "GET", "/metrics": "GET", **dict.fromkeys(FORMS, "POST")}


class EngineServer(ThreadingHTTPServer):
    """Listens from its creation on; serves the model once `generator` is set."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], settings: Settings, log: Callable[[str], None]) -> None:
        super().__init__(address, _Handler)
        self.settings = settings
        self.log = log
        self.generator: Generator | None = None
        self.stopping = Event()


class _Handler(BaseHTTPRequestHandler):
    """One connection; also the Connection that an answer is written to."""

    protocol_version = "HTTP/1.1"
    server_version = "runcard-embedded/1"
    sys_version = ""
    timeout = 300
    disable_nagle_algorithm = True

    @property
    def _engine(self) -> EngineServer:
        return cast("EngineServer", self.server)

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def _respond(self) -> None:
        try:
            try:
                self._route(self._body())
            except Refusal as refusal:
                self.send_json(refusal.status, refusal.body(), retry_after_seconds=refusal.retry_after_seconds)
        except ClientGoneError:
            self.close_connection = True

    def _route(self, body: bytes) -> None:
        path = self.path.partition("?")[0]
        method = _METHODS.get(path)
        if method is None:
            raise Refusal(404, "not_found_error", f"There is no {path[:200]} here; known: {', '.join(_METHODS)}.")
        if method != self.command:
            raise Refusal(405, "invalid_request_error", f"{path} wants {method}, not {self.command}.")
        generator = self._engine.generator
        if generator is None:
            raise Refusal(503, "unavailable_error", "Loading the script.")
        if path == "/health":
            self.send_json(200, {"status": "ok"})
        elif path == "/v1/models":
            self.send_json(200, _models(self._engine.settings))
        elif path == "/metrics":
            self._send(200, "text/plain; version=0.0.4; charset=utf-8", generator.metrics_page().encode())
        else:
            generator.serve(FORMS[path], body, self.headers.get(SESSION_HEADER), self)

    def _body(self) -> bytes:
        """The request's body. A body whose end cannot be told closes the connection after the refusal."""
        length = self.headers.get("Content-Length")
        if self.headers.get("Transfer-Encoding") is not None or (length is None and self.command == "POST"):
            self.close_connection = True
            raise Refusal(411, "invalid_request_error", "A body needs a Content-Length.")
        if length is None:
            return b""
        if not (length.isascii() and length.isdigit()) or int(length) > _LARGEST_BODY_BYTES:
            self.close_connection = True
            raise Refusal(413, "invalid_request_error", f"Content-Length must be at most {_LARGEST_BODY_BYTES} bytes.")
        try:
            body = self.rfile.read(int(length))
        except OSError as error:
            raise ClientGoneError from error
        if len(body) < int(length):
            raise ClientGoneError
        return body

    # --- what an answer is written to ---

    def check(self) -> None:
        """Raises ClientGoneError once the client has closed its end or the engine is being stopped."""
        if self._engine.stopping.is_set():
            raise ClientGoneError
        try:
            poll = select.poll()
            poll.register(self.connection, select.POLLIN)
            if poll.poll(0) and not self.connection.recv(1, socket.MSG_PEEK):
                raise ClientGoneError
        except OSError as error:
            raise ClientGoneError from error

    def start_stream(self) -> None:
        self._chunked = self.request_version != "HTTP/1.0"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        if self._chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.close_connection = True
        self._end_head()

    def send_event(self, data: str, kind: str | None = None) -> None:
        name = "" if kind is None else f"event: {kind}\n"
        payload = f"{name}data: {data}\n\n".encode()
        self._write(b"%x\r\n%b\r\n" % (len(payload), payload) if self._chunked else payload)

    def send_comment(self) -> None:
        """A line that keeps the connection busy and says nothing."""
        payload = b": keep-alive\n\n"
        self._write(b"%x\r\n%b\r\n" % (len(payload), payload) if self._chunked else payload)

    def end_stream(self) -> None:
        if self._chunked:
            self._write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Ends the connection with a TCP RST, whatever was sent before."""
        self.close_connection = True
        try:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError as error:
            raise ClientGoneError from error
        # Through the descriptor: the reader and the writer of this handler would keep the socket open.
        os.close(self.connection.detach())

    def send_json(
        self, status: int, body: dict[str, Any], *, cut: bool = False, retry_after_seconds: float | None = None
    ) -> None:
        """`cut`: only the first half of the body, as if it were all."""
        content = json.dumps(body).encode()
        extra = {} if retry_after_seconds is None else {"Retry-After": f"{retry_after_seconds:g}"}
        self._send(status, "application/json", content[: len(content) // 2] if cut else content, extra)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Faults that the protocol layer finds itself, said in the same form as all others."""
        self.close_connection = True
        refusal = Refusal(code, "invalid_request_error", explain or message or HTTPStatus(code).phrase)
        try:
            self.send_json(code, refusal.body())
        except ClientGoneError:
            return

    def _send(self, status: int, kind: str, content: bytes, extra: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self._end_head()
        self._write(content)

    def _end_head(self) -> None:
        try:
            self.end_headers()
        except OSError as error:
            raise ClientGoneError from error

    def _write(self, content: bytes) -> None:
        try:
            self.wfile.write(content)
        except OSError as error:
            raise ClientGoneError from error

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """No access log: each request to the model has its summary line."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        self._engine.log(f"{self.client_address[0]} {format % args}")


def _models(settings: Settings) -> dict[str, Any]:
    model = {
        "id": settings.name,
        "object": "model",
        "created": 0,
        "owned_by": "runcard",
        "max_model_len": settings.context_window,
        "meta": {"n_ctx": settings.context_window},
    }
    return {"object": "list", "data": [model]}
