"""Tables say what the record says, and nothing in a record can steer a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.report import tables
from bench.report.columns import written


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.064, "s", "3.064 s"),
        (0.00123, "s", "1.23 ms"),
        (0.0, "s", "0.000 s"),
        (37_590.0, "s", "626.5 min"),
        (25_155_774 / 29_156_876, "ratio", "86.28 %"),
        (346_605 / 550_069, "ratio", "63.01 %"),
        (40.14, "tok/s", "40.14 tok/s"),
        (197.86 * (1 << 30), "bytes", "197.86 GiB"),
        (4_001_102, "tokens", "4,001,102 tokens"),
        (8, "1", "8"),
        (None, "s", "-"),
    ],
)
def test_values_are_written_with_their_units(value, unit, text):
    assert written(value, unit) == text


def test_the_line_of_hidden_cases_names_every_group(small_record):
    assert (
        tables.cases_line(small_record.cases) == "hidden acceptance cases: model 1 of 2, page not run (not judged yet)"
    )


def test_the_summary_shows_figures_reasons_and_missed_cases(small_record):
    text = tables.summary(small_record)
    assert "simulated times" in text
    assert "3.064 s" in text
    assert "not measured: n is under 50" in text
    assert "miss.unrelated" in text
    assert "one response reported no usage" in text
    assert "\x1b" not in text


def test_a_measured_record_does_not_say_simulated(small_record):
    assert "simulated" not in tables.summary(replace(small_record, simulated=False)).splitlines()[1]


def test_sessions_are_listed(small_record):
    assert "engine-error (memory)" in tables.sessions(small_record)
