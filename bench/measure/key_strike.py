"""How is an API key kept out of what an agent gets? It is struck out, byte for byte, wherever an answer repeats it.

Only a key that stands there literally, or escaped as JSON writes it, is found; an engine that encodes it otherwise
is not caught. Asterisks take its place, so no length changes, and an answer without the key is never touched: bytes
that could be a key's beginning wait for the next piece, at most one byte fewer than the key has.
"""

from __future__ import annotations

import json

_SHORTEST = 8
"""A shorter key is no secret (`EMPTY`, `none`), and a word that answers may well hold."""


class KeyStrike:
    """Passes an answer on in pieces, with the key struck out. No key: nothing is held back."""

    def __init__(self, key: str | None) -> None:
        self.struck = False
        """Whether the key was found."""

        forms: set[str] = set()
        if key is not None and len(key) >= _SHORTEST:
            forms = {key, json.dumps(key)[1:-1], key.replace("/", "\\/")}
        self._forms = [form.encode("ascii") for form in sorted(forms, key=len, reverse=True)]
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What can be passed on now."""
        if not self._forms:
            return data
        if self._held:
            data = self._held + data
        data = self._strike(data)
        keep = self._beginning(data)
        self._held = data[keep:]
        return data[:keep] if self._held else data

    def end(self) -> bytes:
        """What was still held back."""
        rest, self._held = self._held, b""
        return rest

    def head(self, data: bytes) -> bytes:
        """A whole head, with the key struck out."""
        return self._strike(data)

    def _strike(self, data: bytes) -> bytes:
        for form in self._forms:
            if form in data:
                data = data.replace(form, b"*" * len(form))
                self.struck = True
        return data

    def _beginning(self, data: bytes) -> int:
        """Where a key may begin that goes on in the next piece; the data's end if nowhere."""
        earliest = len(data)
        for form in self._forms:
            at = data.find(form[:1], max(0, len(data) - len(form) + 1))
            while 0 <= at < earliest:
                if form.startswith(data[at:]):
                    earliest = at
                    break
                at = data.find(form[:1], at + 1)
        return earliest
