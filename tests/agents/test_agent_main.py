"""The embedded agent's own file: alone, old Pythons, its tools, its command line."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.builtin import agent_main
from bench.agents.builtin.adapter import AGENT_FILE


def use(project, name, arguments):
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return agent_main.run_tool(str(project.resolve()), {"id": "c", "name": name, "arguments": raw})


def test_it_is_one_file_of_the_standard_library_for_python_3_9():
    tree = ast.parse(AGENT_FILE.read_text(), feature_version=(3, 9))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    assert names <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("argv", "said"),
    [([], "--url"), (["--url", "ftp://x", "--model", "m", "--max-tokens", "9", "--max-requests", "1"], "unix:///PATH")],
)
def test_a_wrong_call_is_refused(argv, said):
    done = subprocess.run([sys.executable, "-I", "-S", AGENT_FILE, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


@pytest.fixture
def outside(tmp_path, project):
    (tmp_path / "secret.txt").write_text("secret")
    (project / "link.txt").symlink_to(tmp_path / "secret.txt")
    (project / "folder").symlink_to(tmp_path)
    return tmp_path / "secret.txt"


@pytest.mark.parametrize("path", ["../secret.txt", "link.txt", "folder/secret.txt", "a/../../secret.txt", "ABSOLUTE"])
def test_paths_stay_in_the_project(project, outside, path):
    path = str(outside) if path == "ABSOLUTE" else path
    for name, more in (("read", {}), ("write", {"content": "x"}), ("edit", {"old": "secret", "new": "x"})):
        ok, said = use(project, name, {"path": path, **more})
        assert (ok, said) == (False, f"error: {path} lies outside the project; only files inside it can be used")
    assert outside.read_text() == "secret"


@given(st.text(max_size=30) | st.lists(st.sampled_from(["..", ".", "a", "", "\x00", "~"])).map("/".join))
def test_no_path_gets_out(path):
    try:
        real = agent_main.inside("/nowhere/project", path)
    except (agent_main.ToolFault, ValueError):
        return
    assert real == "/nowhere/project" or real.startswith("/nowhere/project/")


def test_absolute_paths_into_the_project_are_fine(project):
    assert use(project, "write", {"path": str(project / "a.txt"), "content": "x"})[0]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("fly", {}, "there is no tool 'fly'; tools: read, write, edit, bash"),
        ("read", '{"path": "a', 'the arguments are no JSON object: {"path": "a'),
        ("read", "[1]", "the arguments are no JSON object: [1]"),
        ("read", "", "path is missing; parameters of read: path offset? limit?"),
        ("write", {"path": "a.txt"}, "content is missing; parameters of write: path content"),
        ("read", {"path": 7}, "path must be a string"),
        ("read", {"path": "a.txt", "offset": True}, "offset must be a whole number"),
        ("read", {"path": "none.txt"}, "No such file or directory"),
        ("read", {"path": "."}, ". is no regular file"),
        ("read", {"path": "fifo"}, "fifo is no regular file"),
        ("write", {"path": "fifo", "content": ""}, "fifo is no regular file"),
        ("read", {"path": "binary"}, "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        ("read", {"path": "a\x00b"}, None),
        ("write", {"path": "b.txt", "content": "\ud800"}, None),
        ("edit", {"path": "a.txt", "old": "one", "new": ""}, "old occurs 2 times in a.txt; it must occur exactly once"),
        ("edit", {"path": "a.txt", "old": "", "new": ""}, "old occurs 0 times in a.txt; it must occur exactly once"),
    ],
)
def test_what_a_tool_cannot_do_is_told_to_the_model(project, name, arguments, said):
    (project / "a.txt").write_text("one one")
    (project / "binary").write_bytes(b"\xff\x00")
    os.mkfifo(project / "fifo")
    ok, result = use(project, name, arguments)
    assert not ok
    assert result == f"error: {said}" if said else result.startswith("error: ")


def test_read_shows_lines_and_says_what_it_left_out(project):
    (project / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert use(project, "read", {"path": "a.txt", "offset": 9}) == (True, "line 9\nline 10\n")
    assert use(project, "read", {"path": "a.txt", "offset": 2, "limit": 1}) == (True, "line 2\n\n[lines 2-2 of 10]")
    (project / "long.txt").write_text("x" * 99 + "\n" + "y" * 40_000)
    ok, text = use(project, "read", {"path": "long.txt"})
    assert ok
    assert len(text) < 30_100
    assert text.endswith("[cut in line 2 of 2; use offset and limit]")


def test_line_ends_of_other_systems_are_kept(project):
    (project / "a.txt").write_bytes(b"one\r\ntwo\x0b\r\n")
    assert use(project, "read", {"path": "a.txt"}) == (True, "one\r\ntwo\x0b\r\n")
    use(project, "edit", {"path": "a.txt", "old": "one", "new": "1"})
    assert (project / "a.txt").read_bytes() == b"1\r\ntwo\x0b\r\n"


def test_bash_tells_output_and_exit_code(project):
    assert use(project, "bash", {"command": "pwd; echo oh >&2"}) == (True, f"{project.resolve()}\noh\n")
    assert use(project, "bash", {"command": "echo no; exit 3"}) == (False, "no\n\n[exit code 3]")
    assert use(project, "bash", {"command": "cat"}) == (True, "")


def test_bash_cuts_long_output_in_its_middle(project):
    ok, text = use(project, "bash", {"command": "echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo end"})
    assert ok
    assert len(text) < 30_100
    assert text.startswith("begin\n")
    assert text.endswith("end\n")
    assert "[... 970,010 bytes left out ...]" in text


@pytest.mark.parametrize("command", ["sleep 300", "exec >&- 2>&-; sleep 300", "sleep 300 & wait", "yes"])
def test_bash_is_killed_with_its_group_when_its_time_is_up(project, command):
    ok, text = use(project, "bash", {"command": f"echo $$ > pid; {command}", "timeout": 1})
    assert (ok, text[-19:]) == (False, "\n[killed after 1 s]")
    assert not living_group(int((project / "pid").read_text()))


def test_children_left_in_the_background_end_with_the_command(project):
    ok, text = use(project, "bash", {"command": "echo $$ > pid; sleep 300 & echo started"})
    assert (ok, text) == (True, "started\n")
    assert not living_group(int((project / "pid").read_text()))


def living_group(group):
    """Processes of a process group that still run. Killed orphans are given the moment that their death takes."""
    members = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return psutil.wait_procs(members, timeout=5)[1]


def test_it_is_out_of_reach_of_its_tools(engine, wire, project):
    """On Linux a process that is not dumpable keeps its /proc/PID/fd, its output among them, from its own user."""
    engine.replies = [wire.says("Done.")]
    code = (
        "import ctypes, runpy, sys\n"
        "try:\n"
        "    runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) if sys.platform == 'linux' else 0\n"
        "    print(end.code, dumpable, file=sys.stderr)\n"
    )
    argv = [str(AGENT_FILE), "--url", f"http://127.0.0.1:{engine.address.port}", "--model", "m"]
    argv += ["--max-tokens", "9", "--max-requests", "3"]
    code = f"import sys; sys.argv = {argv!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], input=b"Go.", cwd=project, capture_output=True, check=True
    )
    assert done.stderr == b"0 0\n"


def test_pieces_of_tool_calls_are_put_together_whatever_the_engine_leaves_out():
    answer = agent_main.Answer()
    parts = [
        {"id": "a", "function": {"name": "read", "arguments": '{"path"'}},
        {"function": {"arguments": ': "x"}'}},
        {"id": "b", "function": {"name": "bash", "arguments": "{cut"}},
        {"index": 7, "function": None},
        "nonsense",
    ]
    for part in parts:
        answer.add({"choices": [{"delta": {"tool_calls": [part]}}]})
    assert [(call["id"], call["name"], call["arguments"]) for call in answer.calls] == [
        ("a", "read", '{"path": "x"}'),
        ("b", "bash", "{cut"),
    ]
    repeated = [call["function"]["arguments"] for call in answer.message()["tool_calls"]]
    assert repeated == ['{"path": "x"}', "{}"]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda v: (
            st.lists(v)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "message", "tool_calls", "function", "usage", "id", "index", "error"]
                ),
                v,
            )
        ),
    )
)
def test_no_json_of_an_engine_breaks_it(piece):
    answer = agent_main.Answer()
    answer.add(piece)
    json.dumps(answer.message())
