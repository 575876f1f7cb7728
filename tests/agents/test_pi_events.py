"""Pi's event stream: recorded ones of both versions, forged and damaged ones, and the session file beside them."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.agents.pi_events import NOISE, SESSION_FILE, read_pi_events
from bench.spec import REPOSITORY
from tests.agents.npm_agents import require_agent

RECORDINGS = REPOSITORY / "fixtures" / "recordings"


@pytest.fixture
def read(tmp_path):
    def read_lines(*events, session_file=None):
        lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
        (tmp_path / "events.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        if session_file is not None:
            shutil.copyfile(RECORDINGS / session_file, tmp_path / SESSION_FILE)
        return read_pi_events(tmp_path, 7)

    return read_lines


def recorded(name):
    return (RECORDINGS / f"{name}.events.jsonl").read_text(encoding="utf-8").splitlines()


def counts(events):
    return [(one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens) for one in events.usage]


@pytest.mark.parametrize(("version", "reasoning"), [("0.73", (None,) * 3), ("1.6", (20, 21, 22))])
def test_a_session_that_went_well(read, version, reasoning):
    found = read(*recorded(f"pi-{version}/ok"), session_file=f"pi-{version}/ok.session.jsonl")
    assert counts(found) == [
        (1000, 0, 50, reasoning[0]),
        (208, 992, 51, reasoning[1]),
        (208, 1192, 52, reasoning[2]),
    ]
    assert (found.end, found.end_detail, found.damage, found.retries) == ("done", "", None, 0)
    assert (found.requests, found.tool_calls, found.compactions) == (3, 2, 0)
    assert found.final_text
    assert all(one.response_id.startswith("chatcmpl-ok-") for one in found.usage)
    assert dict(found.unknown) == {}
    assert found.tool_seconds is None if version == "0.73" else found.tool_seconds > 0


def test_tools_that_run_beside_each_other_take_the_time_of_the_longest(read):
    def ran(call, milliseconds, at):
        told = {"role": "toolResult", "toolCallId": call, "isError": False, "timestamp": at, "durationMs": milliseconds}
        return {"type": "message_end", "message": told}

    at = 1_796_046_123_000
    found = read(ran("a", 2000, at), ran("b", 1500, at), ran("c", 500, at + 4000))
    assert found.tool_seconds == pytest.approx(2.5)


@pytest.mark.parametrize("version", ["0.73", "1.6"])
def test_every_failed_request_is_one_without_counts(read, version):
    found = read(*recorded(f"pi-{version}/503-retries"))
    assert counts(found) == [(None, None, None, None)] * 4
    assert (found.end, found.retries, dict(found.unknown)) == ("engine-error", 3, {})
    assert "503" in found.end_detail


@pytest.mark.parametrize("version", ["0.73", "1.6"])
def test_a_prompt_over_the_window_is_the_engines_refusal(read, version):
    found = read(*recorded(f"pi-{version}/overflow"))
    assert (found.end, len(found.usage), dict(found.unknown)) == ("engine-error", 1, {})
    assert "context" in found.end_detail


def test_a_summary_is_a_request_of_its_own_where_it_is_told(read):
    newer = read(*recorded("pi-1.6/compaction-mid"))
    assert [one.stop_reason for one in newer.usage] == ["toolUse", "toolUse", "toolUse", "compaction", "stop"]
    assert (newer.compactions, newer.end, dict(newer.unknown)) == (1, "done", {})
    older = read(*recorded("pi-0.73/compaction-mid"))
    assert [one.stop_reason for one in older.usage] == ["toolUse", "toolUse", "toolUse", "stop"]
    assert (older.compactions, older.end) == (0, "done")


@pytest.mark.parametrize("name", ["ok", "503-retries", "compaction-mid", "overflow"])
def test_the_lines_that_are_not_kept_say_nothing_of_their_own(read, name):
    """Of 1.6, which is run; of 0.73, whose streams are only read, `agent_end` is the end."""
    lines = recorded(f"pi-1.6/{name}")
    kept = [line for line in lines if not line.encode().startswith(NOISE)]
    assert len(kept) < len(lines)
    assert read(*kept) == read(*lines)


def message(stop="stop", text="Done.", **more):
    usage = {"input": 100, "output": 50, "cacheRead": 900, "cacheWrite": 0, "reasoning": 20}
    content = [{"type": "text", "text": text}] if text else []
    body = {"role": "assistant", "content": content, "usage": usage, "stopReason": stop, "responseId": "r1", **more}
    return {"type": "message_end", "message": body}


SETTLED = {"type": "agent_settled", "aborted": False}


@pytest.mark.parametrize(
    ("events", "end", "detail"),
    [
        ((message(), SETTLED), "done", ""),
        ((message(),), None, ""),
        ((SETTLED,), None, ""),
        ((message("length"), SETTLED), "length", ""),
        ((message("error", errorMessage="terminated"), SETTLED), "engine-error", "terminated"),
        ((message("error"), SETTLED), "engine-error", "not said"),
        ((message("toolUse"), SETTLED), "agent-error", "its last message stopped for 'toolUse'"),
        ((message("aborted"), SETTLED), "agent-error", "its last message stopped for 'aborted'"),
        ((message(), {**SETTLED, "aborted": True}), "agent-error", "Pi says that it was aborted"),
        ((message(), {"type": "agent_end", "willRetry": True}), None, ""),
        ((message(), {"type": "agent_end"}), "done", ""),
    ],
)
def test_the_end_is_what_the_last_message_says(read, events, end, detail):
    found = read(*events)
    assert (found.end, found.end_detail) == (end, detail)


def test_a_summary_that_failed_is_told(read):
    failed = {"type": "compaction_end", "reason": "threshold", "aborted": False, "errorMessage": "Summarization failed"}
    found = read(failed, {**failed, "errorMessage": None, "aborted": True}, message(), SETTLED)
    assert (found.compactions, found.end, len(found.usage)) == (0, "done", 1)
    assert found.damage == "2 x compaction failed, and what it used is not told; the last: aborted"


def test_a_model_call_beside_the_conversation_is_a_claim(read):
    usage = {"input": 7, "output": 1, "cacheRead": 90, "cacheWrite": 0}
    found = read({"type": "entry_appended", "entry": {"type": "usage", "kind": "warm", "usage": usage}}, SETTLED)
    assert [(one.stop_reason, one.input_tokens, one.cached_tokens) for one in found.usage] == [("warm", 7, 90)]
    edited = {"type": "entry_appended", "entry": {"type": "context_edit", "targetId": "a", "replacement": None}}
    assert read(edited, SETTLED).usage == ()


def test_unknown_events_are_counted_by_name(read):
    found = read(
        {"type": "turn_begun"}, {"type": "turn_begun"}, {"no": 1}, {"type": {}}, {"type": "a\ud800"}, "no JSON"
    )
    assert dict(found.unknown) == {"turn_begun": 2, "without a name": 2, "a?": 1}
    assert found.damage == "1 x no JSON object (first in line 6)"


def test_every_event_that_the_program_can_print_is_known(read):
    """Names from the installed program's own sources, so that a new version that adds one is noticed."""
    require_agent("pi")
    modules = REPOSITORY / ".agents" / "pi" / "node_modules" / "@earendil-works"
    session = (modules / "pi-coding-agent" / "dist" / "core" / "agent-session.js").read_text(encoding="utf-8")
    names = set(re.findall(r"\b_emit\(\{\s*type: \"(\w+)\"", session))
    types = (modules / "pi-agent-core" / "dist" / "types.d.ts").read_text(encoding="utf-8")
    inner = types[types.index("export type AgentEvent ") :]
    names |= set(re.findall(r"type: \"(\w+)\"", inner))
    names |= set(re.findall(r'^\{"type":"(\w+)"', (modules / "pi-coding-agent/docs/json.md").read_text(), re.MULTILINE))
    names -= {"bash_execution_update", "extension_error"}  # printed in RPC mode alone
    assert {"agent_settled", "message_end", "tool_execution_end", "compaction_end", "turn_start"} <= names
    assert len(names) >= 20
    assert dict(read(*({"type": name} for name in names)).unknown) == {}


