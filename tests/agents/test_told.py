from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.told import (
    UNKNOWN_NAMES,
    Claims,
    UnknownEvents,
    added,
    count,
    covered,
    final,
    from_milliseconds,
    instant,
    mapping,
    mappings,
    name,
    seconds,
    text,
    without,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_anything_is_taken_apart_without_a_fault(value):
    assert count(value) is None or count(value) >= 0
    assert seconds(value) is None or seconds(value) >= 0
    assert instant(value) is None or instant(value) > 0
    assert from_milliseconds(value) is None or from_milliseconds(value) > 0
    json.dumps([mapping(value), mappings(value), name(value), text(value), final(value)]).encode()


@given(st.text(alphabet=st.characters(), max_size=50))
def test_text_is_always_encodable(value):
    assert text(value).encode() == final(value).encode()


def test_texts_are_cut():
    assert text("ab" * 9000) == "ab" * 2000
    assert final("x" * 200_000 + "end").endswith("xend")
    assert len(final("x" * 300_000)) == 200_000
    assert name("") is None


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (7, 7), (-1, None), (True, None), (1.0, None), ("7", None)])
def test_a_count_is_a_whole_number(value, expected):
    assert count(value) == expected


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=8))
def test_covered_seconds_are_those_in_which_something_went_on(begun):
    spans = [(float(begin), float(begin + length)) for begin, length in begun]
    inside = {tick for begin, length in begun for tick in range(begin, begin + length)}
    assert covered(spans) == len(inside)


@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan"), True, 0])
def test_what_is_no_instant(value):
    assert (instant(value), from_milliseconds(value), seconds(value) or None, count(value) or None) == (None,) * 4


def test_an_instant_in_milliseconds():
    assert from_milliseconds(1_796_043_103_283) == 1_796_043_103.283


def test_sums_and_differences_of_what_is_known():
    assert (added(1, None, 2), added(None, None), added()) == (3, None, None)
    assert (without(5, 2), without(2, 5), without(None, 2), without(5, None)) == (3, None, None, None)


def test_a_claim_never_holds_more_reasoning_than_output():
    claims = Claims(3)
    claims.add(output=5, reasoning=9)
    claims.add(output=None, reasoning=9)
    assert [(one.session, one.index, one.output_tokens, one.reasoning_tokens) for one in claims.made] == [
        (3, 0, 5, None),
        (3, 1, None, 9),
    ]


def test_a_flood_of_unknown_names_is_counted_and_not_kept():
    unknown = UnknownEvents()
    for number in range(UNKNOWN_NAMES + 500):
        unknown.note(f"odd_{number}")
    unknown.note("odd_3")
    unknown.note({"no": "name"}, "item ")
    assert len(unknown) == UNKNOWN_NAMES + 1
    assert (unknown["odd_3"], unknown["others"], unknown.total()) == (2, 501, UNKNOWN_NAMES + 502)
