"""One connection of a client's: one request, one answer. What comes behind the request is dropped unread.

A request goes to the engine when it is whole, since the evidence needs all of it and no engine begins earlier.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import cast

from bench.measure.endpoints import RefusedError, admitted_path
from bench.measure.engine_side import EngineSide, Traffic, Wiring
from bench.measure.exchange_line import BODY_BYTES
from bench.measure.http_wire import (
    HEAD_BYTES,
    Body,
    RequestHead,
    WireError,
    header,
    read_request_head,
    request_framing,
    write_error,
)

_UNSENT_BYTES = 8_388_608
"""How far a slow client may lag behind before the engine is slowed down to its pace."""

_REFUSAL_SECONDS = 1.0
"""Closing over unread bytes would reset the connection and take our refusal away from the client: so long it may send."""


class ClientSide(asyncio.BufferedProtocol):
    """Takes the request in; `EngineSide` answers."""

    _transport: asyncio.Transport

    def __init__(self, wiring: Wiring, traffic: Traffic) -> None:
        self._wiring = wiring
        self._traffic = traffic
        self._received = bytearray()
        """The head as far as it has come, then the body."""

        self._head: RequestHead | None = None
        self._body = Body(0)
        self._engine: EngineSide | None = None
        self._over = False
        """The request was taken or refused."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        self._traffic.clients.add(self._transport)

    def get_buffer(self, _size: int) -> memoryview:
        return self._wiring.buffer

    def buffer_updated(self, size: int) -> None:
        if self._over:
            return
        data = bytes(self._wiring.buffer[:size])
        try:
            if self._head is None:
                data = self._take_head(data)
            if self._head is not None:
                self._take_body(self._head, data)
        except (RefusedError, WireError) as error:
            self._refuse(error)

    def eof_received(self) -> None:
        self._gone()

    def connection_lost(self, _error: Exception | None) -> None:
        self._traffic.clients.discard(self._transport)
        self._gone()

    def pause_writing(self) -> None:
        if self._engine is not None:
            self._engine.pause()

    def resume_writing(self) -> None:
        if self._engine is not None:
            self._engine.resume()

    def _take_head(self, data: bytes) -> bytes:
        """Takes the head once it is whole; returns what came behind it."""
        searched = max(0, len(self._received) - 3)
        self._received += data
        end = self._received.find(b"\r\n\r\n", searched) + 4
        if end < 4:
            if len(self._received) > HEAD_BYTES:
                raise WireError(f"the head is over {HEAD_BYTES:,} bytes")
            return b""
        head = read_request_head(bytes(self._received[:end]))
        rest = bytes(self._received[end:])
        self._received.clear()
        self._body = Body(request_framing(head))
        admitted_path(head)  # whoever may not ask need not send it all
        if (header(head.headers, "expect") or "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._head = head
        return rest

    def _take_body(self, head: RequestHead, data: bytes) -> None:
        self._received += self._body.feed(data)
        if self._body.damage is not None:
            raise self._body.damage
        if len(self._received) > BODY_BYTES:
            raise RefusedError(413, f"a request over {BODY_BYTES:,} bytes")
        if not self._body.finished:
            return
        self._over = True
        request = bytes(self._received)
        self._received.clear()
        wiring, session = self._wiring, self._traffic.session
        exchange = session.begin(
            method=head.method, path=admitted_path(head), request=request, now=wiring.clock(), wall=time.time()
        )
        asked = session.engine_head(head, exchange, wiring.engine, wiring.api_key) + request
        self._engine = EngineSide(wiring, self._traffic, self._transport, exchange, asked)

    def _refuse(self, why: RefusedError | WireError) -> None:
        self._over = True
        status, text = (why.status, str(why)) if isinstance(why, RefusedError) else (400, f"malformed request: {why}")
        self._count_refusal(status, text)
        self._received.clear()
        self._transport.write(write_error(status, text))
        self._transport.write_eof()
        self._wiring.loop.call_later(_REFUSAL_SECONDS, self._transport.close)

    def _gone(self) -> None:
        if self._engine is not None:
            self._engine.client_gone("aborted: the client went away before the answer's end")
        elif not self._over:
            self._over = True
            if self._received or self._head is not None:
                # Nothing was asked of the engine.
                self._count_refusal(None, "the client left before its request was whole")

    def _count_refusal(self, status: int | None, why: str) -> None:
        self._wiring.write(partial(self._traffic.session.refusals.add, wall=time.time(), status=status, why=why))
