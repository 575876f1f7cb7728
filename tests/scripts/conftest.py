from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import playwright
import pytest

from bench.engines.embedded.script_file import load_script
from bench.engines.embedded.script_play import Intent, Script
from bench.spec import REPOSITORY

SCRIPTS = REPOSITORY / "fixtures" / "scripts" / "prefix-cache"
NODE = Path(playwright.__file__).parent / "driver" / "node"


class Project:
    """A folder that a script's intents are carried out in, with the one Node on its PATH."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder = folder
        self._environment = {"PATH": f"{tools}:/usr/bin:/bin"}

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def carry_out(self, intent: Intent) -> None:
        """Writes and edits; of commands only those that change the project."""
        file = self.folder / intent.path
        if intent.verb == "write":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(intent.text, encoding="utf-8")
        elif intent.verb == "edit":
            before = file.read_text(encoding="utf-8")
            assert before.count(intent.old) == 1, (
                f"{intent.path}: {intent.old!r} stands {before.count(intent.old)} times"
            )
            file.write_text(before.replace(intent.old, intent.new), encoding="utf-8")
        elif intent.verb == "read":
            assert file.is_file(), f"{intent.path} is read before it is written"
        elif intent.command.startswith("chmod"):
            assert self.run(intent.command).returncode == 0

    def evaluate(self, javascript: str) -> Any:
        """The value of `javascript`, the body of an async function that sees `createCache`, `defaults` and `run`."""
        program = f"""
            import {{ createCache, defaults }} from './model.mjs';
            const run = (name, n) => Array.from({{ length: n }}, (_, index) => name + index);
            const value = await (async () => {{ {javascript} }})();
            console.log(JSON.stringify(value));
        """
        done = subprocess.run(
            [str(NODE), "--input-type=module", "--eval", program],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    tools = tmp_path_factory.mktemp("tools")
    (tools / "node").symlink_to(NODE)
    return lambda: Project(tmp_path_factory.mktemp("project"), tools)


@pytest.fixture(scope="session")
def script() -> Callable[[str], Script]:
    return lambda name: load_script(SCRIPTS / name)


@pytest.fixture(scope="session")
def reference(new_project: Callable[[], Project]) -> Project:
    """The reference's files in a project of their own."""
    project = new_project()
    source = SCRIPTS / "sound" / "files"
    for file in source.rglob("*"):
        if file.is_file():
            target = project.folder / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    return project
