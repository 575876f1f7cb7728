from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.adapters import EVENTS_FILE
from bench.agents.codex_events import ROLLOUT_FILE, read_events
from bench.spec import REPOSITORY
from tests.agents.hostile_streams import events, is_sound, write

RECORDED = REPOSITORY / "fixtures" / "recordings" / "codex-0.171.0"
COUNTS = [(7245, 0, 263, 108), (112, 7488, 1477, 92), (97, 9024, 105, 0), (96, 9216, 215, 71), (171, 9472, 42, 0), (86, 9664, 82, 0)]  # fmt: skip
"""What the engine's own log says of the recorded session: prompt less cached, cached, output, reasoning."""


def counts(read):
    return [(one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens) for one in read.usage]


@pytest.fixture
def recorded(tmp_path):
    shutil.copy(RECORDED / "sound.events.jsonl", tmp_path / EVENTS_FILE)
    shutil.copy(RECORDED / "sound.rollout.jsonl", tmp_path / ROLLOUT_FILE)
    return tmp_path


def test_a_session_that_went_well(recorded):
    read = read_events(recorded, 7)
    assert counts(read) == COUNTS
    assert all(one.session == 7 and one.response_id.startswith("resp_") for one in read.usage)
    assert (read.end, read.end_detail, read.damage, read.differences, read.unknown) == ("done", "", None, (), {})
    assert (read.requests, read.retries, read.compactions, read.unusable_turns) == (6, 0, 0, 0)
    assert read.tool_calls == 5
    assert read.tool_seconds > 0
    assert read.final_text.startswith("`csv_totals.py` is done.")


def test_without_its_session_file_only_the_sum_is_known(recorded):
    (recorded / ROLLOUT_FILE).unlink()
    read = read_events(recorded, 1)
    assert counts(read) == [tuple(map(sum, zip(*COUNTS, strict=True)))]
    assert read.usage[0].response_id is None
    assert read.differences == ("Codex left no session file that tells what each response used",)
    assert (read.end, read.tool_seconds, read.compactions) == ("done", None, None)


def test_a_session_file_that_says_something_else(recorded):
    path = recorded / ROLLOUT_FILE
    path.write_text(path.read_text().replace('"output_tokens":1477', '"output_tokens":1478'))
    read = read_events(recorded, 1)
    assert read.differences == (
        "Codex's session file and its event stream sum up differently: output_tokens 2,185 and 2,184",
    )


def lines(*kinds):
    return [{"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}, *kinds]


def failed(message):
    return {"type": "turn.failed", "error": {"message": message}}


def test_a_request_that_failed_is_a_claim_without_counts(tmp_path):
    write(
        tmp_path / EVENTS_FILE,
        lines({"type": "error", "message": "Reconnecting... 1/5"}, failed("unexpected status 503")),
    )
    read = read_events(tmp_path, 1)
    assert [(one.error, one.input_tokens, one.output_tokens) for one in read.usage] == [
        ("unexpected status 503", None, None)
    ]
    assert (read.end, read.end_detail, read.retries) == ("engine-error", "unexpected status 503", 1)


def test_an_answer_at_its_limit_is_no_failed_request(tmp_path):
    write(tmp_path / EVENTS_FILE, lines(failed("Incomplete response returned, reason: max_output_tokens")))
    read = read_events(tmp_path, 1)
    assert (read.end, read.usage) == ("length", ())


def test_a_stream_that_just_ends_has_no_end(tmp_path):
    write(tmp_path / EVENTS_FILE, lines())
    assert read_events(tmp_path, 1).end is None


def test_what_is_not_known_is_counted(tmp_path):
    odd = {"type": "item.completed", "item": {"type": "hologram"}}
    write(tmp_path / EVENTS_FILE, lines({"type": "turn.paused"}, odd, odd, {"kind": 1}))
    assert read_events(tmp_path, 1).unknown == {"turn.paused": 1, "item hologram": 2, "without a name": 1}


def usage(**more):
    return {"type": "token_usage_record", "payload": {"response_id": "r", "usage": more}}


def item(kind, **more):
    return {"type": "response_item", "payload": {"type": kind, **more}}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([usage(input_tokens=100, cached_input_tokens=90, output_tokens=7, reasoning_output_tokens=3)], (10, 90, 7, 3)),
        ([usage(input_tokens=0, cached_input_tokens=0, output_tokens=0, reasoning_output_tokens=0)], (None,) * 4),
        ([item("reasoning"), usage(input_tokens=9, cached_input_tokens=0, output_tokens=7, reasoning_output_tokens=0)], (9, 0, 7, None)),
        ([usage(input_tokens=9, cached_input_tokens=12, output_tokens=7)], (None, None, 7, None)),
        ([usage(input_tokens=-9, output_tokens=True)], (None,) * 4),
    ],
)  # fmt: skip
def test_what_zeros_and_nonsense_mean(tmp_path, entries, expected):
    write(tmp_path / EVENTS_FILE, lines())
    write(tmp_path / ROLLOUT_FILE, entries)
    assert counts(read_events(tmp_path, 1)) == [expected]


