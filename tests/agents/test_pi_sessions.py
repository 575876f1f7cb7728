from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.pi_sessions import read_pi_session
from bench.spec import REPOSITORY

RECORDINGS = REPOSITORY / "fixtures" / "recordings"


def read(name, session=7):
    return read_pi_session(RECORDINGS / f"{name}.session.jsonl", session)


def counts(kept):
    return [(one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens) for one in kept.claims]


@pytest.mark.parametrize(("name", "reasoning"), [("pi-0.73/ok", (None,) * 3), ("pi-1.6/ok", (20, 21, 22))])
def test_a_session_that_went_well(name, reasoning):
    kept = read(name)
    assert counts(kept) == [
        (1000, 0, 50, reasoning[0]),
        (208, 992, 51, reasoning[1]),
        (208, 1192, 52, reasoning[2]),
    ]
    assert [(one.session, one.index, one.error) for one in kept.claims] == [(7, 0, None), (7, 1, None), (7, 2, None)]
    assert all(one.response_id.startswith("chatcmpl-ok-") for one in kept.claims)
    assert (kept.outcome, kept.reason, kept.damage, kept.model) == ("done", "", None, "fake-model")
    assert (kept.tool_calls, kept.compactions, kept.version) == (2, 0, "3")
    assert all(kept.started_at <= begin <= end <= kept.ended_at + 0.01 for begin, end in kept.spans)
    ends = [end for _, end in kept.spans]
    assert ends == sorted(ends)


@pytest.mark.parametrize("name", ["pi-0.73/503-retries", "pi-1.6/503-retries"])
def test_error_responses_have_no_counts(name):
    kept = read(name)
    assert counts(kept) == [(None, None, None, None)] * 4
    assert all("503" in one.error for one in kept.claims)
    assert kept.outcome == "engine-error"
    assert "Loading model" in kept.reason


def test_a_compaction_is_counted_and_its_call_is_a_response_where_it_is_told():
    newer, older = read("pi-1.6/compaction-mid"), read("pi-0.73/compaction-end")
    assert (newer.compactions, older.compactions) == (1, 1)
    assert [one.stop_reason for one in newer.claims] == ["toolUse", "toolUse", "toolUse", "compaction", "stop"]
    assert counts(newer)[3] == (1000, 0, 50, 20)
    assert newer.spans[2][1] <= newer.spans[3][1] <= newer.spans[4][0]
    assert [one.stop_reason for one in older.claims] == ["toolUse", "toolUse", "stop"]


@pytest.mark.parametrize("name", ["sigterm-during-bash", "sigterm-during-stall"])
def test_a_session_that_was_killed_is_interrupted(name):
    kept = read(f"pi-1.6/{name}")
    assert kept.outcome == "interrupted"
    assert kept.claims[-1].stop_reason == "aborted"
    assert kept.claims[-1].error
    assert counts(kept)[-1] == (None, None, None, None)


def lines(*entries):
    head = {"type": "session", "version": 3, "id": "x", "timestamp": "2026-11-30T07:00:00.000Z"}
    return [head, *entries]


def answer(usage, **more):
    content = [{"type": "thinking", "thinking": "hm"}] if more.pop("thought", False) else []
    message = {"role": "assistant", "content": content, "usage": usage, "stopReason": "stop", **more}
    return {"type": "message", "timestamp": "2026-11-30T07:00:09.000Z", "message": message}


