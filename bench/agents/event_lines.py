"""Reads a stored stream of JSON lines that an untrusted program wrote: every object in it, and what is wrong with it."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LINE_BYTES = 10_000_000
STREAM_BYTES = 64_000_000


class EventLines:
    """Iterates over the JSON objects of a file, once; afterwards `damage` says what was passed over.

    Never raises because of the file: a missing one, a link, a torn last line, lines that are too long, no UTF-8, no
    JSON or no objects are damage. At most `STREAM_BYTES` are read, and a line is held only up to `LINE_BYTES`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problems: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    @property
    def damage(self) -> str | None:
        """E.g. `2 x no JSON object (first in line 7)`, several joined by `; `; None when all is well."""
        said = [
            f"{count} x {problem} (first in line {self._first[problem]})" for problem, count in self._problems.items()
        ]
        return "; ".join(said) or None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._note(f"the stream cannot be read: {error.strerror}", 0)
            return
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            self._note("the stream is no regular file", 0)
            return
        with os.fdopen(descriptor, "rb") as file:
            taken, number, skipping = 0, 0, False
            while line := file.readline(min(LINE_BYTES + 1, STREAM_BYTES - taken)):
                taken += len(line)
                whole = line.endswith(b"\n")
                number += not skipping
                if skipping or (not whole and len(line) > LINE_BYTES):
                    if not skipping:
                        self._note(f"line over {LINE_BYTES:,} bytes", number)
                    skipping = not whole
                    continue
                if not whole:
                    self._note("line without an end", number)
                yield from self._object_in(line, number)
            if file.read(1):
                self._note(f"stream over {STREAM_BYTES:,} bytes", number)

    def _object_in(self, line: bytes, number: int) -> Iterator[dict[str, Any]]:
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield value
        else:
            self._note("no JSON object", number)

    def _note(self, problem: str, number: int) -> None:
        self._problems[problem] += 1
        self._first.setdefault(problem, number)