def test_a_line_that_is_too_long_costs_its_claim_and_is_told(read):
    found = read(message(), message("stop", "x" * 10_100_000, responseId="r2"), SETTLED)
    assert [one.response_id for one in found.usage] == ["r1"]
    assert found.damage == "1 x line over 10,000,000 bytes (first in line 2)"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[: len(text) // 2], "is damaged (1 x line without an end"),
        (lambda text: text.replace('"output":51', '"output":510'), "tells response 2 otherwise than its event stream"),
        (lambda text: "".join(text.splitlines(keepends=True)[:-1]), "holds 2 responses, its event stream 3"),
        (lambda _: "", "is damaged (it is empty)"),
        (lambda text: text + '{"type":"compaction"}\n', "holds 1 compactions, its event stream 0"),
        (lambda text: text.replace('"version":3', '"version":4', 1), "is damaged (format 4 is not format 3"),
        (lambda text: text, None),
    ],
    ids=["torn", "edited", "shortened", "emptied", "lengthened", "another format", "as it was"],
)
def test_the_session_file_is_held_against_the_stream(tmp_path, change, said):
    (tmp_path / "events.jsonl").write_text("\n".join(recorded("pi-1.6/ok")) + "\n", encoding="utf-8")
    kept = (RECORDINGS / "pi-1.6/ok.session.jsonl").read_text(encoding="utf-8")
    (tmp_path / SESSION_FILE).write_text(change(kept), encoding="utf-8")
    found = read_pi_events(tmp_path, 7)
    assert counts(found)[1] == (208, 992, 51, 21)
    assert (found.differences == ()) if said is None else (said in found.differences[0])


