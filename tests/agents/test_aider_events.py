from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.aider_events import LOG_FILE, NOT_COUNTED, read_events
from bench.spec import REPOSITORY
from tests.agents.hostile_streams import events, is_sound, write

WRITTEN = REPOSITORY / "fixtures" / "recordings" / "aider-from-documentation"


def test_its_own_estimates_are_no_counts(tmp_path):
    shutil.copy(WRITTEN / "ok.analytics.jsonl", tmp_path / LOG_FILE)
    read = read_events(tmp_path, 7)
    (claim,) = read.usage
    assert (claim.session, claim.input_tokens, claim.cached_tokens, claim.output_tokens) == (7, None, None, None)
    assert claim.stop_reason == NOT_COUNTED
    assert (read.end, read.end_detail, read.damage, read.unknown) == ("done", "", None, {})
    assert (read.retries, read.compactions) == (None, None)


FAILED = {"event": "message_send_exception", "properties": {"exception": "litellm.BadRequestError: no memory"}}
SENT = {"event": "message_send", "properties": {"prompt_tokens": 5}}


def left(reason):
    return {"event": "exit", "properties": {"reason": reason}}


@pytest.mark.parametrize(
    ("log", "end", "detail"),
    [
        ([SENT, left("Completed --message")], "done", ""),
        ([SENT], None, ""),
        ([FAILED, left("Completed --message-file")], "engine-error", "litellm.BadRequestError: no memory"),
        ([FAILED, SENT, left("Completed --message-file")], "done", ""),
        ([left("Message file not found")], "agent-error", "Message file not found"),
    ],
)
def test_how_a_session_ends(tmp_path, log, end, detail):
    write(tmp_path / LOG_FILE, log)
    read = read_events(tmp_path, 1)
    assert (read.end, read.end_detail) == (end, detail)


def test_what_is_not_known_is_counted_and_no_log_is_damage(tmp_path):
    assert "cannot be read" in read_events(tmp_path, 1).damage
    write(tmp_path / LOG_FILE, [{"event": "omen"}, {}])
    assert read_events(tmp_path, 1).unknown == {"omen": 1, "without a name": 1}


@given(
    events(("message_send", "message_send_exception", "exit"), "properties", "exception", "reason"),
    st.binary(max_size=100),
)
def test_anything_is_read_without_a_fault(tmp_path_factory, log, content):
    folder = tmp_path_factory.mktemp("aider")
    with write(folder / LOG_FILE, log).open("ab") as file:
        file.write(content)
    assert is_sound(read_events(folder, 1))
