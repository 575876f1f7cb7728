from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.engines.embedded.chat_request import Tool
from bench.engines.embedded.script_play import Intent
from bench.engines.embedded.tool_rendering import as_shell, joined, render

WRITE = Intent(verb="write", path="src/a.py", text="print('ü')\n")
EDIT = Intent(verb="edit", path="src/a.py", old="ü", new="u")
READ = Intent(verb="read", path="src/a.py")
RUN = Intent(verb="run", command="./verify --all")

STRING = {"type": "string"}


def tool(name, *required, **properties):
    schema = {"type": "object", "properties": properties, "required": list(required or properties)}
    return Tool(name=name, parameters=schema, source={})


BUILTIN = [
    tool("read", "path", path=STRING, offset={"type": "integer"}),
    tool("write", path=STRING, content=STRING),
    tool("edit", path=STRING, old=STRING, new=STRING),
    tool("bash", "command", command=STRING, timeout={"type": "number"}),
]
EDITS_IN_A_LIST = [
    tool("read", path=STRING),
    tool("bash", command=STRING),
    tool(
        "edit",
        path=STRING,
        edits={"type": "array", "items": {"type": "object", "properties": {"oldText": STRING, "newText": STRING}}},
    ),
    tool("write", path=STRING, content=STRING),
]
LONG_NAMES = [
    tool("read_file", file_path=STRING),
    tool("write_file", file_path=STRING, content=STRING),
    tool("replace", file_path=STRING, old_string=STRING, new_string=STRING, expected_replacements={"type": "integer"}),
    tool("run_shell_command", command=STRING, description=STRING, is_background={"type": "boolean"}),
]
ONE_EDITOR = [
    tool(
        "str_replace_editor",
        "command",
        "path",
        command={"type": "string", "enum": ["view", "create", "str_replace"]},
        path=STRING,
        file_text=STRING,
        old_str=STRING,
        new_str=STRING,
    ),
    tool("execute_bash", command=STRING),
    tool("terminal", cmd=STRING),
]
OPENCODE = [
    tool("bash", "command", "description", command=STRING, timeout={"type": "number"}, description=STRING),
    tool("read", "filePath", filePath=STRING, offset={"type": "number"}, limit={"type": "number"}),
    tool("edit", "filePath", "oldString", "newString", filePath=STRING, oldString=STRING, newString=STRING),
    tool("write", content=STRING, filePath=STRING),
]
CODEX = [
    tool("exec_command", "cmd", cmd=STRING, login={"type": "boolean"}, yield_time_ms={"type": "number"}),
    tool("write_stdin", "session_id", chars=STRING, session_id={"type": "number"}),
    tool("view_image", path=STRING),
]


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (
            OPENCODE,
            [
                ("write", {"filePath": "src/a.py", "content": "print('ü')\n"}),
                ("edit", {"filePath": "src/a.py", "oldString": "ü", "newString": "u"}),
                ("read", {"filePath": "src/a.py"}),
                ("bash", {"command": "./verify --all", "description": "run ./verify --all"}),
            ],
        ),
        (
            CODEX,
            [
                ("exec_command", {"cmd": as_shell(intent).command, "yield_time_ms": 30_000})
                for intent in (WRITE, EDIT, READ, RUN)
            ],
        ),
        (
            BUILTIN,
            [
                ("write", {"path": "src/a.py", "content": "print('ü')\n"}),
                ("edit", {"path": "src/a.py", "old": "ü", "new": "u"}),
                ("read", {"path": "src/a.py"}),
                ("bash", {"command": "./verify --all"}),
            ],
        ),
        (
            EDITS_IN_A_LIST,
            [
                ("write", {"path": "src/a.py", "content": "print('ü')\n"}),
                ("edit", {"edits": [{"oldText": "ü", "newText": "u"}], "path": "src/a.py"}),
                ("read", {"path": "src/a.py"}),
                ("bash", {"command": "./verify --all"}),
            ],
        ),
        (
            LONG_NAMES,
            [
                ("write_file", {"file_path": "src/a.py", "content": "print('ü')\n"}),
                (
                    "replace",
                    {"file_path": "src/a.py", "old_string": "ü", "new_string": "u", "expected_replacements": 1},
                ),
                ("read_file", {"file_path": "src/a.py"}),
                (
                    "run_shell_command",
                    {"command": "./verify --all", "description": "run ./verify --all", "is_background": False},
                ),
            ],
        ),
        (
            ONE_EDITOR,
            [
                ("str_replace_editor", {"command": "create", "path": "src/a.py", "file_text": "print('ü')\n"}),
                ("str_replace_editor", {"command": "str_replace", "path": "src/a.py", "old_str": "ü", "new_str": "u"}),
                ("str_replace_editor", {"command": "view", "path": "src/a.py"}),
                ("terminal", {"cmd": "./verify --all"}),
            ],
        ),
    ],
)
def test_intents_find_the_offered_tools(tools, expected):
    rendered = render([WRITE, EDIT, READ, RUN], tools)
    assert [(call.name, json.loads(call.arguments)) for call in rendered.calls] == expected
    assert rendered.impossible == ()


