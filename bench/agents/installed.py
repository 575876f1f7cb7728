"""Is an agent installed, in the version that its lock file names? Agents from npm lie in `.agents/<name>`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.errors import FileFormatError, MissingPartError
from bench.spec import REPOSITORY


@dataclass(frozen=True)
class InstalledPackage:
    """One package that `make agent-<agent>` installs from `fixtures/agents/<agent>/package-lock.json`."""

    agent: str
    package: str
    program: str
    """The file that Node runs, relative to the package."""

    checkout: Path = REPOSITORY

    @property
    def modules(self) -> Path:
        """The folder that a box shows."""
        return self.checkout / ".agents" / self.agent / "node_modules"

    @property
    def program_path(self) -> str:
        """Relative to `modules`."""
        return f"{self.package}/{self.program}"

    @cached_property
    def version(self) -> str:
        """The one version that is installed and tested. Raises FileFormatError where the package file is damaged."""
        place = self.checkout / "fixtures" / "agents" / self.agent / "package.json"
        version = _read(place).get("dependencies", {}).get(self.package)
        if not isinstance(version, str):
            raise FileFormatError(place, f"it names no version of {self.package}")
        return version

    def check(self) -> None:
        """Raises MissingPartError where it is not installed, or in another version."""
        how = f"run: make agent-{self.agent}"
        place = self.modules / self.package / "package.json"
        if not place.is_file() or not (self.modules / self.program_path).is_file():
            raise MissingPartError(f"the agent {self.agent} is not installed; {how}")
        found = _read(place).get("version")
        if found != self.version:
            raise MissingPartError(
                f"the agent {self.agent} is installed as {str(found)[:40]}, {self.version} is wanted; "
                f"rm -r {self.modules.parent}, then {how}"
            )


def _read(place: Path) -> dict[str, Any]:
    try:
        data = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(place, f"cannot be read ({error})") from error
    if not isinstance(data, dict):
        raise FileFormatError(place, "it is no JSON object")
    return data
