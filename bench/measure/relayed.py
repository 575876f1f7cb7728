"""What has one session sent through the relay so far? Its exchanges under way, their evidence, their summaries."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from bench.contracts import SESSION_HEADER, ExchangeSummary, SessionLabel
from bench.measure.endpoints import MODELS_PATH
from bench.measure.exchange import summarise
from bench.measure.exchange_line import BODY_BYTES, Exchange, encode_line
from bench.measure.http_wire import RequestHead, end_to_end, write_head
from bench.measure.line_file import drop_torn_line
from bench.measure.refusals import Refusals
from bench.measure.stream import AnswerReader

_REPLACED = ("authorization", "x-api-key", "api-key", "accept-encoding", "expect", "host", SESSION_HEADER.lower())
"""Headers of the client's that never reach the engine."""

ExchangeHook = Callable[[SessionLabel, int, float], None]
"""Session, index of the exchange in it, instant on the relay's clock."""

_UNREAD_BYTES = 65_536
"""How much of a stream may lie unread. Reading waits for the stream's end, since passing it on is more urgent, but the
whole of a long one would then hold everybody up at once."""


_ASKS_FOR_STREAM = re.compile(rb'"stream"\s*:\s*true')
"""What a text of the request says cannot be taken for it: quotes are escaped there."""


class OpenExchange:
    """An exchange under way. Instants are seconds of the relay's clock."""

    def __init__(self, *, index: int, method: str, path: str, request: bytes, now: float, wall: float) -> None:
        self.index = index
        self.method = method
        self.path = path
        self.request = request
        self.started_at = wall
        self.sent_at = now
        self.first_byte_at: float | None = None
        self.ended_at = now
        self.status: int | None = None
        self.streamed = False
        self.fault: str | None = None
        self.redacted = False
        self.answer = AnswerReader()
        self.response = bytearray()
        self.response_bytes = 0
        self.arrivals: list[tuple[int, float]] = []
        self._pieces: list[tuple[int, float]] = []
        self._unread = bytearray()

    @property
    def counted(self) -> bool:
        """Whether it asks the model anything."""
        return self.path != MODELS_PATH

    @property
    def in_one_piece(self) -> bool:
        """Whether nothing can be seen of the answer before its end."""
        return not (self.streamed or self._asks_for_stream)

    @cached_property
    def _asks_for_stream(self) -> bool:
        return _ASKS_FOR_STREAM.search(self.request) is not None

    def begin_answer(self, status: int, content_type: str) -> None:
        self.status = status
        self.streamed = content_type.partition(";")[0].strip().lower() == "text/event-stream"

    def take(self, piece: bytes, now: float) -> None:
        """The next bytes of the answer's body, which came at `now`."""
        self.response_bytes += len(piece)
        self.response += piece if self.response_bytes <= BODY_BYTES else piece[: BODY_BYTES - len(self.response)]
        if self.streamed:
            self._pieces.append((self.response_bytes, now))
            self._unread += piece
            if len(self._unread) > _UNREAD_BYTES:
                self.read_up()

    def read_up(self) -> bool:
        """Reads all of the stream that is there; True when its closing event is, or the error that took its place."""
        data = bytes(self._unread)
        self._unread.clear()
        self._arrived(self.answer.feed(data))
        del self._pieces[:-1]
        return self.answer.complete or (self.streamed and self.answer.error is not None)

    def last_token_at(self) -> float | None:
        """When the last token of the stream came; None before the first one and for an answer that is not streamed."""
        if self.streamed:
            self.read_up()
        return self.arrivals[-1][1] if self.arrivals else None

    def read_to_end(self) -> None:
        """Nothing more comes; reads what had to be whole first."""
        if self.streamed:
            self.read_up()
            self._arrived(self.answer.end())
        elif self.status is not None:
            self.answer.read_body(bytes(self.response))

    def _arrived(self, ends: list[int]) -> None:
        """Notes the pieces with which the events that ended at these bytes were whole."""
        pieces = iter(self._pieces)
        reached = self.arrivals[-1][0] if self.arrivals else -1
        for end in ends:
            if end > reached:
                piece = next(piece for piece in pieces if piece[0] >= end)
                self.arrivals.append(piece)
                reached = piece[0]


class SessionTraffic:
    """A session's exchanges; each is appended to its evidence file when it ends. Holds one request body, no more.

    `begin` and `engine_head` belong to one thread, `keep` to one thread that may be another.
    """

    def __init__(self, label: SessionLabel, folder: Path, engine_process: int) -> None:
        self.label = label
        self.refusals = Refusals(folder)
        self._engine_process = engine_process
        self._begun = 0
        self._last_request = b""
        self._summaries: dict[int, ExchangeSummary] = {}
        drop_torn_line(folder / "exchanges.jsonl")  # of the preflight, whose file every segment goes on with
        self._stream = (folder / "exchanges.jsonl").open("ab")

    def begin(self, *, method: str, path: str, request: bytes, now: float, wall: float) -> OpenExchange:
        exchange = OpenExchange(index=self._begun, method=method, path=path, request=request, now=now, wall=wall)
        self._begun += 1
        return exchange

    def engine_head(
        self, head: RequestHead, exchange: OpenExchange, engine: tuple[str, int], api_key: str | None
    ) -> bytes:
        """The head that goes to the engine: the client's, with our key and our name of the session."""
        headers = [
            ("Host", f"{engine[0]}:{engine[1]}"),
            *end_to_end(head.headers, without=_REPLACED),
            ("Accept-Encoding", "identity"),
            (SESSION_HEADER, self.label.header),
            ("Connection", "close"),
        ]
        if api_key is not None:
            headers.append(("Authorization", f"Bearer {api_key}"))
        if head.method != "GET" or exchange.request:
            headers.append(("Content-Length", str(len(exchange.request))))
        return write_head(f"{head.method} {exchange.path} HTTP/1.1", headers)

    def keep(self, ended: OpenExchange) -> None:
        """Keeps an exchange that is over. Raises OSError when its line cannot be written."""
        ended.read_to_end()
        exchange = Exchange(
            label=self.label,
            index=ended.index,
            engine_process=self._engine_process,
            method=ended.method,
            path=ended.path,
            status=ended.status,
            streamed=ended.streamed,
            started_at=ended.started_at,
            sent_at=ended.sent_at,
            first_byte_at=ended.first_byte_at,
            ended_at=ended.ended_at,
            fault=ended.fault,
            request=ended.request,
            response=bytes(ended.response),
            response_bytes=ended.response_bytes,
            redacted=ended.redacted,
            arrivals=tuple(ended.arrivals),
        )
        line = encode_line(exchange, before=self._last_request)
        self._last_request = ended.request
        if ended.counted:
            self._summaries[ended.index] = summarise(exchange, ended.answer)
        self._stream.write(line)
        self._stream.flush()

    def summaries(self) -> tuple[ExchangeSummary, ...]:
        """In order of the requests."""
        held = self._summaries.copy()
        return tuple(held[index] for index in sorted(held))

    def close(self) -> None:
        try:
            self.refusals.close()
        finally:
            self._stream.close()
