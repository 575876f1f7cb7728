from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.mini_events import TRAJECTORY_FILE, read_events
from bench.spec import REPOSITORY
from tests.agents.hostile_streams import JSON, is_sound, objects

RECORDED = REPOSITORY / "fixtures" / "recordings" / "mini-swe-agent-2.4.6"
COUNTS = [(2122, 0, 253, 108), (127, 2368, 1469, 92), (22, 3968, 95, 0), (174, 4032, 206, 71), (167, 4416, 34, 0), (42, 4608, 103, 0)]  # fmt: skip
"""What the engine's own log says of the recorded session: prompt less cached, cached, output, reasoning."""


def counts(read):
    return [(one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens) for one in read.usage]


def read_from(folder, data):
    (folder / TRAJECTORY_FILE).write_text(json.dumps(data))
    return read_events(folder, 1)


def test_a_session_that_went_well(tmp_path):
    shutil.copy(RECORDED / "sound.trajectory.json", tmp_path / TRAJECTORY_FILE)
    read = read_events(tmp_path, 7)
    assert counts(read) == COUNTS
    assert all(one.session == 7 and one.response_id.startswith("chatcmpl-") for one in read.usage)
    assert (read.end, read.damage, read.ended_by_call, read.tool_calls) == ("done", None, True, 13)
    assert 0 < read.tool_seconds < 10
    assert read.final_text.startswith("`csv_totals.py` is done.")


def answer(at=None, **usage):
    response = {"id": "r", "usage": usage, "choices": [{"finish_reason": "tool_calls"}]}
    return {"role": "assistant", "content": "So.", "tool_calls": [{}], "extra": {"response": response, "timestamp": at}}


def exit_as(status, **extra):
    return {"role": "exit", "content": "", "extra": {"exit_status": status, **extra}}


def trajectory(*messages, status="", calls=None):
    return {"info": {"exit_status": status, "model_stats": {"api_calls": calls}}, "messages": list(messages)}


@pytest.mark.parametrize(
    ("data", "end", "detail", "claims"),
    [
        (trajectory(answer(), exit_as("Submitted"), status="Submitted", calls=1), "done", "", 1),
        (trajectory(answer(), calls=2), None, "", 1),
        (trajectory(answer(), exit_as("TimeExceeded"), status="TimeExceeded", calls=1), "limit", "TimeExceeded", 1),
        (
            trajectory(answer(), exit_as("Timeout", exception_str="no answer"), status="Timeout", calls=2),
            "engine-error", "Timeout: no answer", 2,
        ),
        (
            trajectory(answer(), exit_as("KeyError", exception_str="'x'"), status="KeyError", calls=1),
            "agent-error", "KeyError: 'x'", 1,
        ),
        (
            trajectory(exit_as("RepeatedFormatError"), status="RepeatedFormatError", calls=0),
            "agent-error", "tool-loop: RepeatedFormatError: answers in a row without a call that could be carried out", 0,
        ),
    ],
)  # fmt: skip
def test_how_a_session_ends(tmp_path, data, end, detail, claims):
    read = read_from(tmp_path, data)
    assert (read.end, read.end_detail, len(read.usage)) == (end, detail, claims)
    assert [one.error for one in read.usage if one.error] == ([detail] if end == "engine-error" else [])


def test_an_answer_that_it_could_not_use_is_a_claim_all_the_same(tmp_path):
    complaint = {"role": "user", "content": "Tool call error", "extra": answer(prompt_tokens=9)["extra"]}
    read = read_from(tmp_path, trajectory(answer(prompt_tokens=5), complaint))
    assert len(read.usage) == 2


def test_zeros_in_place_of_usage_are_not_told(tmp_path):
    read = read_from(tmp_path, trajectory(answer(prompt_tokens=0, completion_tokens=0)))
    (claim,) = read.usage
    assert (claim.input_tokens, claim.cached_tokens, claim.output_tokens, claim.reasoning_tokens) == (None,) * 4


def test_the_submission_belongs_to_the_final_text(tmp_path):
    read = read_from(
        tmp_path, trajectory(answer(), exit_as("Submitted", submission="VERDICT: ACCEPT"), status="Submitted")
    )
    assert read.final_text == "So.\nVERDICT: ACCEPT"


def test_tools_run_from_an_answer_to_its_first_result(tmp_path):
    results = [{"role": "tool", "extra": {"timestamp": at}} for at in (103.0, 103.5)]
    read = read_from(tmp_path, trajectory(answer(100.0), *results, answer(110.0), {"role": "exit"}))
    assert read.tool_seconds == 3.0


def test_no_trajectory(tmp_path):
    read = read_events(tmp_path, 1)
    assert read.damage == "agent-trajectory.json: it cannot be read: No such file or directory"
    assert (read.end, read.usage, read.tool_seconds) == (None, (), None)


NAMES = (
    "role",
    "extra",
    "response",
    "usage",
    "content",
    "tool_calls",
    "timestamp",
    "prompt_tokens",
    "exit_status",
    "choices",
)
MESSAGE = st.builds(lambda role, rest: {**rest, "role": role}, st.sampled_from(("assistant", "tool", "exit", "user")) | JSON, objects(*NAMES))  # fmt: skip


@given(info=objects("exit_status", "model_stats", "api_calls") | JSON, messages=st.lists(MESSAGE, max_size=5))
def test_any_trajectory_is_read_without_a_fault(tmp_path_factory, info, messages):
    assert is_sound(read_from(tmp_path_factory.mktemp("mini"), {"info": info, "messages": messages}))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_fault(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("mini")
    (folder / TRAJECTORY_FILE).write_bytes(content)
    assert is_sound(read_events(folder, 1))


@pytest.mark.parametrize(
    ("kwargs", "retries"),
    [
        ({"max_retries": 0, "num_retries": 0}, 0),
        ({"max_retries": 0, "num_retries": 2}, None),
        ({"max_retries": 0}, None),
        ({"max_retries": False, "num_retries": False}, None),
        (None, None),
    ],
)
def test_it_made_no_second_try_only_where_its_settings_allow_none(tmp_path, kwargs, retries):
    data = trajectory(answer())
    data["info"]["config"] = {"model": {"model_kwargs": kwargs}}
    assert read_from(tmp_path, data).retries == retries
