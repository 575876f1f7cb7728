"""Is an agent from PyPI installed, in the version that its list of requirements names? It lies in `.agents/<name>`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.errors import FileFormatError, MissingPartError
from bench.spec import REPOSITORY


@dataclass(frozen=True)
class InstalledDistribution:
    """One distribution that `make agent-<agent>` installs from `fixtures/agents/<agent>/requirements.txt`."""

    agent: str
    package: str
    checkout: Path = REPOSITORY

    @property
    def modules(self) -> Path:
        """The folder that a box shows, for `sys.path`."""
        return self.checkout / ".agents" / self.agent / "packages"

    @cached_property
    def version(self) -> str:
        """The one version that is installed and tested. Raises FileFormatError where the list is damaged."""
        place = self.checkout / "fixtures" / "agents" / self.agent / "requirements.txt"
        try:
            lines = place.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise FileFormatError(place, f"cannot be read ({error})") from error
        found = next((line.split("==")[1].strip() for line in lines if line.startswith(f"{self.package}==")), None)
        if not found:
            raise FileFormatError(place, f"it names no version of {self.package}")
        return found

    def check(self) -> None:
        """Raises MissingPartError where it is not installed, or in another version."""
        how = f"run: make agent-{self.agent}"
        stem = re.sub(r"[-_.]+", "_", self.package)
        found = sorted(path.name for path in self.modules.glob(f"{stem}-*.dist-info"))
        if not found:
            raise MissingPartError(f"the agent {self.agent} is not installed; {how}")
        version = found[-1].removeprefix(f"{stem}-").removesuffix(".dist-info")
        if version != self.version:
            raise MissingPartError(
                f"the agent {self.agent} is installed as {version[:40]}, {self.version} is wanted; "
                f"rm -r {self.modules.parent}, then {how}"
            )
