"""The box on macOS: a `sandbox-exec` profile. Weaker than bubblewrap: no process or file system of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from bench.contracts import BoxedProcess, BoxPlan, Isolation, Mount, RelayAddress
from bench.errors import HarnessError, MissingPartError
from bench.sandbox.interpreters import Interpreters, find_interpreters
from bench.sandbox.process_tree import start_plan
from bench.sandbox.resource_limits import with_ulimit
from bench.sandbox.visible_trees import refuse_secrets

_SYSTEM_TREES = ("/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/private/var/db/timezone")
_SYSTEM_FILES = ("/", "/private/etc/localtime", "/private/etc/protocols", "/private/etc/services", "/private/etc/hosts")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper")
_HOMES = ("/Users", "/private/var/root", "/Volumes")

_BASE = """\
(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.logd"))
(allow file-read-metadata)
"""


def profile(
    *,
    readable: Iterable[Path],
    writable: Iterable[Path],
    secret: Iterable[Path],
    interpreters: Interpreters,
    port: int | None,
) -> str:
    """The profile's text; of two rules that speak of one path the later holds.

    Reading: the system, then no home and no secret, then the interpreters and what the plan shows (which may lie in
    a home). Writing: `writable` alone. Network: one port of this machine, or nothing.
    """
    lines = [
        _rule("allow file-read*", _trees(_SYSTEM_TREES), _files((*_SYSTEM_FILES, *_DEVICES))),
        _rule("allow file-write-data", _files(_DEVICES)),
        _rule("deny file-read*", _trees((*_HOMES, *secret))),
        # The names of folders on the way to what is allowed; their contents stay closed.
        _rule("allow file-read-metadata", _trees(_HOMES)),
        _rule("allow file-read*", _trees((interpreters.python_prefix, interpreters.node, *readable, *writable))),
    ]
    if written := _trees(writable):
        lines.append(_rule("allow file-write*", written))
    if port is not None:
        lines.append(f'(allow network-outbound (remote ip "localhost:{port}"))')
    return _BASE + "\n".join(lines) + "\n"


class SeatbeltBox:
    """Implements `contracts.Box`. Paths are the real ones, the relay is reached by TCP."""

    name = "sandbox-exec (weaker isolation, not run here)"
    isolation: Isolation = "weaker"

    def __init__(self, program: str, interpreters: Interpreters, secret: tuple[Path, ...]) -> None:
        refuse_secrets(secret, [Path(tree) for tree in _SYSTEM_TREES] + [interpreters.python_prefix])
        self._program = program
        self._interpreters = interpreters
        self._secret = secret

    def project_path(self, plan_project: Path) -> str:
        return str(plan_project.resolve())

    def mount_path(self, mount: Mount) -> str:
        return str(mount.source.resolve())

    def relay_url(self, relay: RelayAddress) -> str:
        return f"http://127.0.0.1:{relay.port}"

    def command(self, plan: BoxPlan, scratch: Path) -> list[str]:
        """The whole command line of a plan whose HOME and TMPDIR are `scratch`."""
        shown = [(mount.source, mount.writable) for mount in plan.mounts]
        if plan.project is not None:
            shown.append((plan.project, plan.writable))
        refuse_secrets(self._secret, [path for path, _ in shown])
        text = profile(
            readable=[path for path, _ in shown],
            writable=[scratch, *(path for path, writable in shown if writable)],
            secret=self._secret,
            interpreters=self._interpreters,
            port=plan.relay.port if plan.relay else None,
        )
        return [self._program, "-p", text, *with_ulimit(plan.limits, plan.argv)]

    def start(
        self,
        plan: BoxPlan,
        *,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
    ) -> BoxedProcess:
        """Starts the command. Raises HarnessError off the main thread."""
        node, python = self._interpreters.node, self._interpreters.python
        return start_plan(
            lambda scratch: self.command(plan, scratch),
            plan,
            path=f"{node.parent}:{python.parent}:/usr/bin:/bin",
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )


def open_seatbelt(secret: tuple[Path, ...]) -> SeatbeltBox:
    """Raises MissingPartError when macOS's `sandbox-exec` is not there or refuses a profile."""
    program = shutil.which("sandbox-exec")
    if program is None:
        raise MissingPartError(
            "sandbox-exec, a part of macOS, is not on PATH; `--unsafe-no-sandbox` runs without a box, "
            "unprotected, and is written into the record"
        )
    box = SeatbeltBox(program, find_interpreters(), secret)
    with tempfile.TemporaryDirectory(prefix="runcard-box-") as scratch:
        command = box.command(BoxPlan(argv=("/usr/bin/true",), project=None), Path(scratch))
        proof = subprocess.run(command, cwd=scratch, env={}, capture_output=True, text=True, check=False, timeout=30)
    if proof.returncode != 0:
        raise MissingPartError(
            f"sandbox-exec does not work here: {proof.stderr.strip()[:1000]}\n"
            "`--unsafe-no-sandbox` runs without a box, unprotected, and is written into the record"
        )
    return box


def _rule(what: str, *filters: list[str]) -> str:
    return "\n  ".join([f"({what}", *(line for group in filters for line in group)]) + ")"


def _trees(paths: Iterable[Path | str]) -> list[str]:
    return [f"(subpath {_quoted(path)})" for path in paths]


def _files(paths: Iterable[Path | str]) -> list[str]:
    return [f"(literal {_quoted(path)})" for path in paths]


def _quoted(path: Path | str) -> str:
    """A path as the profile language writes strings: real (the kernel compares real paths), no way out of the quotes."""
    text = str(Path(path).resolve()) if isinstance(path, Path) else path
    if any(not character.isprintable() for character in text):
        raise HarnessError(f"a sandbox profile cannot name the path {text!r}")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
