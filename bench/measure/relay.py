"""The hop between agents and the engine: passes model traffic unchanged, dates it, keeps it as evidence.

One asyncio loop in one thread; the only asynchronous file. Each session gets its own address. One request a
connection, on both sides: nothing can hide behind an earlier request. A request goes to the engine when it is whole,
since the evidence needs all of it and no engine begins earlier; an answer is passed on piece by piece as it comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from bench.contracts import ExchangeSummary, RelayAddress, SessionLabel
from bench.errors import EvidenceError, HarnessError, UsageError
from bench.measure.endpoints import RefusedError, admitted_path
from bench.measure.exchange_line import BODY_BYTES
from bench.measure.http_wire import (
    HEAD_BYTES,
    AnswerHead,
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
from bench.measure.relayed import OpenExchange, SessionTraffic
from bench.measure.socket_folder import make_socket_folder

_READ_BYTES = 65_536
_UNSENT_BYTES = 8_388_608
"""How far a slow client may lag behind before the engine is slowed down to its pace."""

_GRACE_SECONDS = 5.0

Result = TypeVar("Result")


class _EngineFaultError(Exception):
    """The engine did not answer, or not in HTTP, or not to its end; the text says how."""


class Relay:
    """Relays to one launched engine. A context manager; all methods may be called from any one thread at a time.

    `stall_seconds`: an engine that sends nothing for so long has stalled. Raises HarnessError or EvidenceError when
    the relay itself broke, e.g. could not write evidence.
    """

    def __init__(
        self,
        engine_host: str,
        engine_port: int,
        *,
        api_key: str | None,
        engine_process: int = 1,
        stall_seconds: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise UsageError("the engine's API key holds a line end or another character that no header can carry")
        self._engine = (engine_host, engine_port)
        self._api_key = api_key
        self._engine_process = engine_process
        self._stall_seconds = stall_seconds
        self._clock = clock
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._open: dict[int, _Session] = {}
        self._fault: BaseException | None = None
        self._folder = Path()

    def __enter__(self) -> Self:
        self._folder = make_socket_folder()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in list(self._open):
            self._call(self._close(session))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        shutil.rmtree(self._folder)
        if kind is None:
            self._raise_fault()

    def open_session(self, label: SessionLabel, folder: Path) -> RelayAddress:
        """Gives a session its address; its evidence is appended to `folder/exchanges.jsonl`."""
        if label.session in self._open:
            raise HarnessError(f"session {label.session} is open already")
        try:
            traffic = SessionTraffic(label, folder / "exchanges.jsonl", self._api_key, self._engine_process)
        except OSError as error:
            raise EvidenceError(f"{folder}: evidence cannot be written ({error.strerror})") from error
        session = _Session(traffic, self._folder / f"{secrets.token_hex(6)}.sock")
        try:
            address = self._call(self._listen(session))
        except OSError as error:
            traffic.close()
            raise HarnessError(f"the relay cannot listen for session {label.session} ({error})") from error
        self._open[label.session] = session
        return address

    def close_session(self, label: SessionLabel) -> tuple[ExchangeSummary, ...]:
        """Cuts the session's connections, takes its address away, returns all its exchanges in order of their requests."""
        traffic = self._session(label).traffic
        self._call(self._close(label.session))
        self._raise_fault()
        return traffic.summaries()

    def exchanges(self, label: SessionLabel) -> tuple[ExchangeSummary, ...]:
        """The session's exchanges that have ended. Those of a client that is gone by now are among them."""
        session = self._session(label)
        self._call(_settle(session))
        self._raise_fault()
        return session.traffic.summaries()

    def output_tokens(self, label: SessionLabel) -> int:
        """Output tokens over the session's ended exchanges, as far as they were reported."""
        return sum(exchange.output_tokens or 0 for exchange in self._session(label).traffic.summaries())

    def refused(self, label: SessionLabel) -> int:
        """How many requests of the session were no well-formed calls of a model endpoint."""
        return self._session(label).traffic.refused

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _session(self, label: SessionLabel) -> _Session:
        session = self._open.get(label.session)
        if session is None:
            raise HarnessError(f"session {label.session} is not open at the relay")
        return session

    def _raise_fault(self) -> None:
        if isinstance(self._fault, OSError):
            raise EvidenceError(f"the relay could not keep evidence ({self._fault})") from self._fault
        if self._fault is not None:
            raise HarnessError(f"the relay broke: {self._fault!r}") from self._fault

    async def _listen(self, session: _Session) -> RelayAddress:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(session, reader, writer))
            session.clients[task] = writer
            task.add_done_callback(lambda ended: self._ended(session, ended))

        unix = await asyncio.start_unix_server(connected, path=session.socket, limit=HEAD_BYTES)
        session.socket.chmod(0o666)  # a box may run under another user
        tcp = await asyncio.start_server(connected, host="127.0.0.1", port=0, limit=HEAD_BYTES)
        session.servers = (unix, tcp)
        return RelayAddress(socket=session.socket, port=tcp.sockets[0].getsockname()[1])

    def _ended(self, session: _Session, task: asyncio.Future[None]) -> None:
        del session.clients[task]
        if not task.cancelled():
            self._fault = self._fault or task.exception()

    async def _close(self, number: int) -> None:
        session = self._open.pop(number)
        # Accept nothing more, but finish what was accepted: a server closed meanwhile loses such a connection unclosed.
        for listening in (one for server in session.servers for one in server.sockets):
            self._loop.remove_reader(listening.fileno())
        await _take_in_what_happened()
        clients = dict(session.clients)
        for task, writer in clients.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*clients, return_exceptions=True)
        for server in session.servers:
            server.close()
            await server.wait_closed()
        session.socket.unlink(missing_ok=True)
        try:
            session.traffic.close()
        except OSError as error:
            self._fault = self._fault or error

    async def _serve(self, session: _Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, one answer."""
        writer.transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        try:
            head = read_request_head(await reader.readuntil(b"\r\n\r\n"))
            body = Body(request_framing(head))
            path = admitted_path(head)
            request = await _request_body(reader, writer, head, body)
            exchange = session.traffic.begin(
                method=head.method, path=path, request=request, now=self._clock(), wall=time.time()
            )
            await self._exchange(session, reader, writer, head, exchange)
        except (RefusedError, WireError, asyncio.LimitOverrunError) as error:
            session.traffic.refused += 1
            await _answer_refusal(reader, writer, error)
        except asyncio.IncompleteReadError as error:
            # The client left before its request was whole: nothing was asked of the engine.
            session.traffic.refused += bool(error.partial)
        except ConnectionError:
            session.traffic.refused += 1
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(
        self,
        session: _Session,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        head: RequestHead,
        exchange: OpenExchange,
    ) -> None:
        """Relays one exchange, watches for the client's going away, keeps what was seen whatever happens."""
        work = asyncio.ensure_future(self._converse(session, writer, head, exchange))
        gone = asyncio.ensure_future(_until_gone(reader))
        session.underway[exchange] = asyncio.current_task()
        why = "aborted: the client went away before the answer's end"
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            exchange.ending = True
            if not work.done() and exchange.answer.complete:
                # A client may leave once it has read the closing event: that is no abort.
                await asyncio.wait({work}, timeout=_GRACE_SECONDS)
        except asyncio.CancelledError:
            why = "aborted: the session ended before the answer's end"
            raise
        finally:
            work.cancel()
            gone.cancel()
            (outcome, _) = await asyncio.gather(work, gone, return_exceptions=True)
            cut = isinstance(outcome, asyncio.CancelledError | ConnectionError)
            if cut and exchange.fault is None and not exchange.answer.complete:
                exchange.fault = why
            del session.underway[exchange]
            session.traffic.end(exchange, self._clock())
        if isinstance(outcome, BaseException) and not cut:
            raise outcome

    async def _converse(
        self, session: _Session, writer: asyncio.StreamWriter, head: RequestHead, exchange: OpenExchange
    ) -> None:
        """Sends the request, passes the answer on, notes what the engine does wrong. ConnectionError: the client's."""
        answered = False
        engine: asyncio.StreamWriter | None = None
        try:
            try:
                reader, engine = await asyncio.open_connection(*self._engine, limit=16 * _READ_BYTES)
            except OSError as error:
                raise _EngineFaultError(
                    f"refused: the engine takes no connection ({error.strerror or error})"
                ) from error
            await self._send(engine, exchange, session.traffic.engine_head(head, exchange, self._engine))
            answer, rest = await self._answer_head(reader, exchange)
            body = Body(answer_framing(answer))
            exchange.begin_answer(answer.status, header(answer.headers, "content-type") or "")
            writer.write(write_answer_head(answer, body.framing))
            answered = True
            chunked = not isinstance(body.framing, int)
            await self._pass_body(reader, rest, body, writer, exchange, chunked=chunked)
            exchange.ended_at = self._clock()
            if chunked:
                writer.write(b"0\r\n\r\n")
        except (_EngineFaultError, WireError) as fault:
            exchange.ended_at = self._clock()
            exchange.fault = str(fault) if isinstance(fault, _EngineFaultError) else f"malformed: not HTTP, {fault}"
            if not answered:
                writer.write(write_error(502, exchange.fault))
        finally:
            if engine is not None:
                engine.transport.abort()

    async def _send(self, engine: asyncio.StreamWriter, exchange: OpenExchange, head: bytes) -> None:
        engine.transport.set_write_buffer_limits(high=0)  # drain() then returns when the last byte is handed over
        engine.write(head + exchange.request)
        with contextlib.suppress(ConnectionError):  # it may have answered before it had read everything
            await engine.drain()
        exchange.sent_at = self._clock()

    async def _read(self, reader: asyncio.StreamReader, exchange: OpenExchange) -> tuple[bytes, float]:
        """The next bytes and the instant they came; empty at the end. Raises _EngineFaultError on a reset or a stall."""
        try:
            async with asyncio.timeout(self._stall_seconds):
                data = await reader.read(_READ_BYTES)
        except TimeoutError:
            raise _EngineFaultError(f"stalled: the engine sent nothing for {self._stall_seconds:g} s") from None
        except ConnectionError as error:
            raise _EngineFaultError(
                f"reset: the engine broke the connection off ({error.strerror or error})"
            ) from error
        now = self._clock()
        if data and exchange.first_byte_at is None:
            exchange.first_byte_at = now
        return data, now

    async def _answer_head(self, reader: asyncio.StreamReader, exchange: OpenExchange) -> tuple[AnswerHead, bytes]:
        """The answer's head, and what of the body came with it."""
        heads = AnswerHeadReader()
        while True:
            data, _ = await self._read(reader, exchange)
            if not data:
                raise _EngineFaultError("closed: the engine closed the connection without an answer")
            if (head := heads.feed(data)) is not None:
                return head, heads.rest

    async def _pass_body(
        self,
        reader: asyncio.StreamReader,
        data: bytes,
        body: Body,
        writer: asyncio.StreamWriter,
        exchange: OpenExchange,
        *,
        chunked: bool,
    ) -> None:
        now = self._clock()
        while True:
            if piece := body.feed(data):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                exchange.take(piece, now)
                await writer.drain()
            if body.finished:
                return
            data, now = await self._read(reader, exchange)
            if not data:
                if body.framing == "close":
                    return
                raise _EngineFaultError("truncated: the engine closed the connection within its answer")


class _Session:
    """A session's address and the connections on it."""

    def __init__(self, traffic: SessionTraffic, socket: Path) -> None:
        self.traffic = traffic
        self.socket = socket
        self.servers: tuple[asyncio.Server, ...] = ()
        self.clients: dict[asyncio.Future[None], asyncio.StreamWriter] = {}
        self.underway: dict[OpenExchange, asyncio.Task[Any] | None] = {}


async def _request_body(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: RequestHead, body: Body
) -> bytes:
    """The whole body of a request. Raises ConnectionError where the client leaves before its end."""
    if (header(head.headers, "expect") or "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    held = bytearray()
    while not body.finished:
        data = await reader.read(_READ_BYTES)
        if not data:
            raise ConnectionAbortedError
        held += body.feed(data)
        if len(held) > BODY_BYTES:
            raise RefusedError(413, f"a request over {BODY_BYTES:,} bytes")
    return bytes(held)


async def _until_gone(reader: asyncio.StreamReader) -> None:
    """Returns when the client closes. What it sends behind its one request is dropped unread."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(_READ_BYTES):
            pass


async def _answer_refusal(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, why: Exception) -> None:
    status, text = (why.status, str(why)) if isinstance(why, RefusedError) else (400, f"malformed request: {why}")
    writer.write(write_error(status, text))
    with contextlib.suppress(OSError):
        await writer.drain()
        writer.write_eof()
        # Closing over unread bytes would reset the connection and take our answer away from the client.
        async with asyncio.timeout(1):
            await _until_gone(reader)


async def _take_in_what_happened() -> None:
    """A connection that was opened or closed before this call is known within a few turns of the loop."""
    for _ in range(10):
        await asyncio.sleep(0)


async def _settle(session: _Session) -> None:
    """Waits for the exchanges whose client is gone or whose answer is whole, so that they are counted."""
    await _take_in_what_happened()
    over = {task for exchange, task in session.underway.items() if exchange.ending or exchange.answer.complete}
    if over:
        await asyncio.wait({task for task in over if task is not None}, timeout=_GRACE_SECONDS)
