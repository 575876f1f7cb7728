import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.scoring.case import BadReply, Missed, about, case, case_id, expect
from bench.scoring.compare import About, is_number, same, shown

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(JSON)
def test_a_value_is_the_same_after_a_journey_through_json(value):
    assert same(json.loads(json.dumps(value)), value)


@given(JSON, JSON)
def test_same_is_never_looser_than_equality(left, right):
    if same(left, right):
        assert left == right


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (True, 1),
        (1, True),
        (False, 0),
        ("1", 1),
        (None, 0),
        (math.nan, math.nan),
        (math.inf, math.inf),
        ([1, 2], [2, 1]),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"strange": "NaN"}, 0),
        (b"a", "a"),
        (0.3 + 2e-9, About(0.3)),
        (True, About(1)),
        (math.nan, About(0.3)),
        ("0.3", About(0.3)),
    ],
)
def test_what_differs(observed, expected):
    assert not same(observed, expected)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [(1.0, 1), (1, 1.0), (0.1 + 0.2, about(0.3)), ([{"a": (1, 2)}], [{"a": [1, 2]}]), ({"t": 0.3}, {"t": about(0.3)})],
)
def test_what_is_the_same(observed, expected):
    assert same(observed, expected)


def test_a_number_is_finite_and_no_bool():
    assert [is_number(value) for value in (0, 0.5, True, math.nan, math.inf, "1", None)] == [True, True, *[False] * 5]


@given(JSON | st.binary())
def test_a_value_is_shown_as_one_short_line_of_plain_characters(value):
    text = shown(value)
    assert text.isascii()
    assert text.isprintable()
    assert len(text) <= 400


def test_a_miss_keeps_both_values():
    with pytest.raises(Missed) as missed:
        expect({"kind": "reuse", "note": "\x1b[2J"}, {"kind": "miss", "seconds": about(0.5)}, "outcome")
    assert missed.value.what == "outcome"
    assert missed.value.observed == '{"kind": "reuse", "note": "\\u001b[2J"}'
    assert missed.value.expected == '{"kind": "miss", "seconds": 0.5}'


def test_a_case_carries_its_id():
    @case("miss.cold", brief="A miss.")
    def cold(model):
        raise BadReply

    assert case_id(cold) == "miss.cold"
    assert case_id(len) is None
