"""What did a session ask for that does not pass the relay? Kept as evidence in `refused.jsonl`, counted to the last one."""

from __future__ import annotations

import json
from pathlib import Path

from bench.measure.line_file import drop_torn_line

NAME = "refused.jsonl"
_KEPT = 1000
"""So many are kept one by one, then each thousandth: whoever floods the relay shall not fill the disk."""


class Refusals:
    """Counts one session's refused requests; each line holds the count so far. The file exists once there is one."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        if self._path.exists():
            drop_torn_line(self._path)
        self.count = read_refused(folder)
        self._written = self.count

    def add(self, *, wall: float, status: int | None, why: str) -> None:
        """One more. Raises OSError.

        `wall`: Unix seconds; `status`: what the client was answered, None: it was gone before its request was whole.
        """
        self.count += 1
        if self.count <= _KEPT or self.count % _KEPT == 0:
            self._write({"count": self.count, "at": wall, "status": status, "why": why})

    def close(self) -> None:
        """Writes the count down where the last refusals were not kept. Raises OSError."""
        if self._written != self.count:
            self._write({"count": self.count})

    def _write(self, line: dict[str, object]) -> None:
        with self._path.open("ab") as stream:
            stream.write(json.dumps(line).encode() + b"\n")
        self._written = self.count


def read_refused(folder: Path) -> int:
    """How many requests of a session were refused: the count of the last whole line; 0 where there is no file.

    `folder` is the session's. Raises OSError where the file cannot be read.
    """
    count = 0
    try:
        with (folder / NAME).open("rb") as stream:
            for line in stream:
                count = max(count, _count(line))
    except FileNotFoundError:
        return 0
    return count


def _count(line: bytes) -> int:
    """A line that was torn when the harness was killed counts as none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return 0
    count = found.get("count") if isinstance(found, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else 0
