"""A file of lines that a killed harness may have left torn, made fit to go on with."""

from __future__ import annotations

import os
from pathlib import Path

_TAIL_BYTES = 65_536


def drop_torn_line(path: Path) -> None:
    """Cuts what follows the last line end; makes the file where there is none. Raises OSError."""
    with path.open("a+b") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _TAIL_BYTES))
        tail = stream.read()
        stream.truncate(size - len(tail) + tail.rfind(b"\n") + 1 if tail else 0)
