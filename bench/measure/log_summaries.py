"""What does an engine's own log say of the requests that it finished? Reads request summaries by a profile's patterns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.engine_profile import LogSummary
from bench.errors import EvidenceError
from bench.measure.summary_values import known_groups, summary_of
from bench.records.schema import EngineSummary

LINE_BYTES = 16_384
"""A longer line is no summary: it is passed over, and said."""

_OPEN_KEYS = 4_096
"""How many requests may have begun a summary without completing it; the oldest is given up."""

_TRIES = 64
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")


def read_summaries(
    path: Path, summary: LogSummary, *, engine_process_start: int = 1, warn: Callable[[str], None]
) -> tuple[EngineSummary, ...]:
    """Every whole summary of a log, in the order in which they were completed.

    Processes are counted up from `engine_process_start`, one further at each line that `summary.starts` finds, if
    something stood before it. A middle line of a summary may be missing, and what it would have told is None. Torn,
    mixed and overlong lines give no summary; how many there were is said through `warn`, at most once a kind. Memory
    holds one line and the result. Raises EvidenceError where the file cannot be read, a pattern names an unknown
    group, or a summary of several lines has no key to join them by.
    """
    reader = _Reader(summary, engine_process_start)
    try:
        with path.open("rb") as stream:
            for number, line in _lines(stream.readline, reader.problems):
                for text in line.split("\r"):
                    reader.read(text, number)
    except OSError as error:
        raise EvidenceError(f"{path}: the engine's log cannot be read ({error.strerror})") from error
    for problem, count in reader.end().items():
        warn(f"{path.name}: {count} x {problem}")
    return tuple(reader.found)


def _lines(readline: Callable[[int], bytes], problems: Counter[str]) -> Iterator[tuple[int, str]]:
    """Whole lines with their numbers from 1, as text without colours and control sequences."""
    number, skipping = 0, False
    while line := readline(LINE_BYTES + 1):
        whole = line.endswith(b"\n")
        number += not skipping
        if skipping or (not whole and len(line) > LINE_BYTES):
            problems[f"line over {LINE_BYTES:,} bytes"] += not skipping
            skipping = not whole
        elif not whole:
            problems["last line without an end, left out"] += 1
        else:
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            yield number, _ANSI.sub("", text) if "\x1b" in text else text


class _Reader:
    """Joins the lines of summaries; `found` grows as they are completed."""

    def __init__(self, summary: LogSummary, engine_process: int) -> None:
        self.found: list[EngineSummary] = []
        self.problems: Counter[str] = Counter()
        self._patterns = [re.compile(pattern) for pattern in summary.lines]
        self._starts = re.compile(summary.starts) if summary.starts is not None else None
        self._process = engine_process
        self._order = 0
        self._fresh = True
        self._open: dict[str | None, _Begun] = {}
        for pattern in self._patterns:
            known_groups(pattern)
            if len(self._patterns) > 1 and "key" not in pattern.groupindex:
                raise EvidenceError(f"log pattern {pattern.pattern!r}: a summary of several lines needs a group 'key'")

    def read(self, text: str, number: int) -> None:
        if self._starts is not None and self._starts.search(text):
            self._new_process()
            return
        for place, pattern in enumerate(self._patterns):
            if (first := pattern.search(text)) is None:
                continue
            if _mixed(pattern, text, first):
                self.problems["line in which two summaries are mixed"] += 1
                return
            for match in pattern.finditer(text):
                self._line(place, match.groupdict(), number)
            return

    def end(self) -> Counter[str]:
        """Gives up what is still open, and says what was wrong in all."""
        self._give_up(len(self._open))
        return self.problems

    def _new_process(self) -> None:
        if not self._fresh:
            self._process += 1
        self._give_up(len(self._open))
        self._open.clear()
        self._order = 0
        self._fresh = False

    def _line(self, place: int, groups: Mapping[str, str | None], number: int) -> None:
        """Takes one line of a summary; the last one completes it."""
        key = groups.get("key")
        last = place == len(self._patterns) - 1
        begun = self._open.pop(key, None)
        if place == 0:
            self._give_up(begun is not None)
            begun = _Begun()
        if begun is None or place < begun.expected:
            # A middle line of which the first was not seen tells nothing: many lines may look like one.
            self.problems["summary without its beginning"] += last
            return
        begun.groups.update({name: value for name, value in groups.items() if value is not None})
        begun.expected = place + 1
        if not last:
            self._open[key] = begun
            if len(self._open) > _OPEN_KEYS:
                del self._open[next(iter(self._open))]
                self._give_up(1)
            return
        summary = summary_of(begun.groups, engine_process=self._process, order=self._order, line=number)
        if summary is None:
            self.problems["summary without a count that can be believed"] += 1
            return
        self.found.append(summary)
        self._order += 1
        self._fresh = False

    def _give_up(self, count: int) -> None:
        if count:
            self.problems["summary that was begun and not completed"] += count


class _Begun:
    """A summary of which some lines were read."""

    __slots__ = ("expected", "groups")

    def __init__(self) -> None:
        self.expected = 0
        self.groups: dict[str, str] = {}


def _mixed(pattern: re.Pattern[str], text: str, first: re.Match[str]) -> bool:
    """Whether the pattern also fits from further on inside its own match, with another value for some group.

    Two writers that share a line leave the beginning of one summary before the rest of another.
    """
    at = first.start() + 1
    for _ in range(_TRIES):
        other = pattern.search(text, at)
        if other is None or other.start() >= first.end():
            return False
        for name in pattern.groupindex:
            (begin, end), (other_begin, other_end) = first.span(name), other.span(name)
            if min(begin, other_begin) >= 0 and (end <= other_begin or other_end <= begin):
                return True
        at = other.start() + 1
    return True