def test_a_session_file_that_is_a_link_is_not_followed(read, tmp_path):
    (tmp_path / SESSION_FILE).symlink_to(RECORDINGS / "pi-1.6/ok.session.jsonl")
    found = read(*recorded("pi-1.6/ok"))
    assert "is damaged" in found.differences[0]


def test_a_session_without_its_file_says_so(read):
    assert read(message(), SETTLED).differences == ("Pi left no session file",)
    assert read(SETTLED).differences == ()


NAMES = [
    "message_end", "tool_execution_end", "compaction_end", "entry_appended", "auto_retry_start", "agent_end",
    "agent_settled", "usage", "message", "compaction", "session", "model_change",
]  # fmt: skip
KEYS = [
    "type", "message", "role", "content", "usage", "input", "output", "cacheRead", "cacheWrite", "reasoning", "stopReason",
    "errorMessage", "responseId", "durationMs", "result", "entry", "kind", "willRetry", "aborted", "text", "thinking",
    "timestamp", "version", "modelId",
]  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from([*NAMES, "assistant", "toolResult", "toolCall", "stop", "error", "2026-11-30T07:34:39.933Z"])
)
FLAT = st.dictionaries(st.sampled_from(KEYS), SCALARS, max_size=6)
VALUES = SCALARS | FLAT | st.lists(SCALARS | FLAT, max_size=2)
MESSAGES = st.builds(
    lambda usage, content, more: {"role": "assistant", "usage": usage, "content": content, **more},
    VALUES,
    VALUES,
    st.dictionaries(st.sampled_from(KEYS), SCALARS, max_size=3),
)
EVENTS = st.builds(
    lambda name, fields, message: {"type": name, **fields, "message": message, "entry": message, "result": message},
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3),
    MESSAGES | VALUES,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENTS, max_size=5), st.lists(EVENTS, max_size=5))
def test_any_stream_and_any_session_file_give_something(tmp_path, events, entries):
    def lines(values):
        return "".join(json.dumps(value) + "\n" for value in values)

    (tmp_path / "events.jsonl").write_text(lines(events), encoding="utf-8")
    begin = {"type": "session", "version": 3}
    (tmp_path / SESSION_FILE).write_text(lines([begin, *entries]), encoding="utf-8")
    found = read_pi_events(tmp_path, 7)
    for one in found.usage:
        numbers = (one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens)
        assert all(number is None or number >= 0 for number in numbers)
        assert one.reasoning_tokens is None or one.reasoning_tokens <= one.output_tokens
    assert [one.index for one in found.usage] == list(range(len(found.usage)))
    assert found.tool_seconds is None or found.tool_seconds >= 0
    said = (found.end_detail, found.final_text, found.damage or "", *found.unknown, *found.differences)
    assert all(text.encode("utf-8") is not None for text in said)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_any_bytes_give_something(tmp_path, data):
    (tmp_path / "events.jsonl").write_bytes(data)
    (tmp_path / SESSION_FILE).write_bytes(data)
    assert read_pi_events(tmp_path, 7).usage == ()
