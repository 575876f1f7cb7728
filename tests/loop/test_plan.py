"""plan.json: every problem is a sentence; order; what a replan may do; the published schema."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import EvidenceError
from bench.loop.plan import Plan, Task, first_plan_problems, order, plan_from_data, replan_problems
from bench.loop.plan_file import MAX_BYTES, read_plan, schema

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "plan.schema.json"


@pytest.fixture
def plan(plan_data) -> Plan:
    return read(plan_data)


def read(data) -> Plan:
    found = read_plan(json.dumps(data).encode())
    assert isinstance(found, Plan), found
    return found


def card(name, *depends_on, **more):
    values = {"title": name, "requirements": ("R001",), "depends_on": depends_on, "checks": ("c",), **more}
    return Task(id=name, **values)


def test_a_good_plan_has_no_problems_and_survives_the_journal(plan, brief):
    assert first_plan_problems(plan, brief) == ()
    assert order(plan) == ("T002", "T001")
    assert plan_from_data(json.loads(json.dumps(asdict(plan)))) == plan


@pytest.mark.parametrize("data", [{}, {"requirements": [], "tasks": [{"id": "T001"}]}, {"requirements": 1, "tasks": 2}])
def test_a_journal_with_a_plan_of_another_form_is_refused(data):
    with pytest.raises(EvidenceError, match="another form"):
        plan_from_data(data)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "There is no regular file plan.json in the project."),
        (b"x" * (MAX_BYTES + 1), "plan.json has 500,001 bytes; at most 500,000 are allowed."),
        (b"{", "plan.json is not valid JSON: EOF while parsing an object at line 1 column 1."),
        (b"", "plan.json is not valid JSON: EOF while parsing a value at line 1 column 0."),
        (b"[]", "plan.json: the whole should be an object."),
        (b"\xff", "plan.json is not valid JSON"),
        (b"[" * 10_000, "plan.json is not valid JSON: recursion limit exceeded"),
    ],
)
def test_a_file_that_is_no_plan(content, sentence):
    assert read_plan(content)[0].startswith(sentence)


def change(data, path, value):
    changed = copy.deepcopy(data)
    place = changed
    for part in path[:-1]:
        place = place[part]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (["tasks", 0, "title"], ..., "plan.json: the key tasks.0.title is missing."),
        (["tasks", 0, "dependsOn"], [], "plan.json: the key tasks.0.dependsOn is unknown; known there: id, title, req"),
        (["surprise"], 1, "plan.json: the key surprise is unknown; known there: requirements, tasks."),
        (["requirements", 0, "id"], "R1", "plan.json: requirements.0.id should have the form R001, not 'R1'."),
        (["tasks", 1, "id"], "F001", "plan.json: tasks.1.id should have the form T001, not 'F001'."),
        (["tasks", 0, "checks"], "greet", "plan.json: tasks.0.checks should be a valid array."),
        (
            ["tasks", 0, "status"],
            "done",
            "plan.json: tasks.0.status should be 'open', 'blocked', 'dropped' or 'split'.",
        ),
    ],
)
def test_a_plan_of_the_wrong_shape(plan_data, path, value, sentence):
    (problem,) = read_plan(json.dumps(change(plan_data, path, value)).encode())
    assert problem.startswith(sentence)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (["tasks"], [], "There is no task."),
        (["requirements"], [], "There is no requirement."),
        (["tasks", 1, "id"], "T001", "The id T001 stands 2 times."),
        (["requirements", 1, "id"], "R001", "The id R001 stands 2 times."),
        (["requirements", 0, "text"], " ", "R001 has no text."),
        (
            ["requirements", 0, "quote"],
            "Write a poem.",
            "R001: the quote does not stand in the brief word for word: 'W",
        ),
        (["requirements", 0, "quote"], " ", "R001: the quote does not stand in the brief word for word: ' '."),
        (["tasks", 0, "title"], "", "T001 has no title."),
        (["tasks", 0, "checks"], [], "T001 has no checks."),
        (["tasks", 0, "checks"], ["the greeting is kind"], "T001: 'the greeting is kind' is no check id; expected one"),
        (["tasks", 0, "status"], "dropped", "T001 has the status dropped; in a first plan every task is open."),
        (["tasks", 0, "replaced_by"], ["T002"], "T001: replaced_by must list the new tasks of a split task, and only"),
        (["tasks", 0, "requirements"], ["R002"], "R001 is covered by no task."),
        (["tasks", 0, "requirements"], ["R001", "R009"], "T001 names the requirement R009, which does not exist."),
        (["tasks", 0, "depends_on"], ["T009"], "T001 names the task T009, which does not exist."),
        (["tasks", 0, "depends_on"], ["T001"], "These tasks wait for each other: T001."),
        (["tasks", 1, "depends_on"], ["T001"], "These tasks wait for each other: T001, T002."),
    ],
)
def test_a_first_plan_with_a_problem(plan_data, brief, path, value, sentence):
    problems = first_plan_problems(read(change(plan_data, path, value)), brief)
    assert any(problem.startswith(sentence) for problem in problems), problems


def test_too_many_tasks(plan, brief):
    many = replace(plan, tasks=tuple(card(f"T{number:03d}", requirements=("R001", "R002")) for number in range(61)))
    assert first_plan_problems(many, brief) == ("There are 61 tasks; at most 60 are allowed.",)


def test_a_quote_may_be_broken_differently(plan_data, brief):
    plan = read(change(plan_data, ["requirements", 1, "quote"], "Write\n  count.txt with\ta number."))
    assert first_plan_problems(plan, brief) == ()


# --- replanning -----------------------------------------------------------------------------------------------------


def test_a_replan_may_split_drop_or_block(plan):
    one, two = plan.tasks
    done = ["T002"]
    parts = (card("T003"), card("T004", "T003"))
    split = replace(one, status="split", reason="too big", replaced_by=("T003", "T004"))
    new = Plan(requirements=plan.requirements, tasks=(split, two, *parts))
    assert replan_problems(plan, new, failing="T001", done=done) == ()
    assert order(new) == ("T002", "T003", "T004")
    blocked = replace(plan, tasks=(replace(one, status="blocked", reason="no browser"), two))
    assert replan_problems(plan, blocked, failing="T001", done=done) == ()
    dropped = replace(plan, tasks=(replace(one, status="dropped", reason="T003 does it"), two, parts[0]))
    assert replan_problems(plan, dropped, failing="T001", done=done) == ()


def test_a_replan_with_problems(plan):
    one, two = plan.tasks
    dropped = replace(one, status="dropped", reason="r")

    def problems(*tasks, requirements=plan.requirements, failing="T001", done=("T002",)):
        return replan_problems(plan, Plan(requirements=requirements, tasks=tasks), failing=failing, done=done)

    assert problems(one, two) == ("T001 used up its attempts; it must get the status split, dropped or blocked.",)
    assert problems(dropped, two) == ("R001 is covered by no task.",)
    assert "T002 is missing" in problems(replace(one, status="blocked", reason="r"))[0]
    assert problems(replace(one, status="blocked", reason="r"), replace(two, title="other")) == (
        "T002 is done and must stay as it is.",
    )
    assert problems(replace(one, status="blocked"), two) == ("T001 is blocked without a reason.",)
    eased = (replace(plan.requirements[0], text="less"), plan.requirements[1])
    assert "must stay exactly" in problems(replace(one, status="blocked", reason="r"), two, requirements=eased)[0]
    split = replace(one, status="split", reason="r", replaced_by=("T002",))
    assert "the parts of a split task must be new tasks" in problems(split, two)[0]
    lost = (replace(split, replaced_by=("T003",)), two, card("T003", requirements=("R002",)))
    assert problems(*lost)[0] == "R001 was a requirement of T001, but none of its parts covers it."
    behind = (one, replace(two, status="blocked", reason="r"))
    assert problems(*behind, failing="T002", done=()) == (
        "T001 depends on a blocked task; change that, or block it too.",
    )


NAMES = [f"T{number:03d}" for number in range(1, 8)]


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=3), min_size=1))
def test_order_puts_each_task_after_what_it_needs(edges):
    plan = Plan(requirements=(), tasks=tuple(card(name, *needs) for name, needs in edges.items()))
    placed = order(plan)
    assert len(set(placed)) == len(placed)
    for name in placed:
        assert all(placed.index(need) < placed.index(name) for need in edges[name])
    left = set(edges) - set(placed)
    assert all(any(need in left or need not in edges for need in edges[name]) for name in left)


# --- the published schema -------------------------------------------------------------------------------------------


def test_the_published_schema_is_that_of_the_model():
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == schema()


def test_the_published_schema_accepts_what_the_model_accepts(plan_data):
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    jsonschema.validate(plan_data, published)
    for path, value in ((["tasks", 0, "title"], ...), (["tasks", 0, "x"], 1), (["requirements", 0, "id"], "r1")):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(change(plan_data, path, value), published)
