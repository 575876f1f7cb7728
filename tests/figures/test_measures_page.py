"""docs/measures.md is the table of definitions in print, and says of every engine what its profile says."""

from __future__ import annotations

import pytest

from bench.engines.profile import list_profiles, read_profile
from bench.figures.definitions import DEFINITIONS
from bench.figures.engine_sources import sources_of
from bench.figures.measures_page import PAGE, filled
from bench.figures.scopes import PROMPT_CLASSES, ROLES


def rows(text):
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return {
        cells[0].strip("`"): cells for cells in ([cell.strip() for cell in line[1:-1].split(" | ")] for line in lines)
    }


def test_page_and_tables_agree():
    text = PAGE.read_text(encoding="utf-8")
    assert text == filled(text), "the page is old: run `python -m bench.figures.measures_page`"


def test_every_figure_and_every_engine_stands_once_with_its_own_words():
    text = PAGE.read_text(encoding="utf-8")
    printed = rows(text)
    for one in DEFINITIONS:
        assert text.count(f"\n| `{one.id}` |") == 1
        assert printed[one.id][1:6] == [str(one.version), one.title, one.unit, one.statistic, ", ".join(one.sources)]
        assert printed[one.id][-2:] == [one.formula, one.null_when]
    for name in list_profiles():
        assert text.count(f"\n| `{name}` |") == 1


def test_every_part_is_named():
    text = PAGE.read_text(encoding="utf-8")
    for name in [*(f"role:{role}" for role in ROLES), *(f"prompt:{name}" for name, _ in PROMPT_CLASSES)]:
        assert f"`{name}`" in text


@pytest.mark.parametrize("name", list_profiles())
def test_a_figure_that_an_engine_cannot_give_has_a_reason(name):
    profile = read_profile(name)
    told = sources_of(profile)
    needed = {"`ttft_*`": "ttft_seconds", "`decode_*`": "decode_seconds", "`draft_acceptance`": "drafted_tokens"}
    for figures, quantity in needed.items():
        assert bool(told.sources[figures]) != (quantity in told.null), figures
        if "engine-response" in told.sources[figures]:
            assert quantity in profile.response_fields


def test_the_embedded_engine_gives_everything_from_everywhere():
    told = sources_of(read_profile("embedded"))
    assert told.sources["`decode_*`"] == ("engine-response", "engine-counter", "engine-log")
    assert told.null == {}
