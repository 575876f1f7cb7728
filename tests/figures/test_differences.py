"""Rows are compared by key, field by field; nothing that differs is passed over."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from bench.figures.differences import of_rows, of_values


@dataclass(frozen=True)
class Row:
    key: int
    value: float | None
    text: str = ""


ROWS = st.lists(
    st.builds(Row, st.integers(0, 30), st.none() | st.floats(allow_nan=False, allow_infinity=False), st.text()),
    unique_by=lambda row: row.key,
    max_size=8,
)


def compare(recorded, computed):
    return [one.line for one in of_rows("row", recorded, computed, lambda row: row.key)]


@given(ROWS)
def test_equal_rows_do_not_differ(rows):
    assert compare(rows, [replace(row) for row in rows]) == []


@given(ROWS.filter(bool), st.data())
def test_whatever_is_changed_is_one_difference(rows, data):
    place = data.draw(st.integers(0, len(rows) - 1))
    changed = [*rows]
    match data.draw(st.sampled_from(["value", "text", "gone", "more", "twice"])):
        case "value":
            changed[place] = replace(rows[place], value=(rows[place].value or 0.0) / 2 + 0.5)
            if changed[place] == rows[place]:
                return
        case "text":
            changed[place] = replace(rows[place], text=rows[place].text + "x")
        case "gone":
            del changed[place]
        case "more":
            changed.append(Row(99, 1.0))
        case "twice":
            changed.append(rows[place])
    assert len(compare(changed, rows)) == 1


def test_the_line_shows_both_sides():
    assert compare([Row(1, 2.0)], [Row(1, None, "b")]) == [
        'row 1: the record says value 2.0, text "", the evidence gives value null, text "b"'
    ]
    assert compare([], [Row(1, None)]) == ["row 1: the record says nothing, the evidence gives a row"]


def test_another_order_differs():
    rows = [Row(1, None), Row(2, None)]
    assert compare(rows[::-1], rows) == ["rows: the record says another order, the evidence gives its own"]


def test_values_are_compared_as_they_are_read_again():
    assert of_values("x", {"a": (1, 2)}, {"a": [1, 2]}) == []
    assert of_values("x", 0.1 + 0.2, 0.3) != []
    assert len(of_values("x", "a" * 1_000, "b")[0].record) < 200