def written(path, entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return read_pi_session(path, 1)


@pytest.mark.parametrize(
    ("usage", "thought", "expected"),
    [
        ({"input": 5, "cacheWrite": 95, "cacheRead": 10, "output": 7, "reasoning": 3}, True, (100, 10, 7, 3)),
        ({"input": 5, "cacheRead": 0, "output": 7, "reasoning": 0}, True, (5, 0, 7, None)),
        ({"input": 5, "cacheRead": 0, "output": 7, "reasoning": 0}, False, (5, 0, 7, 0)),
        ({"input": 5, "cacheRead": 0, "output": 7, "reasoning": 9}, True, (5, 0, 7, None)),
        ({"input": 0, "cacheRead": 0, "cacheWrite": 0, "output": 0}, False, (None, None, None, None)),
        ({"input": -1, "cacheRead": True, "output": "7"}, False, (None, None, None, None)),
        ({"input": 10**12, "cacheRead": 4, "output": 1.5}, False, (None, 4, None, None)),
        ("none", False, (None, None, None, None)),
    ],
)
def test_what_zeros_and_nonsense_mean(tmp_path, usage, thought, expected):
    kept = written(tmp_path / "s.jsonl", lines(answer(usage, thought=thought)))
    assert counts(kept) == [expected]


@pytest.mark.parametrize(
    ("content", "damage"),
    [
        (b"", "it is empty"),
        (b'{"type":"session","version":4}\n', "format 4 is not format 3"),
        (b'{"type":"session"}\n', "format None is not format 3"),
        (b'{"type":"message"}\n', "does not begin with an entry of type 'session'"),
        (b"\x00\xff\xfe binary\n" * 50, "50 x no JSON object"),
    ],
)
def test_what_is_no_session_file_gives_nothing_and_says_why(tmp_path, content, damage):
    path = tmp_path / "s.jsonl"
    path.write_bytes(content)
    kept = read_pi_session(path, 1)
    assert damage in kept.damage
    assert (kept.claims, kept.tool_calls, kept.compactions, kept.spans) == ((), None, None, None)


def test_damaged_lines_are_passed_over_and_said(tmp_path):
    whole = (RECORDINGS / "pi-1.6" / "ok.session.jsonl").read_bytes()
    path = tmp_path / "s.jsonl"
    path.write_bytes(whole.replace(b'"role":"user"', b'"role":"us', 1)[:-40])
    kept = read_pi_session(path, 1)
    assert counts(kept) == [(1000, 0, 50, 20), (208, 992, 51, 21)]
    assert kept.damage.startswith("2 x no JSON object")
    assert kept.outcome == "interrupted"


def test_usage_of_nested_calls_is_said_and_not_counted(tmp_path):
    result = {"role": "toolResult", "usage": {"input": 5, "output": 5}}
    kept = written(tmp_path / "s.jsonl", lines({"type": "message", "message": result}))
    assert kept.claims == ()
    assert "1 tool results carry the usage of calls of their own" in kept.damage


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("type", "timestamp", "message", "role", "usage", "content", "stopReason", "kind", "durationMs", "input")
ENTRY = st.fixed_dictionaries(
    {"type": st.sampled_from(("message", "compaction", "usage", "session", "model_change")) | JSON},
    optional={
        "timestamp": st.just("2026-11-30T07:00:00.000Z") | JSON,
        "usage": st.dictionaries(st.sampled_from(("input", "output", "cacheRead", "reasoning")), JSON),
        "message": st.dictionaries(st.sampled_from(NAMES), JSON)
        | st.fixed_dictionaries({"role": st.just("assistant")}, optional=dict.fromkeys(NAMES[4:9], JSON)),
    },
)


@given(entries=st.lists(ENTRY, max_size=6))
def test_any_entries_are_read_without_a_fault(tmp_path_factory, entries):
    kept = written(tmp_path_factory.mktemp("pi") / "s.jsonl", lines(*entries))
    for place, one in enumerate(kept.claims):
        assert one.index == place
        told = (one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens)
        assert all(count is None or count >= 0 for count in told)
    assert kept.spans is None or len(kept.spans) == len(kept.claims)


@given(content=st.binary(max_size=300))
def test_any_bytes_are_read_without_a_fault(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("pi") / "s.jsonl"
    path.write_bytes(b'{"type":"session","version":3}\n' + content)
    read_pi_session(path, 1)
