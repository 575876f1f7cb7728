"""How one exchange is kept as evidence: one JSON line, both bodies exact to the byte, without any key.

A request is kept as what it adds to the one written before it in the same file, because agents send their whole
history each time. Instants of token chunks are kept in microseconds after `sent_at`.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import accumulate, chain
from typing import Any

from bench.contracts import SessionLabel

FORMAT = 1
BODY_BYTES = 67_108_864
"""A request over this is refused by the relay; of a longer answer only so much is kept."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request and its answer, as the relay saw them. Instants are seconds of the relay's monotonic clock."""

    label: SessionLabel
    index: int
    """Order in which the session's requests came, from 0."""

    engine_process: int
    method: str
    path: str
    status: int | None
    """None: the engine gave no answer."""

    streamed: bool
    """The answer is an event stream."""

    started_at: float
    """Unix seconds."""

    sent_at: float
    first_byte_at: float | None
    ended_at: float
    fault: str | None
    """What went wrong between client, relay and engine; None: the answer came whole."""

    request: bytes
    response: bytes
    """The body, transfer framing removed."""

    response_bytes: int
    """Length of the whole body; over `len(response)` when only its beginning was kept."""

    redacted: bool
    """The engine repeated the API key in its answer; it is struck out here."""

    arrivals: tuple[tuple[int, float], ...]
    """(bytes of the body so far, instant) of each piece that completed a generated token."""


def encode_line(exchange: Exchange, *, before: bytes) -> bytes:
    """The line, newline included; `before` is the request of the line above it, empty for the first one."""
    shared = shared_length(before, exchange.request)
    microseconds = [round((at - exchange.sent_at) * 1e6) for _, at in exchange.arrivals]
    pairs = zip(_steps([offset for offset, _ in exchange.arrivals]), _steps(microseconds), strict=True)
    held = {name: getattr(exchange, name) for name in _PLAIN}
    line = {
        "format": FORMAT,
        "label": asdict(exchange.label),
        **held,
        "arrivals": _packed(json.dumps(list(chain.from_iterable(pairs)), separators=(",", ":")).encode()),
        "request_shared": shared,
        "request_rest": _packed(exchange.request[shared:]),
        "request_crc32": zlib.crc32(exchange.request),
        "response": _packed(exchange.response),
    }
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode_line(line: bytes, *, before: bytes) -> Exchange:
    """The exchange of one line. Raises ValueError or KeyError when the line, or the chain of requests, is damaged."""
    data = json.loads(line)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"not a line of format {FORMAT}")
    shared = int(data["request_shared"])
    request = before[:shared] + _unpacked(data["request_rest"])
    if shared > len(before) or zlib.crc32(request) != data["request_crc32"]:
        raise ValueError("the request does not follow from the lines above")
    numbers = json.loads(_unpacked(data["arrivals"]))
    sent_at = float(data["sent_at"])
    offsets, microseconds = accumulate(numbers[0::2]), accumulate(numbers[1::2])
    return Exchange(
        label=SessionLabel(**data["label"]),
        request=request,
        response=_unpacked(data["response"]),
        arrivals=tuple((at, sent_at + late / 1e6) for at, late in zip(offsets, microseconds, strict=True)),
        **{name: data[name] for name in _PLAIN},
    )


def shared_length(one: bytes, other: bytes) -> int:
    """How many bytes two bodies have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


_PLAIN = (
    "index",
    "engine_process",
    "method",
    "path",
    "status",
    "streamed",
    "started_at",
    "sent_at",
    "first_byte_at",
    "ended_at",
    "fault",
    "response_bytes",
    "redacted",
)


def _steps(numbers: Iterable[int]) -> list[int]:
    steps, last = [], 0
    for number in numbers:
        steps.append(number - last)
        last = number
    return steps


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def _unpacked(text: Any) -> bytes:
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b64decode(text, validate=True), 2 * BODY_BYTES)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("a compressed part is torn or too long")
    return data