@pytest.mark.parametrize("output", ["unsupported call: teleport", "failed to parse function arguments: EOF"])
def test_answers_in_a_row_that_nobody_could_carry_out(tmp_path, output):
    turn = [item("function_call"), usage(input_tokens=9), item("function_call_output", output=output)]
    good = [item("function_call"), usage(input_tokens=9), item("function_call_output", output="Chunk ID: 1")]
    write(tmp_path / EVENTS_FILE, lines())
    for entries, expected in (
        (turn * 3, 3),
        (turn * 2 + good, 0),
        (good + turn, 1),
        ([*turn, usage(input_tokens=9)], 0),
    ):
        write(tmp_path / ROLLOUT_FILE, entries)
        assert read_events(tmp_path, 1).unusable_turns == expected


def test_a_summary_of_the_history_is_a_compaction(tmp_path):
    write(tmp_path / EVENTS_FILE, lines())
    write(tmp_path / ROLLOUT_FILE, [{"type": "compacted", "payload": {}}])
    assert read_events(tmp_path, 1).compactions == 1


KINDS = ("item.completed", "turn.completed", "turn.failed", "error", "turn.started")
NAMES = ("item", "type", "usage", "error", "message", "text", "input_tokens", "output_tokens", "cached_input_tokens")
KEPT = ("token_usage_record", "response_item", "compacted", "event_msg")
INSIDE = (
    "payload",
    "usage",
    "input_tokens",
    "output_tokens",
    "type",
    "output",
    "item",
    "started_at_ms",
    "completed_at_ms",
)


@given(stream=events(KINDS, *NAMES), kept=events(KEPT, *INSIDE))
def test_any_events_are_read_without_a_fault(tmp_path_factory, stream, kept):
    folder = tmp_path_factory.mktemp("codex")
    write(folder / EVENTS_FILE, stream)
    write(folder / ROLLOUT_FILE, kept)
    assert is_sound(read_events(folder, 1))


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_read_without_a_fault(tmp_path_factory, stream, kept):
    folder = tmp_path_factory.mktemp("codex")
    (folder / EVENTS_FILE).write_bytes(stream)
    (folder / ROLLOUT_FILE).write_bytes(kept)
    assert is_sound(read_events(folder, 1))


def test_recorded_lines_in_any_order_are_read(recorded):
    both = [
        json.loads(line) for name in (EVENTS_FILE, ROLLOUT_FILE) for line in (recorded / name).read_text().splitlines()
    ]
    write(recorded / EVENTS_FILE, reversed(both))
    write(recorded / ROLLOUT_FILE, reversed(both))
    assert is_sound(read_events(recorded, 1))
