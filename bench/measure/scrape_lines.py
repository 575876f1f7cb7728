"""How readings of a metrics page are kept as evidence: `metrics.jsonl`, one JSON line a reading.

A reading's line holds the page's lines that count, or, where those differ from the last ones in nothing but their
numbers, the numbers alone. A watch begins with a whole page, so each of its parts of a file can be read by itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engine_profile import MetricsPage
from bench.errors import EvidenceError
from bench.measure.counters import may_be_rounded, read_page
from bench.records.schema import Scrape

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One attempt to read the page. Instants are seconds of the relay's clock."""

    engine_process: int
    asked_at: float
    answered_at: float
    lines: tuple[str, ...]
    """What counts of the page; empty where nothing could be read."""

    lost: str | None
    """Why nothing could be read."""


class ReadingLines:
    """Writes and reads the lines of one file, in order."""

    def __init__(self) -> None:
        self._form: tuple[str, ...] = ()

    def encode(self, reading: Reading) -> bytes:
        """The line, newline included."""
        held: dict[str, Any] = {
            "format": FORMAT,
            "engine_process": reading.engine_process,
            "asked_at": reading.asked_at,
            "answered_at": reading.answered_at,
        }
        if reading.lost is not None:
            held["lost"] = reading.lost
        else:
            parts = [_parted(line) for line in reading.lines]
            form = tuple(rest for rest, _ in parts)
            held |= {"numbers": [number for _, number in parts]} if form == self._form else {"page": reading.lines}
            self._form = form
        return json.dumps(held, separators=(",", ":"), allow_nan=False).encode() + b"\n"

    def decode(self, line: bytes) -> Reading:
        """Raises ValueError, KeyError, TypeError or OverflowError where the line is damaged."""
        held = json.loads(line)
        if not isinstance(held, dict) or held.get("format") != FORMAT:
            raise ValueError(f"not a line of format {FORMAT}")
        lost = held.get("lost")
        lines: tuple[str, ...] = ()
        if lost is None:
            words = held["page"] if "page" in held else held["numbers"]
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise ValueError("a page is a list of words")
            lines = tuple(words if "page" in held else self._filled(words))
            self._form = tuple(_parted(one)[0] for one in lines)
        asked_at, answered_at = float(held["asked_at"]), float(held["answered_at"])
        if not -math.inf < asked_at <= answered_at < math.inf:
            raise ValueError("instants that cannot be")
        return Reading(
            engine_process=int(held["engine_process"]),
            asked_at=asked_at,
            answered_at=answered_at,
            lines=lines,
            lost=None if lost is None else str(lost),
        )

    def _filled(self, numbers: Sequence[str]) -> Iterator[str]:
        for rest, number in zip(self._form, numbers, strict=True):
            yield rest + number


def iterate_scrapes(path: Path, metrics: MetricsPage, *, warn: Callable[[str], None]) -> Iterator[Scrape]:
    """The readings of one `metrics.jsonl` in order, one at a time; a run without a watch has no such file.

    A torn last line (the harness was killed while it wrote) is said through `warn`. Raises EvidenceError where a line
    before the last is damaged or the file cannot be read.
    """
    lines = ReadingLines()
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    warn(f"{path}: line {number} is torn; that reading is lost")
                    return
                try:
                    reading = lines.decode(line)
                except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                    raise EvidenceError(f"{path}: line {number} is damaged ({error})") from error
                yield scrape_of(reading, metrics)
    except FileNotFoundError:
        return
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read ({error.strerror})") from error


def scrape_of(reading: Reading, metrics: MetricsPage) -> Scrape:
    """The reading's counters in seconds and tokens."""
    values: Mapping[str, float] = {}
    problem = reading.lost
    if problem is None:
        values, problem = read_page("".join(f"{line}\n" for line in reading.lines), metrics)
    return Scrape(
        engine_process=reading.engine_process,
        asked_at=reading.asked_at,
        answered_at=reading.answered_at,
        values=dict(values),
        problem=problem,
        rounded=may_be_rounded(reading.lines),
    )


def _parted(line: str) -> tuple[str, str]:
    """A line up to its last word, and that: its number; a line about a type has none."""
    head, blank, number = ("", "", "") if line.startswith("#") else line.rpartition(" ")
    return (head + blank, number) if number else (line, "")
