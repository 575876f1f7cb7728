"""The connection to the engine that serves one exchange: asks, passes the answer on, notes what the engine does wrong.

A bare socket and callbacks in the relay's thread: every turn of the loop that is saved here is time to the first token.
Bytes are dated first, passed on next, and read last. One request a connection: nothing can hide behind an earlier one.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.contracts import SessionProgress
from bench.measure.http_wire import (
    AnswerHeadReader,
    Body,
    WireError,
    answer_framing,
    header,
    write_answer_head,
    write_error,
)
from bench.measure.key_strike import KeyStrike
from bench.measure.relayed import ExchangeHook, OpenExchange, SessionTraffic

GRACE_SECONDS = 5.0
"""How long an engine may take to end an answer that is complete and whose client is gone."""


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """What all connections of a relay have in common."""

    loop: asyncio.AbstractEventLoop
    engine: tuple[str, int]
    family: socket.AddressFamily
    address: Any
    """Where the engine's name leads, as sockets take it."""

    api_key: str | None
    stall_seconds: float
    one_piece_stall_seconds: float
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
    progress_at: float
    """When the session opened, a request of its was last sent, an answer ended, or a client read on after a pause."""

    clients: set[asyncio.Transport] = field(default_factory=set)
    underway: set[EngineSide] = field(default_factory=set)

    def progress(self, now: float) -> SessionProgress:
        """How it stands at `now`; reads what lies unread of the answers for their last tokens."""
        owing = [one for one in self.underway if one.exchange.counted and not one.ending]
        tokens = [at for one in owing if (at := one.exchange.last_token_at()) is not None]
        return SessionProgress(
            underway=len(owing),
            idle_seconds=max(0.0, now - max([self.progress_at, *tokens])),
            held_back=any(one.held_back for one in owing),
            in_one_piece=any(one.exchange.in_one_piece for one in owing),
        )


