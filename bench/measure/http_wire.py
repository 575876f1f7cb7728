"""What of HTTP/1.1 does the relay understand, and what does it write? One strict parser, so that nobody else reads a request differently.

Refused: HTTP/1.0 clients (they cannot tell a torn answer from a whole one), bare CR or LF, folded headers, two lengths,
a length beside chunked, any other transfer coding, chunk extensions, control characters, heads over 64 KB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

HEAD_BYTES = 65_536
_HEADERS = 128
_LINE_BYTES = 256
"""Longest size line or trailer of a chunked body."""

_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) ([!-~]{1,8192}) HTTP/1\.1")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: ([\t -~\x80-\xff]*))?")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~\x80-\xff]*)")
_LENGTH = re.compile(r"[0-9]{1,15}")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")

Headers = tuple[tuple[str, str], ...]
Framing = int | Literal["chunked", "close"]
"""How a body ends: after so many bytes, with its last chunk, or with the connection."""

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
    }
)


class WireError(ValueError):
    """The bytes are not the HTTP/1.1 that the relay accepts; the text says why."""


@dataclass(frozen=True, kw_only=True)
class RequestHead:
    method: str
    target: str
    """As it stands in the request line, query included."""

    headers: Headers


@dataclass(frozen=True, kw_only=True)
class AnswerHead:
    status: int
    reason: str
    headers: Headers


def read_request_head(head: bytes) -> RequestHead:
    """Parses a request's head, its closing empty line included. Raises WireError."""
    first, headers = _split(head)
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise WireError("the request line is malformed or not of HTTP/1.1")
    return RequestHead(method=line[1].decode("ascii"), target=line[2].decode("ascii"), headers=headers)


def read_answer_head(head: bytes) -> AnswerHead:
    """Parses an answer's head, its closing empty line included. Raises WireError."""
    first, headers = _split(head)
    line = _STATUS_LINE.fullmatch(first)
    if line is None:
        raise WireError("the status line is malformed")
    return AnswerHead(status=int(line[1]), reason=(line[2] or b"").decode("latin-1"), headers=headers)


def request_framing(head: RequestHead) -> Framing:
    """How the request's body ends; a request that says nothing has none. Raises WireError."""
    stated = _stated_framing(head.headers)
    return 0 if stated is None else stated


def answer_framing(head: AnswerHead) -> Framing:
    """How the answer's body ends. Raises WireError."""
    stated = _stated_framing(head.headers)
    if head.status in (204, 304):
        return 0
    return "close" if stated is None else stated


def end_to_end(headers: Headers, *, without: Iterable[str]) -> Headers:
    """The headers that are passed on: none about this connection, none named in `without` (lower case).

    `_` counts as `-` in names, because some servers read them so.
    """
    dropped = _HOP_BY_HOP | set(without)
    for name, value in headers:
        if name.lower() == "connection":
            dropped |= {token.strip().lower() for token in value.split(",")}
    return tuple((name, value) for name, value in headers if name.lower().replace("_", "-") not in dropped)


def header(headers: Headers, name: str) -> str | None:
    """The first value of a header; `name` in lower case."""
    return next((value for key, value in headers if key.lower() == name), None)


