from __future__ import annotations

import shutil

from bench.agents.adapters import EVENTS_FILE
from bench.agents.qwen_events import read_events
from bench.spec import REPOSITORY
from tests.agents.hostile_streams import write

RECORDED = REPOSITORY / "fixtures" / "recordings" / "qwen-code-0.24.4"
COUNTS = [(22661, 0, 253), (477, 22720, 1469), (2762, 23232, 95), (271, 26048, 206), (510, 26368, 34), (94, 26880, 82)]
"""What the engine's own log says of the recorded session: prompt less cached, cached, output."""


def test_a_session_that_went_well(tmp_path):
    shutil.copy(RECORDED / "sound.events.jsonl", tmp_path / EVENTS_FILE)
    read = read_events(tmp_path, 7)
    assert [(one.input_tokens, one.cached_tokens, one.output_tokens) for one in read.usage] == COUNTS
    assert {(one.reasoning_tokens, one.response_id) for one in read.usage} == {(None, None)}
    assert (read.end, read.damage, read.unknown, read.differences) == ("done", None, {}, ())
    assert (read.tool_calls, read.retries, read.compactions) == (12, None, None)
    assert read.final_text.startswith("`csv_totals.py` is done.")


def block(**usage):
    return {
        "type": "assistant",
        "message": {"id": str(usage), "content": [{"type": "text", "text": "x"}], "usage": usage},
    }


def test_blocks_of_zeros_belong_to_the_answer_that_follows(tmp_path):
    stream = [
        block(input_tokens=0, output_tokens=0),
        block(input_tokens=9, output_tokens=3, cache_read_input_tokens=4),
        {"type": "user", "message": {}},
        block(input_tokens=0, output_tokens=0),
    ]
    write(tmp_path / EVENTS_FILE, stream)
    told = [(one.input_tokens, one.cached_tokens, one.output_tokens) for one in read_events(tmp_path, 1).usage]
    assert told == [(5, 4, 3), (None, None, None)]


def test_more_cached_than_there_was_is_no_count(tmp_path):
    write(tmp_path / EVENTS_FILE, [block(input_tokens=9, output_tokens=3, cache_read_input_tokens=40)])
    (claim,) = read_events(tmp_path, 1).usage
    assert (claim.input_tokens, claim.cached_tokens, claim.output_tokens) == (None, None, 3)


def test_a_request_that_failed(tmp_path):
    error = {"message": "[API Error: 400 CUDA out of memory]"}
    write(
        tmp_path / EVENTS_FILE,
        [{"type": "result", "subtype": "error_during_execution", "is_error": True, "error": error}],
    )
    read = read_events(tmp_path, 1)
    assert (read.end, read.end_detail) == ("engine-error", error["message"])
    assert [one.error for one in read.usage] == [error["message"]]


def test_second_tries_are_known_but_their_number_is_not(tmp_path):
    """As version 0.24.4 told of one try after an empty answer: once before it waited and once after."""
    again = {"type": "system", "subtype": "retry", "data": {"reason": "retry", "discardedToolCalls": 0}}
    write(tmp_path / EVENTS_FILE, [again, again, block(input_tokens=9, output_tokens=3)])
    read = read_events(tmp_path, 1)
    assert (dict(read.unknown), read.retries, len(read.usage)) == ({}, None, 1)
