from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.records.spans import covered_seconds

POINTS = st.integers(-20, 20)


def test_what_overlaps_counts_once_and_what_is_apart_is_added():
    assert covered_seconds([]) == 0
    assert covered_seconds([(5.0, 7.0), (1.0, 2.0), (1.5, 3.0), (6.0, 6.5)]) == 4.0
    assert covered_seconds([(3.0, 1.0)]) == 0


@given(st.lists(st.tuples(POINTS, POINTS)))
def test_every_second_in_a_span_counts_once(spans):
    assert covered_seconds(spans) == len({second for begin, end in spans for second in range(begin, end)})
