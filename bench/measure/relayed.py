"""What has one session sent through the relay so far? Its exchanges under way, their evidence, their summaries."""

from __future__ import annotations

from pathlib import Path

from bench.contracts import SESSION_HEADER, ExchangeSummary, SessionLabel
from bench.measure.endpoints import MODELS_PATH
from bench.measure.exchange import summarise
from bench.measure.exchange_line import BODY_BYTES, Exchange, encode_line
from bench.measure.http_wire import RequestHead, end_to_end, write_head
from bench.measure.stream import AnswerReader

_REPLACED = ("authorization", "x-api-key", "api-key", "accept-encoding", "expect", "host", SESSION_HEADER.lower())
"""Headers of the client's that never reach the engine."""


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
        self.ended_at: float | None = None
        self.status: int | None = None
        self.streamed = False
        self.fault: str | None = None
        self.ending = False
        """The client is gone; only its evidence is still to be kept."""

        self.answer = AnswerReader()
        self.response = bytearray()
        self.response_bytes = 0
        self.arrivals: list[tuple[int, float]] = []

    def begin_answer(self, status: int, content_type: str) -> None:
        self.status = status
        self.streamed = content_type.partition(";")[0].strip().lower() == "text/event-stream"

    def take(self, piece: bytes, now: float) -> None:
        """The next bytes of the answer's body, which came at `now`."""
        self.response_bytes += len(piece)
        self.response += piece[: BODY_BYTES - len(self.response)]
        if self.streamed and self.answer.feed(piece):
            self.arrivals.append((self.response_bytes, now))

    def end(self, now: float) -> None:
        """Nothing more comes; reads what had to be whole first."""
        if self.ended_at is None:
            self.ended_at = now
        if self.streamed:
            if self.answer.end():
                self.arrivals.append((self.response_bytes, self.ended_at))
        elif self.status is not None:
            self.answer.read_body(bytes(self.response))


class SessionTraffic:
    """A session's exchanges; each is appended to its evidence file when it ends. Holds one request body, no more."""

    def __init__(self, label: SessionLabel, path: Path, api_key: str | None, engine_process: int) -> None:
        self.label = label
        self.refused = 0
        self._engine_process = engine_process
        self._api_key = api_key
        self._begun = 0
        self._last_request = b""
        self._summaries: dict[int, ExchangeSummary] = {}
        self._stream = path.open("ab")

    def begin(self, *, method: str, path: str, request: bytes, now: float, wall: float) -> OpenExchange:
        exchange = OpenExchange(index=self._begun, method=method, path=path, request=request, now=now, wall=wall)
        self._begun += 1
        return exchange

    def engine_head(self, head: RequestHead, exchange: OpenExchange, engine: tuple[str, int]) -> bytes:
        """The head that goes to the engine: the client's, with our key and our name of the session."""
        headers = [
            ("Host", f"{engine[0]}:{engine[1]}"),
            *end_to_end(head.headers, without=_REPLACED),
            ("Accept-Encoding", "identity"),
            (SESSION_HEADER, self.label.header),
            ("Connection", "close"),
        ]
        if self._api_key is not None:
            headers.append(("Authorization", f"Bearer {self._api_key}"))
        if head.method != "GET" or exchange.request:
            headers.append(("Content-Length", str(len(exchange.request))))
        return write_head(f"{head.method} {exchange.path} HTTP/1.1", headers)

    def end(self, ended: OpenExchange, now: float) -> None:
        """Keeps an exchange that is over. Raises OSError when its line cannot be written."""
        ended.end(now)
        response = bytes(ended.response)
        key = (self._api_key or "").encode()
        redacted = bool(key) and key in response
        if redacted:
            response = response.replace(key, b"*" * len(key))
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
            ended_at=now if ended.ended_at is None else ended.ended_at,
            fault=ended.fault,
            request=ended.request,
            response=response,
            response_bytes=ended.response_bytes,
            redacted=redacted,
            arrivals=tuple(ended.arrivals),
        )
        line = encode_line(exchange, before=self._last_request)
        self._last_request = ended.request
        if ended.path != MODELS_PATH:
            self._summaries[ended.index] = summarise(exchange, ended.answer)
        self._stream.write(line)
        self._stream.flush()

    def summaries(self) -> tuple[ExchangeSummary, ...]:
        """In order of the requests."""
        return tuple(self._summaries[index] for index in sorted(self._summaries))

    def close(self) -> None:
        self._stream.close()
