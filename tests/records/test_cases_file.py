"""cases.json is read back as it was written; what makes a run valid."""

from __future__ import annotations

import pytest

from bench.errors import EvidenceError
from bench.records import cases_file


def test_cases_and_their_group_come_back(tmp_path, small_record):
    cases_file.write_cases(tmp_path, small_record.cases, score_group="model")
    assert cases_file.read_cases(tmp_path) == (small_record.cases, "model")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"score_group": "model", "cases": [{"id": 1}]}'])
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / cases_file.NAME).write_text(text)
    with pytest.raises(EvidenceError, match="cannot be read"):
        cases_file.read_cases(tmp_path)


@pytest.mark.parametrize(
    ("end", "valid"),
    [("complete", True), ("unconverged", True), ("limited", True), ("blocked", False), ("interrupted", False)],
)
def test_a_run_is_valid_where_the_subject_ended_it(small_record, end, valid):
    assert cases_file.is_valid(end, small_record.cases) is valid


def test_a_case_that_could_not_be_judged_makes_it_invalid(small_record):
    from dataclasses import replace

    broken = (replace(small_record.cases[0], outcome="error"), *small_record.cases[1:])
    assert cases_file.is_valid("complete", broken) is False