def test_a_shell_that_takes_words():
    words = {"type": "array", "items": STRING}
    rendered = render([RUN], [tool("shell", command=words)])
    assert json.loads(rendered.calls[0].arguments) == {"command": ["bash", "-lc", "./verify --all"]}


def test_a_tool_without_the_needed_parameter_is_passed_over():
    tools = [
        tool("write", path=STRING),
        tool("edit", edits={"type": "array"}, path=STRING),
        tool("bash", command=STRING),
    ]
    assert [call.name for call in render([WRITE, EDIT], tools).calls] == ["bash", "bash"]


@pytest.mark.parametrize(
    "parameters", [{}, {"properties": None}, {"properties": {"command": 7}, "required": "command"}, {"required": [[]]}]
)
def test_odd_schemas_do_no_harm(parameters):
    strange = Tool(name="bash", parameters=parameters, source={})
    rendered = render([RUN], [strange])
    assert len(rendered.calls) + len(rendered.impossible) == 1


def test_without_a_fitting_tool_it_says_so():
    rendered = render([RUN, READ], [tool("read", path=STRING)])
    assert [call.name for call in rendered.calls] == ["read"]
    assert rendered.impossible == (RUN,)


CONTENT = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


def shell(intent, folder):
    return subprocess.run(["sh", "-c", as_shell(intent).command], cwd=folder, capture_output=True, check=False)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=CONTENT)
def test_the_shell_writes_every_character(tmp_path, text):
    path = "some folder/it's a file.txt"
    done = shell(Intent(verb="write", path=path, text=text), tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / path).read_bytes() == text.encode()
    assert shell(Intent(verb="read", path=path), tmp_path).stdout == text.encode()


def test_the_shell_edits_what_stands_there_once(tmp_path):
    file = tmp_path / "a b.txt"
    file.write_bytes(b"one 'two'\r\nthree \\n $HOME `x`\n")
    edit = Intent(verb="edit", path="a b.txt", old="'two'\r\nthree \\n", new='"2"\n$PATH')
    assert shell(edit, tmp_path).returncode == 0
    assert file.read_bytes() == b'one "2"\n$PATH $HOME `x`\n'
    again = shell(edit, tmp_path)
    assert again.returncode == 1
    assert b"the old text stands there 0 times" in again.stderr


def test_joined_calls_run_in_order_whatever_comes_of_each(tmp_path):
    intents = [
        Intent(verb="write", path="sub/a.txt", text="one\n"),
        Intent(verb="run", command="cd sub && cat a.txt; exit 3 # the end"),
        Intent(verb="edit", path="sub/a.txt", old="one", new="two"),
        Intent(verb="read", path="sub/a.txt"),
    ]
    (one,) = joined(intents, CODEX)
    assert one.verb == "run"
    done = subprocess.run(["sh", "-c", one.command], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"one\ntwo\n", b"")


def test_what_is_joined_fits_into_one_argument():
    intents = [Intent(verb="write", path=f"{number}.txt", text="ü" * 20_000) for number in range(6)]
    commands = [intent.command for intent in joined(intents, CODEX)]
    assert len(commands) == 3
    assert all(len(command.encode()) < 100_000 for command in commands)
    assert [f"> {number}.txt" in commands[number // 2] for number in range(6)] == [True] * 6


def test_nothing_to_join():
    assert joined([RUN], CODEX) == [RUN]
    assert joined([WRITE, READ], [tool("write", path=STRING, content=STRING)]) == [WRITE, READ]
