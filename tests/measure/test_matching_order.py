"""Forced order, held against a matcher that looks at every assignment."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.measure import forced_order
from bench.measure.forced_order import forced_pairs

KEYS = st.lists(st.integers(0, 4), max_size=9)


def in_every_best_assignment(left, right):
    """Pairs that stand in all order-preserving assignments of the largest size, found by going through them all."""

    @cache
    def best(row, column):
        if row == len(left):
            return 0, frozenset([frozenset()])
        found = [best(row + 1, column)]
        for place in range(column, len(right)):
            if left[row] == right[place]:
                size, assignments = best(row + 1, place + 1)
                found.append((size + 1, frozenset(one | {(row, place)} for one in assignments)))
        largest = max(size for size, _ in found)
        return largest, frozenset().union(*(assignments for size, assignments in found if size == largest))

    return sorted(frozenset.intersection(*best(0, 0)[1]))


@given(KEYS, KEYS)
@example([0, 1], [1, 0])
@example([0], [0, 0])
@example([0, 1, 0], [0, 2, 1, 0, 0])
@example([1, 0, 1], [1, 1, 0])
def test_pairs_are_those_of_every_best_assignment(left, right):
    found = forced_pairs(left, right)
    assert found.pairs == in_every_best_assignment(tuple(left), tuple(right))
    assert found.set_aside == frozenset()


@given(KEYS, KEYS)
def test_sides_may_be_turned(left, right):
    assert [(row, column) for column, row in forced_pairs(right, left).pairs] == forced_pairs(left, right).pairs


def test_repeats_in_the_same_order_are_forced():
    assert forced_pairs([0, 1, 0, 1], [0, 5, 1, 0, 1]).pairs == [(0, 0), (1, 2), (2, 3), (3, 4)]


def test_one_repeat_too_many_leaves_only_what_its_neighbours_force():
    # The second 0 lies between 1 and 2 on both sides; nothing tells which of the two at the beginning the first is.
    assert forced_pairs([0, 1, 0, 2], [0, 0, 1, 0, 2]).pairs == [(1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize("shift", [1, 2])
def test_keys_that_occur_everywhere_are_set_aside_and_the_others_stay_exact(shift):
    many = forced_order.POINTS
    left = [9, *[7] * many, 1, *[7] * many, 2, 3]
    right = [9, *[7] * (many + shift), 1, *[7] * (many - shift), 3, 2]
    found = forced_pairs(left, right)
    assert found.set_aside == {7}
    assert found.pairs == [(0, 0), (many + 1, many + shift + 1)]


def test_a_part_of_the_other_side_is_exact_however_often_its_keys_occur():
    left, right = [7] * 3_000, [7] * 3_000
    assert forced_pairs(left, right).pairs == [(place, place) for place in range(3_000)]
    assert forced_pairs(left, [*right, 7]).pairs == []
