"""What do the counters on an engine's Prometheus page say? Nothing that could be wrong becomes a number.

An exact reader of our own: prometheus-client also accepts a page cut within its last number, series that stand twice,
digits of other scripts and words behind a value, and gives up a whole page for one value with a comma in it. Here a
line that is no line of the format discredits the page, a value that is no count discredits its own counter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bench.engine_profile import MetricSeries, MetricsPage, Unit

PAGE_BYTES = 16_777_216
"""A larger page is not read."""

ROUNDED_DIGITS = 6
MOST_ROUNDED_TOKENS = 999_999
"""C++ streams round to six digits. On a page where every number looks so, larger counts may be wrong."""

OBSERVATIONS = "observations of {}"
"""Name of a value beside the quantities: how many times were summed up in a histogram's `_sum`."""

_NOTHING_THERE = "none of the profile's counters stands on the page"
_LARGEST = 2.0**53
"""From here on not every whole number has a value of its own."""

_SCALES: Mapping[Unit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "tokens": 1.0}
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*+[ \t]*+=[ \t]*+"(?:[^"\\]|\\.)*+"[ \t]*+'
_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)"
    rf"(?:[ \t]*+\{{[ \t]*+(?P<labels>(?:{_LABEL}(?:,[ \t]*+{_LABEL})*+,?+[ \t]*+)?+)\}})?+[ \t]++"
    r"(?P<value>[^ \t#]++)"
    r"(?:[ \t]++-?+[0-9]++(?:\.[0-9]++)?+)?+(?:[ \t]++#[ \t]*+\{.*+)?+"
)
"""A line of a series: name, labels, value, and perhaps an instant and an exemplar. Never goes back over a hostile line."""

_ONE_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"')
_NUMBER = re.compile(r"\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


@dataclass
class _Series:
    """What stands on a page about one sample name."""

    values: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)
    """Labels in order of their names -> the value as it was printed."""

    twice: bool = False
    """One series stands on the page more than once."""


@dataclass
class _Page:
    series: dict[str, _Series] = field(default_factory=dict)
    types: dict[str, set[str]] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    """The lines about the wanted names."""

    witness: str | None = None
    """A line whose number no writer that rounds to six digits would write so."""


class PageError(Exception):
    """The page is no whole metrics page; the text says why."""


def read_page(text: str, metrics: MetricsPage) -> tuple[Mapping[str, float], str | None]:
    """Seconds and tokens of the profile's counters on one page by Quantity, and what could not be believed.

    A quantity is the sum over all series of the first of its names that has a series whose labels agree. A name that is
    not on the page gives no value and, unless none is there, no problem: engines show some counters only once used.
    """
    try:
        page = _scan(text, _names(metrics))
    except PageError as error:
        return {}, str(error)
    values: dict[str, float] = {}
    problems = []
    for quantity, series in metrics.series.items():
        value, problem = _total(page, series)
        if value is not None and (counted := _observations(page, series)) is not None:
            values[OBSERVATIONS.format(quantity)] = counted
        if problem is not None:
            problems.append(f"{quantity}: {problem}")
        elif value is not None:
            values[quantity] = value
    if not values and not problems:
        problems.append(_NOTHING_THERE)
    return values, "; ".join(problems) or None


def kept_lines(text: str, metrics: MetricsPage) -> tuple[str, ...]:
    """The lines of a page that `read_page` goes by: it reads the same from these alone.

    They are the types and series of the profile's names, and one line that tells whether numbers are rounded. Raises
    PageError for what is not a whole page or has none of the names.
    """
    page = _scan(text, _names(metrics))
    if not page.series:
        raise PageError(_NOTHING_THERE)
    if page.witness is None or page.witness in page.kept:
        return tuple(page.kept)
    return (*page.kept, page.witness)


def may_be_rounded(lines: Iterable[str]) -> bool:
    """Whether every number in these lines of a page is written as one that was rounded to six digits."""
    samples = (_SAMPLE.fullmatch(line) for line in lines)
    return not any(sample is not None and _is_exact(sample["value"]) for sample in samples)


def _names(metrics: MetricsPage) -> frozenset[str]:
    names = [name for series in metrics.series.values() for name in series.names]
    return frozenset([*names, *(_count_of(name) for name in names if name.endswith("_sum"))])


def _count_of(name: str) -> str:
    return f"{name.removesuffix('_sum')}_count"


def _lines(text: str) -> Iterator[str]:
    """Lines without surrounding blanks; empty ones, and series with names in quotes, which no profile has, left out."""
    for line in text.split("\n"):
        bare = line.strip(" \t\r")
        if bare and not bare.startswith('{"'):
            yield bare


