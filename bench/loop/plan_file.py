"""plan.json as an agent writes it: size, JSON, shape. The published schema is made from the same models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.loop.plan import Plan, TaskFate, plan_from_data

MAX_BYTES = 500_000
_MAX_PROBLEMS = 20

Text = Annotated[str, Field(max_length=4_000)]
Names = Annotated[list[Annotated[str, Field(max_length=120)]], Field(max_length=300)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class RequirementFile(_Strict):
    """One demand of the brief."""

    id: Annotated[str, Field(pattern="^R[0-9]{3}$")]
    """`R001`, `R002` ..."""
    text: Text
    """The demand in your own words."""
    quote: Text
    """The piece of the brief that it comes from, word for word."""


class TaskFile(_Strict):
    """One card: a piece of work for one session."""

    id: Annotated[str, Field(pattern="^T[0-9]{3}$")]
    """`T001`, `T002` ..."""
    title: Annotated[str, Field(max_length=300)]
    """The work in one line."""
    requirements: Names
    """Ids of the requirements that this task meets or helps to meet."""
    depends_on: Names = []
    """Ids of tasks that must be done before."""
    checks: Names
    """Ids of the checks that `./verify --task ID` prints for this task; at least one."""
    text: Text = ""
    """What the builder must know besides the title."""
    status: TaskFate = "open"
    """Only a replan changes it."""
    reason: Text = ""
    """Why a replan blocked, dropped or split the task."""
    replaced_by: Names = []
    """Of a split task: ids of the new tasks in its place."""


class PlanFile(_Strict):
    """plan.json: the brief as numbered requirements, and the tasks that meet them."""

    requirements: list[RequirementFile]
    """At least one."""
    tasks: list[TaskFile]
    """At least one, at most 60."""


def read_plan(content: bytes | None) -> Plan | tuple[str, ...]:
    """The plan, or what is wrong with the file, each a sentence. None: there is no such file."""
    if content is None:
        return ("There is no regular file plan.json in the project.",)
    if len(content) > MAX_BYTES:
        return (f"plan.json has {len(content):,} bytes; at most {MAX_BYTES:,} are allowed.",)
    try:
        data = PlanFile.model_validate_json(content)
    except ValidationError as error:
        return tuple(_sentence(problem) for problem in error.errors()[:_MAX_PROBLEMS])
    return plan_from_data(data.model_dump())


def schema() -> dict[str, Any]:
    """The JSON schema of plan.json, as published in docs/schemas/plan.schema.json."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **PlanFile.model_json_schema(),
        "title": "plan.json",
    }


def _sentence(problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    kind = problem["type"]
    if kind == "json_invalid":
        return f"plan.json is not valid JSON: {problem['ctx']['error']}."
    if kind == "missing":
        return f"plan.json: the key {place} is missing."
    if kind == "extra_forbidden":
        kinds: dict[Any, type[BaseModel]] = {"requirements": RequirementFile, "tasks": TaskFile}
        here = kinds.get(problem["loc"][0], PlanFile) if len(problem["loc"]) > 1 else PlanFile
        return f"plan.json: the key {place} is unknown; known there: {', '.join(here.model_fields)}."
    expected = problem["msg"].removeprefix("Input ")
    if kind == "string_pattern_mismatch":
        form = "R001" if problem["loc"][0] == "requirements" else "T001"
        return f"plan.json: {place} should have the form {form}, not {str(problem['input'])[:60]!r}."
    return f"plan.json: {place or 'the whole'} {expected}."
