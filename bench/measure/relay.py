"""The hop between agents and the engine: passes model traffic unchanged, dates it, keeps it as evidence.

One asyncio loop in one thread (its connections: `client_side.py`, `engine_side.py`), and one thread that writes the evidence, so that no answer
waits for another one's compression. Each session gets its own address.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from bench.contracts import ExchangeSummary, RelayAddress, SessionLabel, SessionProgress
from bench.errors import EvidenceError, HarnessError, UsageError
from bench.measure.client_side import ClientSide
from bench.measure.engine_side import GRACE_SECONDS, Traffic, Wiring
from bench.measure.relayed import ExchangeHook, SessionTraffic
from bench.measure.socket_folder import make_socket_folder

_UNWRITTEN_EXCHANGES = 64
"""So many may wait to be written; then the relay waits, rather than hold more and more of them."""

_SWITCH_SECONDS = 1e-4
"""How soon a thread of the harness that computes has to let the relay run; Python's own 5 ms would be seen in a TTFT."""

_BACKLOG = 256
_READ_BYTES = 262_144

Result = TypeVar("Result")


class Relay:
    """Relays to one launched engine. A context manager; all methods may be called from any one thread at a time.

    `api_key`: what the engine asks for; no agent gets it and no evidence holds it. `stall_seconds`: an engine that
    sends nothing for so long has stalled; `one_piece_stall_seconds` where the request asked for no stream, and nothing
    can come before all was generated (None: the same). Raises HarnessError or EvidenceError when the relay itself
    broke, e.g. could not write evidence. The hooks get (label, index, instant) of each model call, in the relay's thread, and must not
    block: `on_begin` when its request was written to the engine, `on_end` as soon as the exchange is over, for every
    exchange, begun or not; its evidence is written meanwhile.
    """

    def __init__(
        self,
        engine_host: str,
        engine_port: int,
        *,
        api_key: str | None,
        engine_process: int = 1,
        stall_seconds: float = 3600.0,
        one_piece_stall_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_begin: ExchangeHook | None = None,
        on_end: ExchangeHook | None = None,
        sockets: Path | None = None,
    ) -> None:
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise UsageError("the engine's API key holds a line end or another character that no header can carry")
        family, address = _resolved(engine_host, engine_port)
        self._engine_process = engine_process
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: self._note_context(context))
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="evidence")
        self._unwritten = threading.BoundedSemaphore(_UNWRITTEN_EXCHANGES)
        self._open: dict[int, _Session] = {}
        self._fault: BaseException | None = None
        self._folder = Path()
        self._sockets = sockets
        self._switch_seconds = 0.0
        self._wiring = Wiring(
            loop=self._loop,
            engine=(engine_host, engine_port),
            family=family,
            address=address,
            api_key=api_key,
            stall_seconds=stall_seconds,
            one_piece_stall_seconds=stall_seconds if one_piece_stall_seconds is None else one_piece_stall_seconds,
            clock=clock,
            on_begin=on_begin,
            on_end=on_end,
            buffer=memoryview(bytearray(_READ_BYTES)),
            write=self._write,
        )

    def __enter__(self) -> Self:
        self._folder = make_socket_folder(self._sockets)
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
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
        self._writer.shutdown()
        shutil.rmtree(self._folder)
        sys.setswitchinterval(self._switch_seconds)
        if kind is None:
            self._raise_fault()

    def open_session(self, label: SessionLabel, folder: Path) -> RelayAddress:
        """Gives a session its address; its evidence goes to `folder`: `exchanges.jsonl`, `refused.jsonl`."""
        if label.session in self._open:
            raise HarnessError(f"session {label.session} is open already")
        try:
            traffic = SessionTraffic(label, folder, self._engine_process)
        except OSError as error:
            raise EvidenceError(f"{folder}: evidence cannot be written ({error.strerror})") from error
        session = _Session(traffic, self._folder / f"{secrets.token_hex(6)}.sock", opened_at=self._wiring.clock())
        try:
            address = self._call(self._listen(session))
        except OSError as error:
            traffic.close()
            raise HarnessError(f"the relay cannot listen for session {label.session} ({error})") from error
        self._open[label.session] = session
        return address

    def close_session(self, label: SessionLabel) -> tuple[ExchangeSummary, ...]:
        """Cuts the session's connections, takes its address away, returns all its exchanges in order of their requests."""
        kept = self._session(label).kept
        self._call(self._close(label.session))
        self._raise_fault()
        return kept.summaries()

    def exchanges(self, label: SessionLabel) -> tuple[ExchangeSummary, ...]:
        """The session's exchanges that have ended. Those of a client that is gone by now are among them."""
        session = self._session(label)
        self._call(self._settle(session))
        self._raise_fault()
        return session.kept.summaries()

    def progress(self, label: SessionLabel) -> SessionProgress:
        """Whether the session's traffic gets on, and if not, for how long.

        Progress is that the session opened, a request of a model endpoint was sent, a token came, an answer ended, or a
        client that had lagged behind read on. Comments, role chunks and the list of models are none.
        """
        progress = self._call(self._progress(self._session(label)))
        self._raise_fault()
        return progress

    def output_tokens(self, label: SessionLabel) -> int:
        """Output tokens over the session's ended exchanges, as far as they were reported."""
        return sum(exchange.output_tokens or 0 for exchange in self._session(label).kept.summaries())

    def refused(self, label: SessionLabel) -> int:
        """How many requests of the session were no well-formed calls of a model endpoint."""
        session = self._session(label)
        self._call(self._settle(session))
        self._raise_fault()
        return session.kept.refusals.count

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _session(self, label: SessionLabel) -> _Session:
        session = self._open.get(label.session)
        if session is None:
            raise HarnessError(f"session {label.session} is not open at the relay")
        return session

    def _write(self, work: Callable[[], None]) -> None:
        self._unwritten.acquire()
        self._writer.submit(work).add_done_callback(self._written)

    def _written(self, work: Future[None]) -> None:
        self._unwritten.release()
        # Assigned only where there is a fault: this thread must not put a None over what the other one notes meanwhile.
        if (fault := work.exception()) is not None:
            self._fault = fault

    def _note_context(self, context: dict[str, Any]) -> None:
        """Whatever a callback of the loop raised."""
        self._fault = self._fault or context.get("exception") or HarnessError(context["message"])

    def _raise_fault(self) -> None:
        if isinstance(self._fault, OSError):
            raise EvidenceError(f"the relay could not keep evidence ({self._fault})") from self._fault
        if self._fault is not None:
            raise HarnessError(f"the relay broke: {self._fault!r}") from self._fault

    async def _listen(self, session: _Session) -> RelayAddress:
        def connected() -> ClientSide:
            return ClientSide(self._wiring, session.traffic)

        unix = await self._loop.create_unix_server(connected, path=session.socket, backlog=_BACKLOG)
        session.socket.chmod(0o666)  # a box may run under another user
        tcp = await self._loop.create_server(connected, host="127.0.0.1", port=0, backlog=_BACKLOG)
        session.servers = (unix, tcp)
        return RelayAddress(socket=session.socket, port=tcp.sockets[0].getsockname()[1])

    async def _close(self, number: int) -> None:
        session = self._open.pop(number)
        await _take_in_what_happened()  # who connected before this call is still to be accepted
        # Accept nothing more, but finish what was accepted: a server closed meanwhile loses such a connection unclosed.
        for listening in (one for server in session.servers for one in server.sockets):
            self._loop.remove_reader(listening.fileno())
        await _take_in_what_happened()
        for engine in list(session.traffic.underway):
            engine.cut("aborted: the session ended before the answer's end")
        for client in list(session.traffic.clients):
            client.abort()
        await _take_in_what_happened()
        for server in session.servers:
            server.close()
            await server.wait_closed()
        session.socket.unlink(missing_ok=True)
        self._write(session.kept.close)
        await self._loop.run_in_executor(self._writer, _nothing)

    async def _progress(self, session: _Session) -> SessionProgress:
        await _take_in_what_happened()
        return session.traffic.progress(self._wiring.clock())

    async def _settle(self, session: _Session) -> None:
        """Waits for the exchanges whose client is gone or whose answer is whole, so that they are counted."""
        await _take_in_what_happened()
        for one in session.traffic.underway:
            one.exchange.read_up()
        over = [one.over for one in session.traffic.underway if one.ending or one.exchange.answer.complete]
        if over:
            await asyncio.wait(over, timeout=GRACE_SECONDS)
        await self._loop.run_in_executor(self._writer, _nothing)


class _Session:
    """A session's address and what passes there."""

    def __init__(self, kept: SessionTraffic, socket: Path, *, opened_at: float) -> None:
        self.kept = kept
        self.traffic = Traffic(session=kept, progress_at=opened_at)
        self.socket = socket
        self.servers: tuple[asyncio.Server, ...] = ()


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    """Where a name leads: of several addresses the first that takes a connection, if any does. Raises UsageError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"the engine's address {host}:{port} leads nowhere ({error.strerror or error})") from error
    ways: list[tuple[socket.AddressFamily, Any]] = [(family, address) for family, _, _, _, address in found]
    for family, address in ways[1:] and ways:
        with contextlib.suppress(OSError), socket.create_connection(address[:2], timeout=1):
            return family, address
    return ways[0]


async def _take_in_what_happened() -> None:
    """A connection that was opened or closed before this call is known within a few turns of the loop."""
    for _ in range(10):
        await asyncio.sleep(0)


def _nothing() -> None:
    """What is run after all that was to be written before it."""
