from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents import claude_events, qwen_events
from bench.agents.adapters import EVENTS_FILE
from bench.agents.claude_events import read_events
from bench.spec import REPOSITORY
from tests.agents.hostile_streams import events, is_sound, write

WRITTEN = REPOSITORY / "fixtures" / "recordings" / "claude-code-from-documentation"


def counts(read):
    return [(one.input_tokens, one.cached_tokens, one.output_tokens) for one in read.usage]


@pytest.fixture
def written(tmp_path):
    def put(name):
        shutil.copy(WRITTEN / f"{name}.events.jsonl", tmp_path / EVENTS_FILE)
        return tmp_path / EVENTS_FILE

    return put


def test_a_session_that_went_well(tmp_path, written):
    written("ok")
    read = read_events(tmp_path, 7)
    assert counts(read) == [(1000, 0, 50), (208, 992, 51), (208, 1192, 52)]
    assert [one.response_id for one in read.usage] == ["msg_01", "msg_02", "msg_03"]
    assert [one.stop_reason for one in read.usage] == ["tool_use", "tool_use", "end_turn"]
    assert (read.end, read.final_text, read.damage, read.unknown, read.differences) == (
        "done",
        "All done.",
        None,
        {},
        (),
    )
    assert (read.tool_calls, read.compactions, read.retries) == (2, 1, 1)


def test_outputs_of_an_answers_beginning_are_no_counts(tmp_path, written):
    place = written("ok")
    place.write_text(place.read_text().replace('"output_tokens":51', '"output_tokens":1'))
    read = read_events(tmp_path, 1)
    assert counts(read) == [(1000, 0, None), (208, 992, None), (208, 1192, None)]
    assert read.differences == (
        "the answers' output tokens do not add up to those of the result: no answer's output is known",
    )


def test_a_request_that_failed_is_a_claim_without_counts(tmp_path, written):
    written("error")
    read = read_events(tmp_path, 1)
    assert [(one.error, one.output_tokens) for one in read.usage] == [("API Error: 400 CUDA out of memory", None)]
    assert (read.end, read.end_detail) == ("engine-error", "API Error: 400 CUDA out of memory")


@pytest.mark.parametrize(
    ("result", "end", "detail"),
    [
        ({"subtype": "success", "result": "x"}, "done", ""),
        ({"subtype": "error_max_turns", "is_error": True}, "limit", "error_max_turns"),
        ({"subtype": "error_during_execution", "is_error": True}, "agent-error", "error_during_execution"),
        ({"subtype": "success", "is_error": True, "result": "No such model"}, "agent-error", "No such model"),
    ],
)
def test_how_a_session_ends(tmp_path, result, end, detail):
    write(tmp_path / EVENTS_FILE, [{"type": "result", **result}])
    read = read_events(tmp_path, 1)
    assert (read.end, read.end_detail) == (end, detail)


def test_a_stream_that_just_ends_has_no_end(tmp_path, written):
    place = written("ok")
    place.write_text("".join(place.read_text().splitlines(keepends=True)[:-1]))
    read = read_events(tmp_path, 1)
    assert (read.end, len(read.usage)) == (None, 3)


def test_what_is_not_known_is_counted(tmp_path):
    write(tmp_path / EVENTS_FILE, [{"type": "omen"}, {"type": "system", "subtype": "omen"}, {"type": "user"}, {}])
    assert read_events(tmp_path, 1).unknown == {"omen": 1, "system omen": 1, "without a name": 1}


KINDS = ("assistant", "result", "system", "user")
NAMES = ("message", "usage", "content", "id", "type", "text", "input_tokens", "output_tokens", "cache_read_input_tokens", "subtype", "is_error", "error")  # fmt: skip


@pytest.mark.parametrize("reader", [claude_events, qwen_events])
@given(stream=events(KINDS, *NAMES), content=st.binary(max_size=200))
def test_anything_is_read_without_a_fault(tmp_path_factory, reader, stream, content):
    folder = tmp_path_factory.mktemp("claude")
    with write(folder / EVENTS_FILE, stream).open("ab") as file:
        file.write(content)
    assert is_sound(reader.read_events(folder, 1))


def test_written_lines_in_any_order_are_read(tmp_path, written):
    place = written("ok")
    write(place, reversed([json.loads(line) for line in place.read_text().splitlines()]))
    assert is_sound(read_events(tmp_path, 1))
