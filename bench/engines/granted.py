"""What a ready engine really granted: its context window, its version, its offload, read where its profile says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.engines.profile import value_at

if TYPE_CHECKING:
    from bench.engines.engine_http import Answer, Endpoint
    from bench.engines.profile import ProfileFile
    from bench.engines.profile_parts import Place

_LOG_BYTES = 4_000_000
"""Engines say what they grant while they start."""

_LONGEST = 200


class Facts:
    """Answers each place of a profile; each address is asked once."""

    def __init__(self, endpoint: Endpoint, *, model: str, log: Path | None, log_from: int = 0) -> None:
        """`log_from`: the byte of the log at which this launch began."""
        self._endpoint = endpoint
        self._model = model
        self._answers: dict[str, Answer] = {}
        self._log = _beginning(log, log_from) if log is not None else ""

    def first(self, places: Iterable[Place]) -> Any:
        """The value at the first place that has one; None where none has."""
        return next((value for place in places if (value := self._at(place)) is not None), None)

    def context_window(self, profile: ProfileFile) -> int | None:
        """Tokens that one request may hold, or None where the engine does not tell a believable number."""
        found = (self._at(place) for place in profile.context_window)
        return next((number for value in found if (number := _tokens(value)) is not None), None)

    def version(self, profile: ProfileFile) -> str | None:
        return _shown(self.first(profile.version))

    def granted(self, profile: ProfileFile) -> dict[str, str]:
        """The profile's further facts, as far as the engine tells them."""
        found = {name: _shown(self.first(places)) for name, places in profile.granted.items()}
        return {name: text for name, text in found.items() if text is not None}

    def _at(self, place: Place) -> Any:
        if place.log is not None:
            found = re.search(place.log, self._log)
            return found.group(1).strip() if found else None
        path = place.path or "/"
        if path not in self._answers:
            self._answers[path] = self._endpoint.ask("GET", path)
        answer = self._answers[path]
        return value_at(answer.json(), place.key or "", model=self._model) if answer.status == 200 else None


def _beginning(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read(_LOG_BYTES).decode("utf-8", "replace")


def _tokens(value: object) -> int | None:
    """A count of tokens out of JSON or a log (`46,592`)."""
    if isinstance(value, str):
        digits = value.replace(",", "")
        value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 12 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**10 else None


def _shown(value: object) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    return "".join(c if c.isprintable() else " " for c in str(value))[:_LONGEST] or None
