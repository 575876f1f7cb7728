"""The docs cannot go stale where a machine can tell: links, paths, commands, options, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from bench.plugin import EXIT_BLOCKED, EXIT_BROKE
from bench.spec import REPOSITORY, workload_ids

PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def of_page(path):
    return path.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert not target.startswith(("http:", "https:")), f"{target}: pages hold without a network"
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_every_path_that_a_page_names_exists(page):
    named = re.findall(r"`((?:bench|cases|hidden|fixtures|tests|docs|bin)/[^`\s]*)`", page.read_text(encoding="utf-8"))
    for path in named:
        if "<" not in path and "*" not in path and "NNN" not in path:
            assert (REPOSITORY / path).exists(), path


def test_every_make_target_that_the_readme_names_exists():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"(?:^|`|\n)make ([a-z-]+)", README)):
        rules = (target, f"{target.partition('-')[0]}-%")
        assert any(re.search(rf"^{re.escape(rule)}:", makefile, re.MULTILINE) for rule in rules), target


def test_the_readme_names_every_workload_script_and_exit_code():
    for workload in workload_ids():
        assert f"`{workload}`" in README
        for script in (REPOSITORY / "fixtures" / "scripts" / workload).glob("*/script.yaml"):
            assert f"`{script.parent.name}`" in README
    for code in (0, 1, 2, 4, EXIT_BLOCKED, EXIT_BROKE):
        assert f"\n| {code} |" in README


def test_every_option_that_the_readme_names_exists_and_has_help():
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "bench", "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    ours = shown[shown.index("runcard: benchmark") :]
    for option in set(re.findall(r"(?<![\w=-])(--[a-z][a-z-]+)", README)) - {
        "--sessions",
        "--session",
        "--full",
        "--requests",
        "--json",
        "--agent-sessions",
        "--engine-log",
        "--metrics",
    }:
        assert option in ours, option


@pytest.mark.parametrize(
    "command",
    [[], ["show"], ["list"], ["audit"], ["ingest"], ["doctor"]],
    ids=lambda words: " ".join(words) or "runcard",
)
def test_every_command_teaches(command):
    done = subprocess.run(
        [sys.executable, "-m", "bench.cli", *command, "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "usage: runcard" in done.stdout


def test_the_tree_says_nothing_of_the_machine_it_was_built_on():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split()
    pattern = re.compile(r"/(?:root|home)/[a-z.]")
    for name in listed:
        path = REPOSITORY / name
        if (
            path.exists()
            and path.suffix in {".py", ".md", ".yaml", ".toml", ".mjs", ".html"}
            and name != "tests/test_docs.py"
        ):
            found = pattern.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{name}: {found}"
