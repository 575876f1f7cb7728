"""Copies what a process writes to its pipes into files, up to a limit, while somebody else waits for it.

Byte for byte, but for whole lines that begin as told: those say nothing new, and some agents write more of them than
of all else.
"""

from __future__ import annotations

import os
import re
import selectors
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from bench.errors import EvidenceError

_PIECE_BYTES = 262_144
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")


class PipeCopies:
    """Context manager that owns its pipes and files; raises EvidenceError when a file cannot be written.

    Past its limit a stream is still read, so that the writer never blocks on the harness, and dropped.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._copies: list[_Copy] = []
        self._open = 0

    def add(self, pipe: IO[bytes], path: Path, limit_bytes: int, noise: tuple[bytes, ...] = ()) -> None:
        """`noise`: beginnings of lines that are read and dropped."""
        copy = _Copy(pipe, path, limit_bytes, _LineFilter(noise) if noise else None)
        self._copies.append(copy)
        self._selector.register(pipe, selectors.EVENT_READ, copy)
        self._open += 1

    @property
    def open(self) -> bool:
        """Whether a pipe still has a writer."""
        return self._open > 0

    @property
    def dropped(self) -> str | None:
        """Which streams were longer than their limit, or None."""
        return (
            "; ".join(f"{copy.path.name} was cut at {copy.limit:,} bytes" for copy in self._copies if copy.over) or None
        )

    def pump(self, seconds: float) -> bool:
        """Copies what is there, waiting up to `seconds` for the first byte. False when nothing came."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            copy: _Copy = key.data
            if not copy.take(os.read(key.fd, _PIECE_BYTES)):
                self._selector.unregister(key.fileobj)
                self._open -= 1
        return bool(ready)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._selector.close()
        for copy in self._copies:
            copy.close()


class _Copy:
    def __init__(self, pipe: IO[bytes], path: Path, limit: int, noise: _LineFilter | None) -> None:
        self.path = path
        self._noise = noise
        self.limit = limit
        self.over = False
        self._left = limit
        self._pipe = pipe
        try:
            self._file = path.open("xb", buffering=0)
        except OSError as error:
            raise EvidenceError(f"{path}: cannot be written ({error.strerror})") from error

    def take(self, data: bytes) -> bool:
        """Keeps one piece; False at the end of the stream."""
        wanted = data
        if self._noise is not None:
            wanted = self._noise.feed(data) if data else self._noise.end()
        kept = memoryview(wanted)[: self._left]
        self.over = self.over or len(kept) < len(wanted)
        self._left -= len(kept)
        try:
            while kept:
                kept = kept[self._file.write(kept) :]
        except OSError as error:
            raise EvidenceError(f"{self.path}: cannot be written ({error.strerror})") from error
        return bool(data)

    def close(self) -> None:
        self._file.close()
        self._pipe.close()


class _LineFilter:
    """Drops lines that begin with one of several byte strings; holds back no more than the longest of them."""

    def __init__(self, beginnings: tuple[bytes, ...]) -> None:
        self._beginnings = beginnings
        self._longest = max(len(one) for one in beginnings)
        self._held = b""
        """The beginning of a line of which it is not yet known what it is."""

        self._inside: bool | None = None
        """Of the line that has begun: True kept, False dropped, None not known yet."""

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._kept(piece) for piece in _LINES.findall(data))

    def _kept(self, piece: bytes) -> bytes:
        """What of a line, or of a piece of one, is to be kept by now."""
        line = piece
        if self._inside is None:
            self._held += piece
            if len(self._held) < self._longest and not self._held.endswith(b"\n"):
                return b""
            self._inside = not self._held.startswith(self._beginnings)
            line, self._held = self._held, b""
        kept = line if self._inside else b""
        if line.endswith(b"\n"):
            self._inside = None
        return kept

    def end(self) -> bytes:
        """What was held back, unless it begins as what is dropped."""
        held, self._held = self._held, b""
        return b"" if held.startswith(self._beginnings) else held
