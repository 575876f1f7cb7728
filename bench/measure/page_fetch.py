"""Fetches one page from the engine beside its model traffic: whole and in time, or with the reason why not."""

from __future__ import annotations

import contextlib
import socket
import time

from bench.measure.counters import PAGE_BYTES
from bench.measure.http_wire import AnswerHeadReader, Body, WireError, answer_framing, write_head

_PIECE_BYTES = 65_536


class PageFetch:
    """One GET on a connection of its own, since engines close kept ones after a while. `seconds` bound all of it."""

    def __init__(self, host: str, port: int, path: str, *, api_key: str | None, seconds: float) -> None:
        self._engine = (host, port)
        self._path = path
        self._api_key = api_key
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._abandoned = False

    def run(self) -> tuple[str, str | None]:
        """The page's text, or an empty one and the reason why it is lost. The key stands in neither."""
        deadline = time.monotonic() + self._seconds
        try:
            with socket.create_connection(self._engine, timeout=self._seconds) as self._socket:
                if self._abandoned:
                    return "", "the reading was given up"
                status, body = _ask(self._socket, self._request(), deadline)
        except TimeoutError:
            return "", f"the page did not come within {self._seconds:g} s"
        except WireError as error:
            return "", f"the page came broken: {error}"
        except OSError as error:
            return "", f"the page cannot be read ({error.strerror or error})"
        if self._api_key:
            body = body.replace(self._api_key.encode(), b"***")
        if status != 200:
            return "", f"the page answers HTTP {status}: {body[:120].decode('utf-8', 'replace')!r}"
        try:
            return body.decode("utf-8"), None
        except UnicodeDecodeError:
            return "", "the page is no UTF-8 text"

    def abandon(self) -> None:
        """Ends `run` early, from another thread."""
        self._abandoned = True
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def _request(self) -> bytes:
        headers = [
            ("Host", f"{self._engine[0]}:{self._engine[1]}"),
            ("Accept", "text/plain; version=0.0.4"),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
        ]
        if self._api_key is not None:
            headers.append(("Authorization", f"Bearer {self._api_key}"))
        return write_head(f"GET {self._path} HTTP/1.1", headers)


def _ask(wire: socket.socket, request: bytes, deadline: float) -> tuple[int, bytes]:
    """Status and whole body. Raises TimeoutError at the deadline, however the bytes trickle; OSError; WireError."""
    wire.sendall(request)
    reader = AnswerHeadReader()
    while (head := reader.feed(_received(wire, deadline))) is None:
        pass
    body = Body(answer_framing(head))
    held = bytearray(body.feed(reader.rest))
    while not body.finished:
        piece = _received(wire, deadline, may_end=body.framing == "close")
        if not piece:
            break
        held += body.feed(piece)
        if len(held) > PAGE_BYTES:
            raise WireError(f"it is larger than {PAGE_BYTES:,} bytes")
    return head.status, bytes(held)


def _received(wire: socket.socket, deadline: float, *, may_end: bool = False) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    wire.settimeout(left)
    piece = wire.recv(_PIECE_BYTES)
    if not piece and not may_end:
        raise WireError("the connection was closed before its end")
    return piece
