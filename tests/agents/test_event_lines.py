"""The reader of event streams takes anything: what is whole comes out, what is not is said, nothing is raised."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.agents.adapters import open_adapter
from bench.agents.event_lines import LINE_BYTES, STREAM_BYTES, EventLines
from bench.spec import AgentSpec

BUILTIN = open_adapter(AgentSpec(name="builtin"))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
keys = ("id", "index", "text", "final_text", "reason", "detail", "finish_reason", "usage", "message", "tool_calls")
wild_events = st.fixed_dictionaries(
    {"type": st.sampled_from(["session", "request", "response", "tool", "error", "end", "other"]) | json_values},
    optional=dict.fromkeys(keys, json_values),
)
counts = st.none() | st.integers(0, 10**6)


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    return tmp_path_factory.mktemp("events") / "events.jsonl"


@given(
    st.binary(max_size=300) | st.lists(wild_events, max_size=6).map(lambda e: "\n".join(map(json.dumps, e)).encode())
)
@example(b'{"type":"end","reason":"done","final_text":"\\ud800"}\n')
@example(b"[" * 100_000)
@example(b'{"type":"response","usage":{"prompt_tokens":' + b"9" * 5000 + b"}}\n")
@example(b"\xff\xfe{\x00}\x00\n")
def test_anything_can_be_read(stream, data):
    stream.write_bytes(data)
    events = BUILTIN.read_stream(stream, 3)
    events.final_text.encode()
    for record in events.usage:
        figures = (record.input_tokens, record.cached_tokens, record.output_tokens, record.reasoning_tokens)
        assert all(figure is None or figure >= 0 for figure in figures)
        assert record.session == 3


@given(st.lists(wild_events, max_size=8), st.integers(0, 10_000))
def test_a_torn_stream_gives_what_was_whole_before_the_tear(stream, events, cut):
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    whole = b"".join(lines)
    torn = whole[: cut % (len(whole) + 1)]
    stream.write_bytes(torn)
    reader = EventLines(stream)
    got = [json.dumps(event) for event in reader]
    full = torn.count(b"\n")
    assert got[:full] == [line.decode().rstrip("\n") for line in lines[:full]]
    assert (reader.damage is None) == (not torn or torn.endswith(b"\n"))


@given(prompt=counts, cached=counts, output=counts, reasoning=counts)
def test_counts_have_one_meaning(stream, prompt, cached, output, reasoning):
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    stream.write_text(json.dumps({"type": "response", "index": 0, "id": "a", "usage": usage}) + "\n")
    (record,) = BUILTIN.read_stream(stream, 1).usage
    assert (record.output_tokens, record.reasoning_tokens) == (output, reasoning)
    if prompt is None or cached is None or cached > prompt:
        assert record.input_tokens is None
    else:
        assert record.input_tokens + record.cached_tokens == prompt


def test_details_that_are_null_or_absent_are_not_zero(stream):
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}
    stream.write_text(json.dumps({"type": "response", "usage": usage}) + "\n")
    (record,) = BUILTIN.read_stream(stream, 1).usage
    assert (record.input_tokens, record.cached_tokens, record.reasoning_tokens) == (None, None, None)
    assert record.output_tokens == 2


@pytest.mark.parametrize("count", [-1, 1.5, True, "7", 10**12, None, [1]])
def test_what_is_no_count_is_none(stream, count):
    stream.write_text(json.dumps({"type": "response", "usage": {"completion_tokens": count}}) + "\n")
    assert BUILTIN.read_stream(stream, 1).usage[0].output_tokens is None


def test_a_line_that_is_too_long_is_passed_over(tmp_path):
    path = tmp_path / "events.jsonl"
    long = b'{"text":"' + b"x" * LINE_BYTES * 2 + b'"}\n'
    path.write_bytes(b'{"a":1}\n' + long + b'{"b":2}\n')
    reader = EventLines(path)
    assert list(reader) == [{"a": 1}, {"b": 2}]
    assert reader.damage == "1 x line over 10,000,000 bytes (first in line 2)"


def test_a_stream_that_is_too_long_ends_at_its_limit(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a":1}\n' * 3)
    os.truncate(path, STREAM_BYTES + 10)
    reader = EventLines(path)
    assert len(list(reader)) == 3
    assert "1 x stream over 64,000,000 bytes" in reader.damage


def test_a_link_a_folder_and_nothing_are_no_stream(tmp_path):
    (tmp_path / "real").write_text('{"type":"end","reason":"done"}\n')
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "folder", "fifo", "nothing"):
        events = BUILTIN.read_stream(tmp_path / name, 1)
        assert (events.end, events.usage) == (None, ())
        assert events.damage is not None
