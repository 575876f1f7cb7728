"""A file of lines that a killed harness may have left torn, made fit to go on with."""

from __future__ import annotations

import os
from pathlib import Path

_TAIL_BYTES = 65_536


def drop_torn_line(path: Path) -> None:
    """Cuts what follows the last line end, however long; makes the file where there is none. Raises OSError."""
    with path.open("a+b") as stream:
        end = stream.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _TAIL_BYTES)
            stream.seek(start)
            place = stream.read(end - start).rfind(b"\n")
            if place >= 0:
                stream.truncate(start + place + 1)
                return
            end = start
        stream.truncate(0)
