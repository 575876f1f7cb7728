"""The house's rules that no other tool holds: ceilings of files and functions, one basename once, no junk rooms."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = sorted((REPOSITORY / "bench").rglob("*.py"))
FILE_LINES = 400
FUNCTION_LINES = 60


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_files_and_functions_stay_under_their_ceilings(source):
    text = source.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno + 1 <= FUNCTION_LINES, f"{source.name}: {node.name}"


def test_basenames_are_unique():
    repeated = [
        name
        for name, count in Counter(path.name for path in SOURCES).items()
        if count > 1 and name not in {"__init__.py", "__main__.py"}
    ]
    assert repeated == []


def test_test_files_have_unique_names():
    names = Counter(path.name for path in (REPOSITORY / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_there_is_no_junk_room():
    assert [path for path in SOURCES if path.stem in {"utils", "util", "helpers", "common", "misc"}] == []


def test_every_module_says_what_it_is():
    silent = [
        path.relative_to(REPOSITORY).as_posix()
        for path in SOURCES
        if path.read_text(encoding="utf-8").strip()
        and ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert silent == []


@pytest.mark.parametrize("form", ["NotImplementedError", "except:", "shell=True"])
def test_forms_that_hide_faults_do_not_stand_in_the_harness(form):
    standing = [
        path.relative_to(REPOSITORY).as_posix()
        for path in SOURCES
        if form in path.read_text(encoding="utf-8") and path.name != "agent_main.py"
    ]
    assert standing == []


def test_importing_the_plugin_stays_light():
    """What `--collect-only` pays for must not include pydantic, playwright or the run itself."""
    code = (
        "import sys, bench.plugin, bench.spec; "
        "print([name for name in ('pydantic', 'playwright', 'rich', 'bench.run', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert done.stdout.strip() == "[]"
