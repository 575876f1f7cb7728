"""One exchange between two connections: `ClientSide` takes a request in, `EngineSide` asks it and passes the answer on.

Callbacks of asyncio's transports, all in the relay's thread. Bytes are dated first, passed on next, and read last.
One request a connection, on both sides: nothing can hide behind an earlier request. A request goes to the engine when
it is whole, since the evidence needs all of it and no engine begins earlier.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from bench.measure.endpoints import RefusedError, admitted_path
from bench.measure.exchange_line import BODY_BYTES
from bench.measure.http_wire import (
    HEAD_BYTES,
    AnswerHeadReader,
    Body,
    RequestHead,
    WireError,
    answer_framing,
    header,
    read_request_head,
    request_framing,
    write_answer_head,
    write_error,
)
from bench.measure.key_strike import KeyStrike
from bench.measure.relayed import ExchangeHook, OpenExchange, SessionTraffic

_UNSENT_BYTES = 8_388_608
"""How far a slow client may lag behind before the engine is slowed down to its pace."""

GRACE_SECONDS = 5.0
"""How long an engine may take to end an answer that is complete and whose client is gone."""

_REFUSAL_SECONDS = 1.0
"""Closing over unread bytes would reset the connection and take our refusal away from the client: so long it may send."""


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """What all connections of a relay have in common."""

    loop: asyncio.AbstractEventLoop
    engine: tuple[str, int]
    api_key: str | None
    stall_seconds: float
    clock: Callable[[], float]
    on_begin: ExchangeHook | None
    on_end: ExchangeHook | None
    buffer: memoryview
    """What was just read, on either side; taken out of it at once."""

    write: Callable[[Callable[[], None]], None]
    """Has evidence written, in order and not in this thread."""


@dataclass(kw_only=True)
class Traffic:
    """The connections that a session has open."""

    session: SessionTraffic
    clients: set[ClientSide] = field(default_factory=set)
    underway: set[EngineSide] = field(default_factory=set)


class _Side(asyncio.BufferedProtocol):
    """A connection whose bytes come through the one buffer of the relay: what allocates for every read costs more."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def get_buffer(self, _size: int) -> memoryview:
        return self._wiring.buffer

    def buffer_updated(self, size: int) -> None:
        self.data_received(bytes(self._wiring.buffer[:size]))

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """The next bytes."""


