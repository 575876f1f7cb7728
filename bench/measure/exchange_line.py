"""How one exchange is kept as evidence: one JSON line, both bodies exact to the byte, without any key.

Agents send their whole history each time, so a request is kept as what it has that the one written before it in the
same file has not: `request_shared` counts the bytes that both have at their beginning and at their end. `packed` is
zlib of three parts behind one another: instants of token chunks (steps in bytes and in microseconds after `sent_at`),
the request's own bytes, the response; `parts` holds the lengths of the first two.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from bench.contracts import SessionLabel

FORMAT = 2
"""Of what is written. Format 1, which packed the parts one by one, is still read."""

_LEVEL = 6
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
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
    request = exchange.request
    shared = shared_length(before, request)
    shared_end = shared_ending(before[shared:], request[shared:])
    rest = request[shared : len(request) - shared_end]
    arrivals = _written_arrivals(exchange)
    line = {
        "format": FORMAT,
        "label": _written_label(exchange.label),
        **{name: getattr(exchange, name) for name in _PLAIN},
        "request_shared": [shared, shared_end],
        "request_crc32": zlib.crc32(request),
        "parts": [len(arrivals), len(rest)],
        "packed": _packed(arrivals + rest + exchange.response),
    }
    return _JSON.encode(line).encode() + b"\n"


def decode_line(line: bytes, *, before: bytes) -> Exchange:
    """The exchange of one line, all its values of their types. Raises ValueError or KeyError when it or the chain is damaged."""
    try:
        return _decoded(json.loads(line), before)
    except (TypeError, OverflowError, RecursionError, zlib.error) as error:
        raise ValueError(str(error)) from error


def _decoded(data: Any, before: bytes) -> Exchange:
    if not isinstance(data, dict) or data.get("format") not in (1, FORMAT):
        raise ValueError(f"not a line of format 1 or {FORMAT}")
    _check(data, _PLAIN)
    _check(data["label"], _LABEL)
    if data["format"] == 1:
        shared, shared_end = int(data["request_shared"]), 0
        arrivals, rest, response = (_unpacked(data[name]) for name in ("arrivals", "request_rest", "response"))
        first, second = len(arrivals), len(rest)
    else:
        shared, shared_end = map(int, data["request_shared"])
        first, second = map(int, data["parts"])
        packed = _unpacked(data["packed"])
        arrivals, rest, response = packed[:first], packed[first : first + second], packed[first + second :]
    if min(shared, shared_end, first, second) < 0 or shared + shared_end > len(before):
        raise ValueError("the request shares with the one above what that has not")
    request = before[:shared] + rest + before[len(before) - shared_end :]
    if zlib.crc32(request) != data["request_crc32"]:
        raise ValueError("the request does not follow from the lines above")
    numbers = json.loads(arrivals)
    sent_at = float(data["sent_at"])
    if not all(isinstance(step, int) for step in numbers):
        raise ValueError("an instant of a token is no whole number")
    offsets, microseconds = accumulate(numbers[0::2]), accumulate(numbers[1::2])
    return Exchange(
        label=SessionLabel(**data["label"]),
        request=request,
        response=response,
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


def shared_ending(one: bytes, other: bytes) -> int:
    """How many bytes two bodies have in common at their end."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low


_INSTANT = (int, float)
_NONE = type(None)
_PLAIN: Mapping[str, tuple[type, ...]] = {
    "index": (int,),
    "engine_process": (int,),
    "method": (str,),
    "path": (str,),
    "status": (int, _NONE),
    "streamed": (bool,),
    "started_at": _INSTANT,
    "sent_at": _INSTANT,
    "first_byte_at": (*_INSTANT, _NONE),
    "ended_at": _INSTANT,
    "fault": (str, _NONE),
    "response_bytes": (int,),
    "redacted": (bool,),
}
"""What a line holds as it is in an exchange, and the types that it may have."""

_LABEL: Mapping[str, tuple[type, ...]] = {
    "run_id": (str,),
    "session": (int,),
    "role": (str,),
    "task": (str, _NONE),
    "attempt": (int,),
    "retry": (int,),
}


def _check(data: Any, types: Mapping[str, tuple[type, ...]]) -> None:
    """Raises KeyError or ValueError where a value is missing, of another type, or a number without an end."""
    for name, allowed in types.items():
        value = data[name]
        if type(value) not in allowed:
            raise ValueError(f"{name} is a {type(value).__name__}")
        if isinstance(value, int | float) and not abs(value) < _MOST:
            raise ValueError(f"{name} is no number that can be")


_MOST = 2**53
"""Beyond it a float is no exact whole number; no clock or count comes near."""


def _written_arrivals(exchange: Exchange) -> bytes:
    """Bytes and microseconds since the piece before, by turns, as a JSON list: small numbers that repeat."""
    steps: list[int] = []
    offset = late = 0
    for next_offset, at in exchange.arrivals:
        next_late = round((at - exchange.sent_at) * 1e6)
        steps += (next_offset - offset, next_late - late)
        offset, late = next_offset, next_late
    return _JSON.encode(steps).encode()


@lru_cache(maxsize=8)
def _written_label(label: SessionLabel) -> dict[str, Any]:
    return asdict(label)


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, _LEVEL)).decode("ascii")


def _unpacked(text: Any) -> bytes:
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b64decode(text, validate=True), 2 * BODY_BYTES)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("a compressed part is torn or too long")
    return data
