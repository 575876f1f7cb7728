"""What is asked for is read exactly or refused with what exists."""

from __future__ import annotations

import pytest

from bench import spec
from bench.errors import UsageError


def test_every_workload_of_the_repository_can_be_read():
    for name in spec.workload_ids():
        workload = spec.read_workload(name)
        assert workload.id == name
        assert workload.brief.strip()
        assert workload.hidden.is_dir()
        assert workload.limits.sessions > 0


def test_an_unknown_workload_names_those_that_exist():
    with pytest.raises(UsageError, match=r"no workload 'nope'; there are: csv-totals, prefix-cache"):
        spec.read_workload("nope")


@pytest.mark.parametrize("name", ["../hidden", "", ".", "prefix-cache/../csv-totals"])
def test_a_path_is_no_workload(name):
    with pytest.raises(UsageError, match="no workload"):
        spec.find_workload(name)


def test_a_limit_is_overridden_in_its_own_type():
    limits = spec.read_workload("prefix-cache", {"sessions": 7.0, "session_seconds": 2.5}).limits
    assert limits.sessions == 7
    assert isinstance(limits.sessions, int)
    assert limits.session_seconds == 2.5


@pytest.mark.parametrize(
    ("text", "value"), [("sessions=3", ("sessions", 3.0)), ("wall-clock-seconds=1.5", ("wall_clock_seconds", 1.5))]
)
def test_limits_are_read(text, value):
    assert spec.apply_limit(text) == value


@pytest.mark.parametrize(
    "text",
    ["sessions", "sessions=", "sessions=x", "sessions=1.5", "sessions=-1", "nope=3", "sessions=nan", "sessions=inf"],
)
def test_a_wrong_limit_is_refused(text):
    with pytest.raises(UsageError, match="--limit"):
        spec.apply_limit(text)


@pytest.mark.parametrize(("text", "wanted"), [("Qwen 3.8 Flash", "qwen-3-8-flash"), ("ä/ö", "x"), ("A_b..C", "a-b-c")])
def test_slugs_are_lower_case_with_dashes(text, wanted):
    assert spec.slug(text) == wanted
