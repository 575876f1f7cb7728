"""Copies what a process writes to its pipes into files, byte for byte, up to a limit, while somebody else waits for it."""

from __future__ import annotations

import os
import selectors
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from bench.errors import EvidenceError

_PIECE_BYTES = 262_144


class PipeCopies:
    """Context manager that owns its pipes and files; raises EvidenceError when a file cannot be written.

    Past its limit a stream is still read, so that the writer never blocks on the harness, and dropped.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._copies: list[_Copy] = []
        self._open = 0

    def add(self, pipe: IO[bytes], path: Path, limit_bytes: int) -> None:
        copy = _Copy(pipe, path, limit_bytes)
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
    def __init__(self, pipe: IO[bytes], path: Path, limit: int) -> None:
        self.path = path
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
        kept = memoryview(data)[: self._left]
        self.over = self.over or len(kept) < len(data)
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