def _scan(text: str, names: frozenset[str]) -> _Page:
    """Raises PageError for what is not a whole page."""
    if not text.strip():
        raise PageError("the page is empty")
    if not text.endswith("\n") and not text.endswith("# EOF"):
        raise PageError("the page is cut off: its last line has no end")
    page, ended = _Page(), False
    declared = names | {family for name in names for family, _ in _families(name)}
    for line in _lines(text):
        if ended:
            raise PageError("the page goes on after its end")
        if line.startswith("#"):
            ended = line == "# EOF"
            words = line.split()
            if words[1:2] == ["TYPE"] and len(words) == 4 and words[2] in declared:
                page.types.setdefault(words[2], set()).add(words[3])
                page.kept.append(line)
            continue
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            raise PageError(f"no metrics page: {line[:80]!r} is no line of one")
        wanted = sample["name"] in names
        if (page.witness is None or wanted) and _is_exact(sample["value"]):
            page.witness = line
        if wanted:
            page.kept.append(line)
            series = page.series.setdefault(sample["name"], _Series())
            labels = _labels(sample["labels"] or "")
            series.twice = series.twice or labels in series.values
            series.values[labels] = sample["value"]
    return page


def _total(page: _Page, series: MetricSeries) -> tuple[float | None, str | None]:
    """The sum of one counter's series, or why it is not believed; neither where it is not on the page."""
    for name in series.names:
        found = page.series.get(name, _Series())
        values = [value for labels, value in found.values.items() if series.labels.items() <= dict(labels).items()]
        if not values:
            continue
        if (kind := _no_counter(name, page.types)) is not None:
            return None, f"{name} {kind}"
        if found.twice:
            return None, f"a series of {name} stands on the page twice"
        numbers = []
        for value in values:
            number, problem = _count(value, series.unit, exact=page.witness is not None)
            if number is None:
                return None, f"{name} {problem}"
            numbers.append(number)
        return math.fsum(numbers), None
    return None, None


def _observations(page: _Page, series: MetricSeries) -> float | None:
    """How many times the histogram holds whose sum is read; None where it is no histogram, or does not say."""
    used = next((name for name in series.names if name in page.series), "")
    if not used.endswith("_sum"):
        return None
    return _total(page, MetricSeries(names=(_count_of(used),), labels=series.labels, unit="tokens"))[0]


def _count(text: str, unit: Unit, *, exact: bool) -> tuple[float | None, str]:
    """A printed value in seconds or tokens, or None and what is wrong with it."""
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not number < _LARGEST:
        return None, f"is {text[:40]!r}, no count"
    number *= _SCALES[unit]
    if unit == "tokens" and number != int(number):
        return None, f"is {text[:40]!r}, no whole number"
    if unit == "tokens" and not exact and number > MOST_ROUNDED_TOKENS:
        return None, f"is {text[:40]!r} on a page that may round to six digits"
    return number, ""


def _no_counter(name: str, types: Mapping[str, set[str]]) -> str | None:
    """Why a sample name is no counter by its name or by the type that the page declares; None: it may be one."""
    if name.endswith("_created"):
        return "is an instant, no counter"
    if name.endswith("_bucket"):
        return "is a bucket, whose sum means nothing"
    for family, allowed in ((name, {"counter"}), *_families(name)):
        declared = types.get(family)
        if declared is not None:
            wrong = declared - allowed - {"untyped", "unknown"}
            return f"is typed {' and '.join(sorted(declared))}, no counter" if wrong or len(declared) > 1 else None
    return None


def _families(name: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics whose sample `name` may be, and the types of those for which that sample is a counter."""
    for suffix, types in (
        ("_total", {"counter"}),
        ("_sum", {"histogram", "summary"}),
        ("_count", {"histogram", "summary"}),
    ):
        if name.endswith(suffix):
            yield name.removesuffix(suffix), types


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [
        (name, re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), value))
        for name, value in _ONE_LABEL.findall(text)
    ]
    if len({name for name, _ in pairs}) < len(pairs):
        raise PageError(f"no metrics page: a label stands twice in {{{text[:80]}}}")
    return tuple(sorted(pairs))


def _is_exact(value: str) -> bool:
    """Whether a printed number is no work of a stream that rounds: that writes `131`, `0.583292`, `1.23457e+06`."""
    return _NUMBER.fullmatch(value) is not None and f"{float(value):.{ROUNDED_DIGITS}g}" != value
