"""A session reads well, folds what is long, and nothing that an agent or a model wrote can pose as a line of ours."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records.conversation import Piece, Turn
from bench.records.schema import SessionRow
from bench.report.call_line import call_line
from bench.report.transcript_text import Look, TranscriptText


def turn(**changes):
    plain = {
        **dict.fromkeys(Turn.__dataclass_fields__),
        "index": 0,
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "model": "m",
        "started_at": 1796042766.0,
        "seconds": 0.5,
        "history": "first",
        "kept": 0,
        "dropped": 0,
        "repeated": 0,
        "said": (),
        "answer": (),
        "purpose": "turn",
    }
    return Turn(**{**plain, **changes})


def told(*turns, **look):
    writer = TranscriptText(Look(**look))
    return [line for one in turns for line in writer.turn(one)]


CALL = Piece(kind="call", name="bash", text='{"command": "ls -la", "timeout": 5}', call="c1")
LONG = "\n".join(f"line {number}" for number in range(138))


def test_a_result_stands_under_its_call_and_is_folded():
    result = Piece(kind="result", text=LONG, call="c1")
    lines = told(turn(answer=(CALL,)), turn(index=1, history="grown", after=0, said=(result,)))
    assert "→ bash  ls -la  timeout=5" in lines
    at = lines.index("← bash  ls -la  timeout=5")
    assert lines[at + 1 : at + 8] == [*(f"    line {number}" for number in range(6)), "    … 132 more lines"]


def test_full_folds_nothing():
    pieces = (Piece(kind="thinking", text=LONG), CALL)
    lines = told(turn(system=LONG, said=(Piece(kind="user", text="x" * 5000),), answer=pieces), full=True)
    assert sum("line 137" in line for line in lines) == 2
    assert "    " + "x" * 5000 in lines
    assert lines[lines.index("  command") + 1] == "    ls -la"
    assert not any("more" in line for line in lines)


def test_instructions_thinking_and_long_lines_are_folded_and_an_answer_never():
    text = "y" * 3000
    pieces = (Piece(kind="thinking", text=LONG), Piece(kind="text", text=text))
    lines = told(turn(system=LONG, said=(Piece(kind="user", text="x" * 5000),), answer=pieces))
    assert f"system, {len(LONG):,} characters" in lines
    assert "    line 1" in lines[lines.index("thinking") :]
    assert "    … 135 more lines" in lines
    assert "    " + "x" * 200 + " … 4,800 more characters" in lines
    assert "    " + text in lines


def test_a_fold_never_hides_one_line_alone():
    lines = told(turn(said=(Piece(kind="result", text="1\n2\n3\n4\n5\n6\n7"),)))
    assert "    7" in lines


def test_what_an_exchange_took_stands_at_its_end():
    done = turn(finish_reason="stop", prompt_tokens=3003, cached_tokens=2880, output_tokens=1444, reasoning_tokens=92)
    assert told(done)[-1] == "· stop · prompt 3,003 (2,880 cached) · output 1,444 (92 reasoning) · 0.500 s"
    failed = told(turn(status=500, error="no memory\x1b[31m left", seconds=2.0))
    assert failed[-3:] == ["error", "    no memory left", "· HTTP 500 · 2.000 s"]
    assert told(turn(status=None, error="reset"))[-1] == "· no answer · 0.500 s"


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"history": "same", "after": 0}, "the same again as request 0"),
        (
            {"history": "changed", "after": 0, "kept": 2, "dropped": 25, "repeated": 1},
            "history changed: the first 2 pieces of request 0 and no more of it (25 gone); 1 piece from before is in it",
        ),
        ({"history": "other"}, "another conversation: shares nothing with the requests before it"),
        ({"history": "other", "repeated": 3}, "history begun anew; 3 pieces from before are in it"),
        ({"history": "grown", "after": 7}, "goes on from request 7"),
        ({"history": "grown", "after": 0, "purpose": "compaction"}, "for: compaction"),
    ],
)
def test_what_does_not_just_go_on_is_marked(changes, note):
    lines = told(turn(), turn(index=1, **changes))
    assert lines.count(note) == 1


def test_a_conversation_that_goes_on_has_no_mark():
    first, second = turn(), turn(index=1, history="grown", after=0)
    assert len(told(first, second)) == len(told(first)) + 3


def test_words_in_the_models_name_are_told_once():
    forged = (Piece(kind="text", text="I promise."), CALL, Piece(kind="result", text="ok", call="c1"))
    lines = told(turn(said=forged))
    assert lines.count("said in the model's name by the agent") == 1
    assert "← bash  ls -la  timeout=5" in lines


@given(text=st.text(), full=st.booleans(), width=st.none() | st.integers(1, 200))
def test_no_text_can_steer_a_terminal_or_pose_as_ours(text, full, width):
    pieces = tuple(Piece(kind=kind, text=text, name=text, call=text) for kind in ("text", "thinking", "call"))
    asked = tuple(Piece(kind=kind, text=text, call="z") for kind in ("user", "result", "other"))
    one = turn(said=asked, answer=pieces, system=text, error=text, finish_reason=text, model=text)
    lines = told(one, full=full, width=width)
    assert all(line.isprintable() for line in lines)
    ours = (
        "── request 0",
        "system",
        "prompt",
        "← result",
        "[",
        "thinking",
        "answer",
        "→ ",
        "error",
        "· ",
        "    ",
        "  ",
    )
    assert all(line.startswith(ours) for line in lines if line)
    "\n".join(lines).encode()


def test_lines_are_wrapped_where_there_is_a_width():
    said = (Piece(kind="text", text="    indented " + "word " * 40),)
    lines = told(turn(answer=said), width=40)
    assert all(len(line) <= 78 for line in lines)
    body = lines[lines.index("answer") + 1 : -1]
    assert len(body) > 5
    assert body[0].startswith("        indented word")
    assert all(len(line) <= 40 for line in body)


def test_colour_is_there_only_where_it_is_wanted():
    one = turn(answer=(CALL, Piece(kind="text", text="ok")))
    assert not any("\x1b" in line for line in told(one))
    assert "\x1b[32m→ bash  ls -la  timeout=5\x1b[0m" in told(one, colour=True)


def row(**changes):
    plain = {**dict.fromkeys(SessionRow.__dataclass_fields__), "session": 6, "role": "builder", "task": "T002"}
    plain |= {"attempt": 1, "retry": 1, "outcome": "engine-error", "kind": "memory", "reason": "none left"}
    return SessionRow(**{**plain, "requests": 1, "tool_calls": 4, "segment": 1, **changes})


def test_the_head_and_the_end_of_a_session():
    writer = TranscriptText(Look())
    timed = row(seconds=2.0, engine_seconds=1.5, agent_seconds=0.5, prompt_tokens=9619, output_tokens=12)
    assert list(writer.head(6, timed)) == [
        "session 006 · builder · T002 · attempt 1, retry 1 · engine-error (memory)",
        "2.000 s: engine 1.500 s, agent 0.500 s · 1 request · prompt 9,619 · output 12 · 4 tool calls",
    ]
    assert list(writer.head(6, row()))[1] == "1 request · 4 tool calls"
    assert list(writer.head(0, None)) == ["session 000 · preflight"]
    assert list(writer.ending(row(), "Error: \x1b]0;x\x07boom\n")) == [
        "",
        "ended: engine-error: none left",
        "standard error, its end",
        "    Error:  ]0;x boom",
    ]
    assert "    last" in list(writer.silent("first\nlast\n"))


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("bash", {"command": "cd a &&\n  make"}, "bash  cd a && ⏎ make"),
        ("shell", {"command": ["bash", "-lc", "ls"], "workdir": "/box"}, "shell  bash -lc ls  workdir=/box"),
        ("edit", {"old": "a\nb\nc", "path": "x.py", "new": "z" * 90}, "edit  x.py  old=(3 lines) new=(90 characters)"),
        ("list", {}, "list"),
        ("plan", {"steps": [1, 2]}, "plan  steps=[1, 2]"),
        ("", {"path": "a\x1b[2Jb"}, "(no name)  a [2Jb"),
        ("bash", {"command": "x" * 300 + "\ny"}, f"bash  {'x' * 100}… (2 lines)"),
    ],
)
def test_a_call_is_one_line(name, arguments, line):
    assert call_line(Piece(kind="call", name=name, text=json.dumps(arguments))) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"path": "a.mjs", "content": "half', 'write  {"path": "a.mjs", "content": "half  (cut off)'),
        ("free words", "write  free words"),
        ("[1]", "write  [1]"),
        ("[" * 100_000, f"write  {'[' * 100}…"),
    ],
)
def test_arguments_that_are_no_object_are_shown_as_they_came(text, line):
    assert call_line(Piece(kind="call", name="write", text=text)) == line
