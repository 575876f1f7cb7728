"""`--unsafe-no-sandbox`: the same commands with no isolation at all, for machines without a box."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

from bench.contracts import BoxedProcess, BoxPlan, Isolation, Mount, RelayAddress
from bench.sandbox.interpreters import Interpreters
from bench.sandbox.process_tree import start_plan
from bench.sandbox.resource_limits import with_ulimit


class UnboxedBox:
    """Implements `contracts.Box`: real paths, the relay by TCP, a clean environment, limits, and an end that finds all.

    A program that means to can read, write and reach whatever the harness's user can.
    """

    name = "none"
    isolation: Isolation = "none"

    def __init__(self, interpreters: Interpreters) -> None:
        self._path = ":".join((str(interpreters.node.parent), str(interpreters.python.parent), "/usr/bin:/bin"))

    def project_path(self, plan_project: Path) -> str:
        return str(plan_project.resolve())

    def mount_path(self, mount: Mount) -> str:
        return str(mount.source.resolve())

    def relay_url(self, relay: RelayAddress) -> str:
        return f"http://127.0.0.1:{relay.port}"

    def start(
        self,
        plan: BoxPlan,
        *,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
    ) -> BoxedProcess:
        """Starts the command. Raises HarnessError off the main thread."""
        return start_plan(
            lambda _: [*_with_harness(), *with_ulimit(plan.limits, plan.argv)],
            plan,
            path=self._path,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )


def _with_harness() -> list[str]:
    """Where util-linux is there, the command ends with the harness, however that one ends."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