class ClientSide(_Side):
    """One connection of a client's: one request, one answer."""

    transport: asyncio.Transport

    def __init__(self, wiring: Wiring, traffic: Traffic) -> None:
        self._wiring = wiring
        self._traffic = traffic
        self._received = bytearray()
        """The head as far as it has come, then the body."""

        self._head: RequestHead | None = None
        self._body = Body(0)
        self._engine: EngineSide | None = None
        self._over = False
        """The request was taken or refused: what comes behind it is dropped unread."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        self._traffic.clients.add(self)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
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
        self._traffic.clients.discard(self)
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
        self._body = Body(request_framing(head))
        admitted_path(head)  # whoever may not ask need not send it all
        if (header(head.headers, "expect") or "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._received.clear()
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
        session = self._traffic.session
        exchange = session.begin(
            method=head.method, path=admitted_path(head), request=request, now=self._wiring.clock(), wall=time.time()
        )
        asked = session.engine_head(head, exchange, self._wiring.engine, self._wiring.api_key) + request
        self._engine = EngineSide(self._wiring, self._traffic, self, exchange, asked)

    def _refuse(self, why: RefusedError | WireError) -> None:
        self._over = True
        status, text = (why.status, str(why)) if isinstance(why, RefusedError) else (400, f"malformed request: {why}")
        self._count_refusal(status, text)
        self._received.clear()
        self.transport.write(write_error(status, text))
        self.transport.write_eof()
        self._wiring.loop.call_later(_REFUSAL_SECONDS, self.transport.close)

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


class EngineSide(_Side):
    """The connection to the engine that serves one exchange; notes what the engine does wrong, keeps what was seen."""

    def __init__(
        self, wiring: Wiring, traffic: Traffic, client: ClientSide, exchange: OpenExchange, asked: bytes
    ) -> None:
        self.exchange = exchange
        self.over: asyncio.Future[None] = wiring.loop.create_future()
        """Done when the exchange has ended and its evidence is on its way."""

        self.ending = False
        """The client is gone; the answer is complete and the engine may end it."""

        self._wiring = wiring
        self._traffic = traffic
        self._client = client
        self._asked = asked
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._heads = AnswerHeadReader()
        self._body: Body | None = None
        """None: the answer's head has not come."""

        self._strike = KeyStrike(wiring.api_key)
        self._sent = False
        self._last_read_at = wiring.clock()
        self._stall = wiring.loop.call_later(wiring.stall_seconds, self._look_for_stall)
        traffic.underway.add(self)
        self._connecting = wiring.loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await self._wiring.loop.create_connection(lambda: self, *self._wiring.engine)
        except OSError as error:
            self._fail(f"refused: the engine takes no connection ({error.strerror or error})")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = self._transport = cast("asyncio.Transport", transport)
        if self.over.done():
            opened.abort()
            return
        opened.set_write_buffer_limits(high=0)  # so that we hear when the last byte is handed over
        opened.write(self._asked)
        self._asked = b""
        if opened.get_write_buffer_size() == 0:
            self._request_sent(self._wiring.clock())

    def resume_writing(self) -> None:
        self._request_sent(self._wiring.clock())

    def data_received(self, data: bytes) -> None:
        now = self._wiring.clock()
        self._last_read_at = now
        if self.over.done():
            return
        if self.exchange.first_byte_at is None:
            self._request_sent(now)  # it may answer before it has read everything
            self.exchange.first_byte_at = now
        try:
            head, body = b"", self._body
            if body is None:
                answer = self._heads.feed(data)
                if answer is None:
                    return
                body = self._body = Body(answer_framing(answer))
                self.exchange.begin_answer(answer.status, header(answer.headers, "content-type") or "")
                head, data = self._strike.head(write_answer_head(answer, body.framing)), self._heads.rest
            self._pass_on(body, head, data, now)
        except WireError as error:
            self._fail(f"malformed: not HTTP, {error}")

    def eof_received(self) -> None:
        if self._body is None:
            self._fail("closed: the engine closed the connection without an answer")
        elif self._body.framing == "close":
            self._finish(self._body, b"", b"", self._wiring.clock())
        else:
            self._fail("truncated: the engine closed the connection within its answer")

    def connection_lost(self, error: Exception | None) -> None:
        reason = "" if error is None else f" ({getattr(error, 'strerror', None) or error})"
        self._fail(f"reset: the engine broke the connection off{reason}")

    def pause(self) -> None:
        """The client lags behind."""
        self._paused = True
        if self._transport is not None and not self.over.done():
            self._transport.pause_reading()

    def resume(self) -> None:
        self._paused = False
        self._last_read_at = self._wiring.clock()
        if self._transport is not None and not self.over.done():
            self._transport.resume_reading()

    def client_gone(self, why: str) -> None:
        """A client may leave once it has read the closing event: that is no abort, and the engine may end its answer."""
        if self.over.done() or self.ending:
            return
        if self.exchange.read_up():
            self.ending = True
            self._wiring.loop.call_later(GRACE_SECONDS, self.cut, why)
        else:
            self.cut(why)

    def cut(self, why: str) -> None:
        """Ends the exchange now; `why` is its fault unless its answer is complete."""
        if not self.over.done():
            if not self.exchange.read_up():
                self.exchange.fault = why
            self._end(self._wiring.clock())

    def _request_sent(self, now: float) -> None:
        if self._sent:
            return
        self._sent = True
        self.exchange.sent_at = now
        if self.exchange.counted and self._wiring.on_begin is not None:
            self._wiring.loop.call_soon(
                self._wiring.on_begin, self._traffic.session.label, self.exchange.index, self.exchange.sent_at
            )

    def _pass_on(self, body: Body, head: bytes, data: bytes, now: float) -> None:
        piece = self._strike.feed(body.feed(data))
        if body.finished:
            self._finish(body, head, piece, now)
        elif piece:
            self._tell_client(head + _framed(body, piece))
            self.exchange.take(piece, now)
        elif head:
            self._tell_client(head)
        if body.damage is not None:
            raise body.damage

    def _finish(self, body: Body, head: bytes, piece: bytes, now: float) -> None:
        """The answer is whole; `piece` is its last one."""
        piece += self._strike.end()
        self._tell_client(head + _framed(body, piece) + (b"" if isinstance(body.framing, int) else b"0\r\n\r\n"))
        if piece:
            self.exchange.take(piece, now)
        self._end(now)

    def _fail(self, fault: str) -> None:
        if self.over.done():
            return
        self.exchange.fault = fault
        if self._body is None:
            self._tell_client(write_error(502, fault))
        elif rest := self._strike.end():
            self._tell_client(_framed(self._body, rest))
            self.exchange.take(rest, self._last_read_at)
        self._end(self._wiring.clock())

    def _tell_client(self, data: bytes) -> None:
        if not self._client.transport.is_closing():
            self._client.transport.write(data)

    def _end(self, now: float) -> None:
        self.exchange.ended_at = now
        self.exchange.redacted = self._strike.struck
        self._stall.cancel()
        self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._client.transport.close()
        self._traffic.underway.discard(self)
        self._wiring.write(partial(self._traffic.session.keep, self.exchange))
        if self.exchange.counted and self._wiring.on_end is not None:
            self._wiring.loop.call_soon(self._wiring.on_end, self._traffic.session.label, self.exchange.index, now)
        self.over.set_result(None)

    def _look_for_stall(self) -> None:
        """One timer an exchange, not one a piece: it looks how long ago the last piece came."""
        quiet = self._wiring.clock() - self._last_read_at
        left = self._wiring.stall_seconds - quiet
        if self._paused or left > 0:
            wait = self._wiring.stall_seconds if self._paused else left
            self._stall = self._wiring.loop.call_later(wait, self._look_for_stall)
        else:
            self._fail(f"stalled: the engine sent nothing for {self._wiring.stall_seconds:g} s")


def _framed(body: Body, piece: bytes) -> bytes:
    if isinstance(body.framing, int) or not piece:
        return piece
    return b"%x\r\n%b\r\n" % (len(piece), piece)
