"""docs/measures.md is the table of definitions in print."""

from __future__ import annotations

from bench.figures.definitions import DEFINITIONS
from bench.spec import REPOSITORY


def test_page_and_table_agree():
    text = (REPOSITORY / "docs" / "measures.md").read_text(encoding="utf-8")
    printed = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| `")
    ]
    assert printed == [
        [
            f"`{one.id}`",
            str(one.version),
            one.title,
            one.unit,
            one.statistic,
            one.source,
            one.formula,
            one.null_when,
        ]
        for one in DEFINITIONS
    ]
