"""Prompts: strictly rendered, of the shape that sessions rely on."""

from __future__ import annotations

import pytest

from bench.errors import HarnessError
from bench.loop.plan import Requirement, Task
from bench.loop.prompting import prompts_digest, render

TASK = Task(id="T001", title="greet", requirements=("R001",), depends_on=(), checks=("a", "b"), text="Be kind.")
VALUES = {
    "brief": "Write {{ nothing }} & <b>greet</b>.",
    "trouble": ("It was {% rude %}.",),
    "requirements": (Requirement(id="R001", text="a greeting", quote="q"),),
    "task": TASK,
    "verified": "- `./verify --all`: 1 checks, all ok: a",
    "verify_seconds": "240",
    "plan": '{\n "tasks": []\n}',
    "done": ["T000"],
    "task_trouble": ("a is not ok",),
}
ROLES = ["bootstrap", "builder", "reviewer", "replan", "final-reviewer", "session"]


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_told_the_brief_as_it_stands_and_the_rules(role):
    text = render(role, VALUES)
    assert "Write {{ nothing }} & <b>greet</b>." in text
    assert "no network" in text
    assert "Do not read large files whole" in text
    assert "{%" not in text.replace("{% rude %}", "")
    assert ("It was {% rude %}." in text) == (role != "session")


@pytest.mark.parametrize("role", ["reviewer", "final-reviewer"])
def test_reviewers_are_told_the_verdict_line(role):
    lines = render(role, VALUES).splitlines()
    assert "VERDICT: ACCEPT" in lines
    assert "VERDICT: CHANGES" in lines


def test_the_builder_is_told_its_task_and_checks():
    text = render("builder", VALUES)
    assert "T001: greet" in text
    assert "Be kind." in text
    assert "must print: a, b." in text
    assert "- R001: a greeting" in text


def test_the_last_part_is_left_out_where_nothing_went_wrong():
    assert "What was wrong last time" not in render("builder", {**VALUES, "trouble": ()})


def test_a_missing_value_is_an_error():
    with pytest.raises(HarnessError, match="'task' is undefined"):
        render("builder", {key: value for key, value in VALUES.items() if key != "task"})


def test_the_digest_is_stable():
    assert prompts_digest() == prompts_digest()
    assert len(prompts_digest()) == 64
