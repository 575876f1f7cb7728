from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.adapters import EVENTS_FILE
from bench.agents.opencode_events import read_events
from bench.spec import REPOSITORY
from tests.agents.hostile_streams import events, is_sound, write

RECORDED = REPOSITORY / "fixtures" / "recordings" / "opencode-1.18.33"
COUNTS = [(9404, 0, 245, 108), (169, 9600, 1445, 92), (28, 11200, 95, 0), (52, 11328, 206, 71), (93, 11584, 34, 0), (12, 11712, 82, 0)]  # fmt: skip
"""What the engine's own log says of the recorded session: prompt less cached, cached, output, reasoning."""


def counts(read):
    return [(one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens) for one in read.usage]


def test_a_session_that_went_well(tmp_path):
    shutil.copy(RECORDED / "sound.events.jsonl", tmp_path / EVENTS_FILE)
    read = read_events(tmp_path, 7)
    assert counts(read) == COUNTS
    assert [one.stop_reason for one in read.usage] == ["tool-calls"] * 5 + ["stop"]
    assert (read.end, read.damage, read.unknown, read.tool_calls) == ("done", None, {}, 12)
    assert (read.compactions, read.retries) == (None, None)
    assert 0 < read.tool_seconds < 10
    assert read.final_text.startswith("`csv_totals.py` is done.")


def finish(reason="stop", **tokens):
    cache = {"read": tokens.pop("read", 0), "write": tokens.pop("write", 0)}
    return {"type": "step_finish", "part": {"reason": reason, "tokens": {**tokens, "cache": cache}}}


THOUGHT = {"type": "reasoning", "part": {"text": "hm"}}


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ([finish(input=5, output=30, reasoning=20, read=90)], (5, 90, 50, 20)),
        ([finish(input=5, output=30, reasoning=0, write=95)], (100, 0, 30, 0)),
        ([THOUGHT, finish(input=5, output=30, reasoning=0)], (5, 0, 30, None)),
        ([finish(input=0, output=0, reasoning=0)], (None,) * 4),
        ([finish(input=-1, output=True)], (None, None, None, None)),
    ],
)
def test_what_zeros_and_nonsense_mean(tmp_path, stream, expected):
    write(tmp_path / EVENTS_FILE, stream)
    assert counts(read_events(tmp_path, 1)) == [expected]


@pytest.mark.parametrize(
    ("stream", "end", "detail"),
    [
        ([finish("stop")], "done", ""),
        ([finish("length")], "length", ""),
        ([finish("tool-calls")], None, ""),
        ([finish("stop"), {"type": "step_start"}], None, ""),
        ([finish("unknown")], "agent-error", "its last step stopped for 'unknown'"),
        ([], None, ""),
    ],
)
def test_how_a_session_ends(tmp_path, stream, end, detail):
    write(tmp_path / EVENTS_FILE, stream)
    read = read_events(tmp_path, 1)
    assert (read.end, read.end_detail) == (end, detail)


def test_a_request_that_failed_is_a_claim_without_counts(tmp_path):
    error = {"name": "APIError", "data": {"message": "CUDA out of memory", "statusCode": 400, "isRetryable": False}}
    write(tmp_path / EVENTS_FILE, [{"type": "error", "error": error}])
    read = read_events(tmp_path, 1)
    assert (read.end, read.end_detail) == ("engine-error", "APIError: CUDA out of memory")
    assert [(one.error, one.output_tokens) for one in read.usage] == [("APIError: CUDA out of memory", None)]


def test_an_error_that_was_overcome_is_not_the_end(tmp_path):
    write(tmp_path / EVENTS_FILE, [{"type": "error", "error": {"name": "X"}}, finish("stop", input=5, output=3)])
    read = read_events(tmp_path, 1)
    assert (read.end, read.end_detail, len(read.usage)) == ("done", "", 2)


def test_tools_that_run_side_by_side_are_counted_once(tmp_path):
    tools = [
        {"type": "tool_use", "part": {"state": {"time": {"start": start, "end": end}}}}
        for start, end in ((1_000_000, 1_002_000), (1_001_000, 1_003_500), (9, 3), (None, 5))
    ]
    write(tmp_path / EVENTS_FILE, tools)
    read = read_events(tmp_path, 1)
    assert (read.tool_calls, read.tool_seconds) == (4, 3.5)


def test_answers_in_a_row_that_nobody_could_carry_out(tmp_path):
    def step(tool):
        return [{"type": "step_start"}, {"type": "tool_use", "part": {"tool": tool}}, finish("tool-calls")]

    for stream, expected in (
        (step("invalid") * 3, 3),
        (step("invalid") * 2 + step("bash"), 0),
        (step("bash") + step("invalid"), 1),
        ([*step("invalid"), {"type": "step_start"}, finish("stop")], 0),
    ):
        write(tmp_path / EVENTS_FILE, stream)
        assert read_events(tmp_path, 1).unusable_turns == expected


def test_what_is_not_known_is_counted(tmp_path):
    write(tmp_path / EVENTS_FILE, [{"type": "step_teleported"}, {"type": "step_teleported"}, {}])
    assert read_events(tmp_path, 1).unknown == {"step_teleported": 2, "without a name": 1}


KINDS = ("step_start", "text", "reasoning", "tool_use", "step_finish", "error")
NAMES = ("part", "tokens", "cache", "read", "write", "input", "output", "reasoning", "reason", "state", "time", "start", "end", "error", "data")  # fmt: skip


@given(events(KINDS, *NAMES))
def test_any_events_are_read_without_a_fault(tmp_path_factory, stream):
    folder = tmp_path_factory.mktemp("opencode")
    write(folder / EVENTS_FILE, stream)
    assert is_sound(read_events(folder, 1))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_fault(tmp_path_factory, stream):
    folder = tmp_path_factory.mktemp("opencode")
    (folder / EVENTS_FILE).write_bytes(stream)
    assert is_sound(read_events(folder, 1))
