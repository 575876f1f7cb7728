from __future__ import annotations

import os

import pytest

from bench.engines.embedded.script_file import load_script
from bench.engines.embedded.script_play import NOTHING_LEFT, Fault
from bench.engines.embedded.session_place import SessionPlace
from bench.errors import FileFormatError, UsageError


def place(role="builder", task="T001", attempt=1, retry=0):
    return SessionPlace(role=role, task=task, attempt=attempt, retry=retry)


def test_the_first_session_that_agrees_is_played(script):
    loaded = load_script(script)
    assert loaded.about == "Sessions that the tests play."
    assert loaded.play(place(), 1).turn.think.startswith("It runs.")
    assert loaded.play(place(role="reviewer", task="T009", attempt=3), 0).turn.say.endswith("VERDICT: ACCEPT")
    assert loaded.play(place(task="T003"), 0).free_bytes is None
    assert loaded.play(place(task="T003"), 1).free_bytes == 80_000
    assert loaded.play(place(task="T003", retry=1), 1).free_bytes is None


def test_past_its_end_or_elsewhere_nothing_is_left(script):
    loaded = load_script(script)
    assert loaded.play(place(), 3).turn is NOTHING_LEFT
    assert loaded.play(place(role="preflight", task=None), 0).turn is NOTHING_LEFT
    assert loaded.play(None, 0).turn is NOTHING_LEFT


def test_files_beside_the_script_are_the_content(script):
    first = load_script(script).play(place(), 0).turn
    assert first.intents[0].text == (script / "files" / "total.py").read_text()


def test_a_file_of_another_script_of_the_workload_may_be_named(script):
    other = script.parent / "other"
    other.mkdir()
    (other / "x.txt").write_text("shared")
    write(script, "  - role: builder\n    turns: [{do: [{write: x, from: ../other/x.txt}]}]\n")
    assert load_script(script).play(place(), 0).turn.intents[0].text == "shared"


def write(script, sessions):
    (script / "script.yaml").write_text(f"about: x\nsessions:\n{sessions}")


def turn(text):
    return f"  - role: builder\n    turns:\n      - {text}\n"


@pytest.mark.parametrize(
    ("sessions", "line", "problem"),
    [
        ("  - role: builder\n    tusk: T001\n    turns: [{say: x}]\n", 4, "unknown key 'sessions.0.tusk'"),
        ("  - role: bilder\n    turns: [{say: x}]\n", 3, "key 'sessions.0.role': expected 'bootstrap', 'builder'"),
        ("  - role: builder\n    attempt: one\n    turns: [{say: x}]\n", 4, "key 'sessions.0.attempt'"),
        ("  - role: builder\n    free_bytes: -1\n    turns: [{say: x}]\n", 4, "key 'sessions.0.free_bytes'"),
        ("  - role: builder\n    turns: []\n", 4, "key 'sessions.0.turns'"),
        (turn("{}"), 5, "a turn needs at least one of think, say, do"),
        (turn("do: [{write: a, run: b}]"), 5, "expected exactly one of write, edit, run, read, got write, run"),
        (turn("do: [{text: a}]"), 5, "expected exactly one of write, edit, run, read, got none"),
        (turn("do: [{write: a}]"), 5, "'write' takes 'from' or 'text' beside it"),
        (turn("do: [{write: a, from: files/total.py, text: b}]"), 5, "'write' takes 'from' or 'text' beside it"),
        (turn("do: [{edit: a, old: b}]"), 5, "'edit' takes 'old' and 'new' beside it"),
        (turn("do: [{run: a, text: b}]"), 5, "'run' takes nothing beside it"),
        (turn("do: [{read: ../a}]"), 5, "'../a' must be a path inside the project"),
        (turn("do: [{write: /etc/a, text: b}]"), 5, "'/etc/a' must be a path inside the project"),
        (turn("fault: {kind: melt}"), 5, "key 'sessions.0.turns.0.fault.kind'"),
        (turn("fault: {kind: refuse, status: 500}"), 5, "'refuse' needs message"),
        (turn("fault: {kind: refuse, status: 200, message: x}"), 5, "key 'sessions.0.turns.0.fault.status'"),
        (turn("fault: {kind: refuse, status: 500, message: x, after_tokens: 1}"), 5, "'refuse' takes no after_tokens"),
        (
            turn("say: x\n        fault: {kind: cut, after_token: 1}"),
            6,
            "unknown key 'sessions.0.turns.0.fault.after_token'",
        ),
        (turn("say: x\n        fault: {kind: reset}"), 6, "'reset' needs after_tokens"),
        (turn("say: x\n        fault: {kind: length, after_tokens: 0}"), 6, "needs after_tokens of at least 1"),
        (turn("say: x\n        fault: {kind: empty}"), 5, "a turn whose fault is 'empty' has no think, say or do"),
        (turn("say: x\n        fault: {kind: cut-call}"), 5, "a turn whose fault is 'cut-call' needs do"),
        (turn("fault: {kind: stall, after_tokens: 2}"), 5, "'stall' needs at least one of think, say, do"),
        (turn("fault: {kind: no-usage, name: x}"), 5, "'no-usage' takes no name"),
        (turn("do:\n        - write: a\n          from: files/none"), 7, "there is no file 'files/none'"),
        (turn("do: [{write: a, from: ../../secret}]"), 5, "'../../secret' lies outside the workload's scripts"),
        (turn("do: [{write: a, from: files/link}]"), 5, "'files/link' lies outside the workload's scripts"),
        (turn("do: [{write: a, from: files/raw}]"), 5, "'files/raw' is not UTF-8 (byte 1)"),
        (turn("do: [{write: a, from: files/big}]"), 5, "'files/big' is larger than 4,000,000 bytes"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_key(script, tmp_path, sessions, line, problem):
    (tmp_path / "secret").write_text("x")
    (script / "files" / "link").symlink_to(tmp_path / "secret")
    (script / "files" / "raw").write_bytes(b"a\xff")
    (script / "files" / "big").touch()
    os.truncate(script / "files" / "big", 4_000_001)
    write(script, sessions)
    with pytest.raises(FileFormatError) as caught:
        load_script(script)
    assert str(caught.value).startswith(f"{script / 'script.yaml'}:{line}: ")
    assert problem in str(caught.value)


def test_no_script_at_all(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        load_script(tmp_path)


def test_a_fault_is_read_with_what_its_kind_needs(script):
    fault = "{kind: refuse, status: 503, message: Busy, code: 7, retry_after_seconds: 2}"
    write(script, turn(f"fault: {fault}") + turn("say: x"))
    expected = Fault(kind="refuse", status=503, message="Busy", type="server_error", code=7, retry_after_seconds=2.0)
    assert load_script(script).play(place(), 0).turn.fault == expected
    write(script, turn("say: x\n        fault: {kind: reset, after_tokens: 2}"))
    assert load_script(script).play(place(), 0).turn.fault == Fault(kind="reset", after_tokens=2)