def write_head(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """A head on the wire, its closing empty line included."""
    lines = [first, *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def write_answer_head(head: AnswerHead, framing: Framing) -> bytes:
    """The head of an answer that is passed on: a known length stays, every other body goes out in chunks."""
    headers = [*end_to_end(head.headers, without=()), ("Connection", "close")]
    if not isinstance(framing, int):
        headers.append(("Transfer-Encoding", "chunked"))
    elif head.status not in (204, 304):
        headers.append(("Content-Length", str(framing)))
    return write_head(f"HTTP/1.1 {head.status} {head.reason}", headers)


def write_error(status: int, message: str) -> bytes:
    """A whole answer of the relay's own, in the form of an OpenAI error."""
    body = json.dumps({"error": {"message": message, "type": "relay_error", "code": status}}).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
    return write_head(f"HTTP/1.1 {status} Relay", headers) + body


class AnswerHeadReader:
    """Takes an answer's head off the wire as it comes; interim answers (100, 103) are dropped."""

    def __init__(self) -> None:
        self.rest = b""
        """What came behind the head; before that, what came so far."""

    def feed(self, data: bytes) -> AnswerHead | None:
        """The head once it is whole. Raises WireError, also as soon as it is plain that no HTTP comes."""
        self.rest += data
        while (end := self.rest.find(b"\r\n\r\n") + 4) >= 4:
            head, self.rest = read_answer_head(self.rest[:end]), self.rest[end:]
            if head.status >= 200:
                return head
        if len(self.rest) > HEAD_BYTES:
            raise WireError(f"the head is over {HEAD_BYTES:,} bytes")
        if not self.rest.startswith(b"HTTP/1."[: len(self.rest)]):
            raise WireError("it does not begin with HTTP/1")
        return None


class Body:
    """Takes a body off the wire as it comes; `feed` returns the bytes of the body itself, framing removed."""

    def __init__(self, framing: Framing) -> None:
        self.framing = framing
        self.finished = framing == 0
        self.damage: WireError | None = None
        """What is wrong with the framing behind the bytes that `feed` has returned."""

        self._left = framing if isinstance(framing, int) else 0
        self._pending = b""
        self._expect: Literal["size", "gap", "trailer"] = "size"

    def feed(self, data: bytes) -> bytes:
        """Body bytes in `data`, up to the first damage; what follows the body's end is dropped."""
        if self.finished or self.damage is not None:
            return b""
        if self.framing == "close":
            return data
        if self.framing == "chunked":
            return self._feed_chunked(data)
        piece = data[: self._left]
        self._left -= len(piece)
        self.finished = self._left == 0
        return piece

    def _feed_chunked(self, data: bytes) -> bytes:
        if self._pending:
            data = self._pending + data
        at = 0
        pieces: list[bytes] = []
        while not self.finished:
            if self._left:
                piece = data[at : at + self._left]
                if not piece:
                    break
                at += len(piece)
                pieces.append(piece)
                self._left -= len(piece)
            end = data.find(b"\r\n", at)
            if self._left or end < 0:
                break
            try:
                self._take_line(data[at:end])
            except WireError as error:
                self.damage = error
                break
            at = end + 2
        self._pending = b"" if self.finished else data[at:]
        if len(self._pending) > _LINE_BYTES:
            self.damage = self.damage or WireError("a chunk's framing is malformed")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take_line(self, line: bytes) -> None:
        if self._expect == "size":
            if not _CHUNK_SIZE.fullmatch(line):
                raise WireError("a chunk's size is malformed")
            self._left = int(line, 16)
            self._expect = "gap" if self._left else "trailer"
        elif self._expect == "gap":
            if line:
                raise WireError("a chunk is longer than its size says")
            self._expect = "size"
        elif not line:
            self.finished = True
        elif not _HEADER.fullmatch(line):
            raise WireError("a trailer is malformed")


def _split(head: bytes) -> tuple[bytes, Headers]:
    if len(head) > HEAD_BYTES:
        raise WireError(f"the head is over {HEAD_BYTES:,} bytes")
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    if len(lines) > _HEADERS:
        raise WireError(f"the head has over {_HEADERS} lines")
    headers = []
    for line in lines[1:]:
        # A folded line begins with a blank and a bare CR or LF is in no character class: both fail here.
        found = _HEADER.fullmatch(line)
        if found is None:
            raise WireError("a header is malformed")
        headers.append((found[1].decode("ascii"), found[2].decode("latin-1").rstrip(" \t")))
    return lines[0], tuple(headers)


def _stated_framing(headers: Headers) -> int | Literal["chunked"] | None:
    lengths = [value for name, value in headers if name.lower() == "content-length"]
    codings = [value for name, value in headers if name.lower() == "transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise WireError("the body's length is stated more than once")
    if codings:
        if codings[0].lower() != "chunked":
            raise WireError("a transfer coding other than chunked")
        return "chunked"
    if not lengths:
        return None
    if not _LENGTH.fullmatch(lengths[0]):
        raise WireError("the content length is no number")
    return int(lengths[0])
