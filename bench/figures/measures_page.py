"""The tables of docs/measures.md, made of the definitions and the profiles. `python -m bench.figures.measures_page` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bench.engines.profile import list_profiles, read_profile
from bench.figures.definition import Definition
from bench.figures.definitions import DEFINITIONS
from bench.figures.engine_sources import NEEDED, sources_of
from bench.spec import REPOSITORY

PAGE = REPOSITORY / "docs" / "measures.md"

_PLACE = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_HEADINGS = ("id", "version", "title", "unit", "statistic", "source", "parts", "formula", "null when")


def tables() -> Mapping[str, str]:
    """Name of a place in the page -> the table that stands there."""
    groups = dict.fromkeys(definition.group for definition in DEFINITIONS)
    printed: dict[str, str] = {
        group: _table(_HEADINGS, (_row(one) for one in DEFINITIONS if one.group == group)) for group in groups
    }
    return {**printed, "engines": _engines()}


def filled(page: str) -> str:
    """The page with every table as it must be. Raises KeyError for a place that no table belongs to."""
    made = tables()
    return _PLACE.sub(lambda place: f"{place[1]}\n{made[place['name']]}\n{place[3]}", page)


def _row(one: Definition) -> Sequence[str]:
    parts = ", ".join(one.scopes) or "-"
    return (
        f"`{one.id}`",
        str(one.version),
        one.title,
        one.unit,
        one.statistic,
        ", ".join(one.sources),
        parts,
        one.formula,
        one.null_when,
    )


def _engines() -> str:
    rows = []
    for name in list_profiles():
        row = sources_of(read_profile(name))
        cells = [", then ".join(row.sources[figures]) or "null" for figures in NEEDED]
        reasons = dict.fromkeys(row.null.values())
        said = [f"{', '.join(q for q, why in row.null.items() if why == reason)}: {reason}" for reason in reasons]
        rows.append((f"`{name}`", row.title, row.checked, *cells, "; ".join(said) or "-"))
    return _table(("engine", "title", "profile checked by", *NEEDED, "null, and why"), rows)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
