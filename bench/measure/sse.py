"""Where do the events of an event stream begin and end? Incremental: the stream may be split at any byte."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")
_PLAIN_EVENT = re.compile(rb"data: ?([^\n]*)\n\n")
EVENT_BYTES = 67_108_864
"""An event longer than this is not read; the bytes pass all the same."""

Event = tuple[int, bytes]
"""How many bytes of the stream make the event complete (its last line end by CR LF: the CR does), and its data."""


class SseReader:
    """Cuts an event stream into its events; comments and other fields than data are dropped."""

    def __init__(self) -> None:
        self.damage: str | None = None
        """Why the reader gave up, if it did."""

        self._offset = 0
        self._line = bytearray()
        self._data: list[bytes] = []
        self._held_bytes = 0
        self._after_cr = False
        self._first_line = True

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completed, in order."""
        if self.damage is not None or not data:
            return []
        start = self._offset
        self._offset += len(data)
        events: list[Event] = []
        at = self._feed_plain(data, start, events)
        if self._after_cr and data[at : at + 1] == b"\n":
            at += 1
        self._after_cr = data[-1:] == b"\r"
        for end in _LINE_END.finditer(data, at):
            self._line += data[at : end.start()]
            at = end.end()
            self._end_line(start + end.start() + 1, events)
        self._line += data[at:]
        if len(self._line) + self._held_bytes > EVENT_BYTES:
            self.damage = f"an event is longer than {EVENT_BYTES:,} bytes"
            self._line.clear()
            self._data.clear()
        return events

    def end(self) -> list[Event]:
        """A last event that no empty line closed: read all the same, since its bytes were sent."""
        events: list[Event] = []
        if self._line:
            self._end_line(self._offset, events)
        self._end_line(self._offset, events)
        return events

    def _feed_plain(self, data: bytes, start: int, events: list[Event]) -> int:
        """The quick way through events of one data line each, as nearly all are; returns how far it came."""
        at = 0
        if self._line or self._data or self._after_cr or b"\r" in data:
            return at
        for found in _PLAIN_EVENT.finditer(data):
            if found.start() != at:
                break
            at = found.end()
            events.append((start + at, found[1]))
        self._first_line = self._first_line and at == 0
        return at

    def _end_line(self, offset: int, events: list[Event]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                events.append((offset, b"\n".join(self._data)))
                self._data.clear()
                self._held_bytes = 0
        elif line == b"data" or line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._held_bytes += len(value)
