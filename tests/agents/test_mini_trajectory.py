from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.kept_sessions import kept_agents, session_files
from bench.agents.mini_trajectory import read_trajectory
from bench.errors import UsageError
from bench.spec import REPOSITORY

RECORDING = REPOSITORY / "fixtures" / "recordings" / "mini-swe-agent-2.4.6" / "traj.json"


def test_a_recorded_trajectory():
    kept = read_trajectory(RECORDING, 3)
    told = [(one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens) for one in kept.claims]
    assert told == [(1000, 0, 50, 20), (208, 992, 51, 21), (208, 1192, 52, 22)]
    assert [one.response_id for one in kept.claims] == ["chatcmpl-mini-1", "chatcmpl-mini-2", "chatcmpl-mini-3"]
    assert (kept.outcome, kept.tool_calls, kept.version) == ("done", 3, "mini-swe-agent-1.1")
    assert len(kept.spans) == 3


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"messages": 3}', b"\xff" * 9, b"[" * 100_000])
def test_what_is_no_trajectory_gives_nothing_and_says_so(tmp_path, content):
    path = tmp_path / "traj.json"
    path.write_bytes(content)
    kept = read_trajectory(path, 1)
    assert kept.claims == ()
    assert kept.damage


def test_links_are_not_followed(tmp_path):
    (tmp_path / "link.json").symlink_to(RECORDING)
    assert "cannot be read" in read_trajectory(tmp_path / "link.json", 1).damage


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
RESPONSE = st.dictionaries(st.sampled_from(("id", "usage", "choices", "model")), JSON)
MESSAGE = st.fixed_dictionaries(
    {"role": st.just("assistant")}, optional={"extra": st.fixed_dictionaries({"response": RESPONSE, "timestamp": JSON})}
)


@given(st.lists(MESSAGE | JSON, max_size=4))
def test_any_messages_are_read_without_a_fault(tmp_path_factory, messages):
    path = tmp_path_factory.mktemp("mini") / "traj.json"
    path.write_text(json.dumps({"messages": messages}))
    read_trajectory(path, 1)


def test_an_agent_without_a_reader_is_a_mistake_that_lists_those_with_one():
    with pytest.raises(UsageError, match=", ".join(kept_agents())):
        session_files("nobody")