class EngineSide:
    """One exchange, from its whole request to its end; keeps what was seen whatever happens."""

    def __init__(
        self, wiring: Wiring, traffic: Traffic, client: asyncio.Transport, exchange: OpenExchange, asked: bytes
    ) -> None:
        self.exchange = exchange
        self.over: asyncio.Future[None] = wiring.loop.create_future()
        """Done when the exchange has ended and its evidence is on its way."""

        self.ending = False
        """The client is gone; the answer is complete and the engine may end it."""

        self._wiring = wiring
        self._traffic = traffic
        self._client = client
        self._unsent = memoryview(asked)
        self._connected = False
        self._broken: OSError | None = None
        """Why the request could not be sent to its end; there may be an answer all the same."""

        self._sent = False
        self._paused = False
        self._heads = AnswerHeadReader()
        self._body: Body | None = None
        """None: the answer's head has not come."""

        self._strike = KeyStrike(wiring.api_key)
        self._last_read_at = wiring.clock()
        first_look = min(wiring.stall_seconds, wiring.one_piece_stall_seconds)
        self._stall = wiring.loop.call_later(first_look, self._look_for_stall)
        self._socket = socket.socket(wiring.family, socket.SOCK_STREAM)
        traffic.underway.add(self)
        self._connect()

    @property
    def held_back(self) -> bool:
        """Whether nothing is read of the engine because the client does not take it."""
        return self._paused

    def pause(self) -> None:
        """The client lags behind: the engine is slowed down to its pace."""
        self._paused = True
        if self._connected and not self.over.done():
            self._wiring.loop.remove_reader(self._socket)

    def resume(self) -> None:
        self._paused = False
        self._last_read_at = self._wiring.clock()
        self._progressed(self._last_read_at)
        if self._connected and not self.over.done():
            self._wiring.loop.add_reader(self._socket, self._readable)

    def client_gone(self, why: str) -> None:
        """A client may leave once it has read the closing event: no abort, and the engine may end its answer."""
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

    def _connect(self) -> None:
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket.connect(self._wiring.address)
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(f"refused: the engine takes no connection ({_said(error)})")
            return
        self._wiring.loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        if not self._connected:
            if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._fail(f"refused: the engine takes no connection ({os.strerror(error)})")
                return
            self._connected = True
            if not self._paused:
                self._wiring.loop.add_reader(self._socket, self._readable)
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            self._broken = error
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._wiring.loop.remove_writer(self._socket)
            self._request_sent(self._wiring.clock())

    def _readable(self) -> None:
        buffer = self._wiring.buffer
        try:
            size = self._socket.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(f"reset: the engine broke the connection off ({_said(error)})")
            return
        now = self._wiring.clock()
        self._last_read_at = now
        if not size:
            self._closed(now)
            return
        if self.exchange.first_byte_at is None:
            self._request_sent(now)  # it may answer before it has read everything
            self.exchange.first_byte_at = now
        try:
            self._take(bytes(buffer[:size]), now)
        except WireError as error:
            self._fail(f"malformed: not HTTP, {error}")

    def _closed(self, now: float) -> None:
        if self._body is not None and self._body.framing == "close":
            self._finish(self._body, b"", b"", now)
        elif self._body is not None:
            self._fail("truncated: the engine closed the connection within its answer")
        elif self._broken is not None:
            self._fail(f"reset: the engine broke the connection off ({_said(self._broken)})")
        else:
            self._fail("closed: the engine closed the connection without an answer")

    def _request_sent(self, now: float) -> None:
        if self._sent:
            return
        self._sent = True
        self.exchange.sent_at = now
        self._progressed(now)
        if self._wiring.on_begin is not None:
            self._tell(self._wiring.on_begin, now)

    def _take(self, data: bytes, now: float) -> None:
        """The next bytes, head or body. Raises WireError once what came before the damage has been passed on."""
        head, body = b"", self._body
        if body is None:
            answer = self._heads.feed(data)
            if answer is None:
                return
            body = self._body = Body(answer_framing(answer))
            self.exchange.begin_answer(answer.status, header(answer.headers, "content-type") or "")
            head, data = self._strike.head(write_answer_head(answer, body.framing)), self._heads.rest
        piece = self._strike.feed(body.feed(data))
        if body.finished:
            self._finish(body, head, piece, now)
            return
        if head or piece:
            self._tell_client(head + _framed(body, piece))
        if piece:
            self.exchange.take(piece, now)
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
        self.exchange.fault = fault
        if self._body is None:
            self._tell_client(write_error(502, fault))
        elif rest := self._strike.end():
            self._tell_client(_framed(self._body, rest))
            self.exchange.take(rest, self._last_read_at)
        self._end(self._wiring.clock())

    def _tell_client(self, data: bytes) -> None:
        if not self._client.is_closing():
            self._client.write(data)

    def _end(self, now: float) -> None:
        self.exchange.ended_at = now
        self._progressed(now)
        self.exchange.redacted = self._strike.struck
        self._stall.cancel()
        self._wiring.loop.remove_reader(self._socket)
        self._wiring.loop.remove_writer(self._socket)
        self._socket.close()
        self._client.close()
        self._traffic.underway.discard(self)
        self.over.set_result(None)
        self._wiring.write(partial(self._traffic.session.keep, self.exchange))
        if self._wiring.on_end is not None:
            self._tell(self._wiring.on_end, now)

    def _progressed(self, now: float) -> None:
        if self.exchange.counted:
            self._traffic.progress_at = now

    def _tell(self, hook: ExchangeHook, now: float) -> None:
        if self.exchange.counted:
            # Not called from here: what it raises must not touch this exchange.
            self._wiring.loop.call_soon(hook, self._traffic.session.label, self.exchange.index, now)

    def _look_for_stall(self) -> None:
        """One timer an exchange, not one a piece: it looks how long ago the last piece came."""
        wiring = self._wiring
        seconds = wiring.one_piece_stall_seconds if self.exchange.in_one_piece else wiring.stall_seconds
        left = seconds if self._paused else seconds - (wiring.clock() - self._last_read_at)
        if left > 0:
            self._stall = wiring.loop.call_later(left, self._look_for_stall)
        else:
            self._fail(f"stalled: the engine sent nothing for {seconds:g} s")


def _framed(body: Body, piece: bytes) -> bytes:
    if isinstance(body.framing, int) or not piece:
        return piece
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _said(error: OSError) -> str:
    return error.strerror or str(error)
