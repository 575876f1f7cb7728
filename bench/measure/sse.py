"""Where do the events of an event stream begin and end? Incremental: the stream may be split at any byte."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")
EVENT_BYTES = 67_108_864
"""An event longer than this is not read; the bytes pass all the same."""


class SseReader:
    """Cuts an event stream into the data of its events, as bytes; comments and other fields are dropped."""

    def __init__(self) -> None:
        self.damage: str | None = None
        """Why the reader gave up, if it did."""

        self._line = bytearray()
        self._data: list[bytes] = []
        self._held_bytes = 0
        self._after_cr = False
        self._first_line = True

    def feed(self, data: bytes) -> list[bytes]:
        """Data of the events that `data` completed, in order."""
        if self.damage is not None or not data:
            return []
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
        self._after_cr = data[-1:] == b"\r" if data else False
        events: list[bytes] = []
        at = 0
        for end in _LINE_END.finditer(data):
            self._line += data[at : end.start()]
            at = end.end()
            self._end_line(events)
        self._line += data[at:]
        if len(self._line) + self._held_bytes > EVENT_BYTES:
            self.damage = f"an event is longer than {EVENT_BYTES:,} bytes"
            self._line.clear()
            self._data.clear()
        return events

    def end(self) -> list[bytes]:
        """Data of a last event that no empty line closed: read all the same, since its bytes were sent."""
        events: list[bytes] = []
        if self._line:
            self._end_line(events)
        self._end_line(events)
        return events

    def _end_line(self, events: list[bytes]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
                self._held_bytes = 0
        elif line == b"data" or line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._held_bytes += len(value)
