from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures.measured import percentile, total

VALUES = st.lists(st.floats(0, 1e6), min_size=2, max_size=40)


@given(VALUES, st.integers(1, 99))
def test_percentiles_are_those_of_linear_interpolation(values, percent):
    known = statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
    assert percentile(values, percent) == pytest.approx(known, rel=1e-9, abs=1e-9)


@given(VALUES)
def test_the_median_is_the_median(values):
    assert percentile(values, 50) == pytest.approx(statistics.median(values))


def test_one_value_is_every_percentile():
    assert [percentile([7.0], percent) for percent in (1, 50, 99)] == [7.0, 7.0, 7.0]


@given(st.lists(st.none() | st.integers(0, 100), max_size=10))
def test_a_sum_says_what_is_missing(counts):
    measured = total(counts, of_what="responses", nothing="no response")
    known = [count for count in counts if count is not None]
    assert measured.value == (sum(known) if known else None)
    assert (measured.reason is None) == bool(known)
    if known:
        assert (measured.includes is None) == (len(known) == len(counts))
