"""What a box shows and forbids, as bubblewrap's arguments: an allow-list, nothing of the host exists unless named here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bench.contracts import BoxPlan
from bench.errors import HarnessError
from bench.sandbox.interpreters import Interpreters

PROJECT = "/box"
RELAY_SOCKET = "/run/relay.sock"
_PYTHON = "/tools/python"
_SYSTEM = Path("/usr")
_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts")
"""Where programs of `/usr` look for libraries, for each other and for fonts."""

_SHARED_MEMORY_BYTES = 16_777_216


_PACKAGE_PLACES = (
    "lib/python3/dist-packages",
    "lib*/python3*/site-packages",
    "local/lib/python3*/dist-packages",
    "local/lib*/python3*/site-packages",
)
"""Below the system's folder."""


@dataclass(frozen=True, kw_only=True)
class BoxUser:
    """Who the command is inside. `by_root`: bubblewrap runs as root and the command changes its user afterwards."""

    number: int
    by_root: bool


def shown_trees(interpreters: Interpreters) -> tuple[Path, ...]:
    """Every folder of the host that all boxes show, whatever their plan."""
    links = (Path("/", name) for name in _SYSTEM_FOLDERS)
    own_folders = tuple(folder for folder in links if folder.is_dir() and not folder.is_symlink())
    settings = tuple(Path(path) for path in _SYSTEM_SETTINGS)
    return (_SYSTEM, *own_folders, *settings, interpreters.python_prefix)


def own_files(user: BoxUser, interpreters: Interpreters) -> dict[str, bytes]:
    """Files that the box gets from nowhere on the host: one user, `localhost` without a name server, `python3`."""
    number = user.number
    files = {
        "/etc/passwd": f"box:x:{number}:{number}:box:/tmp:/bin/sh\n",
        "/etc/group": f"box:x:{number}:\n",
        "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    }
    if interpreters.shared_library and not interpreters.python_prefix.is_relative_to(_SYSTEM):
        # Such a Python looks for its library where it was installed, mostly in a home, which does not exist inside.
        files["/tools/bin/python3"] = (
            f'#!/bin/sh\nLD_LIBRARY_PATH={_PYTHON}/lib exec {_python_inside(interpreters)} "$@"\n'
        )
    return {target: text.encode() for target, text in files.items()}


def box_arguments(
    plan: BoxPlan, *, user: BoxUser, interpreters: Interpreters, file_descriptors: Mapping[str, int]
) -> list[str]:
    """Arguments for a plan, without the descriptors of one start and without the command.

    `file_descriptors`: target of each of `own_files` and the descriptor that holds it.
    Raises HarnessError for a project, mount or relay that is not there, or a target that is no plain absolute path.
    """
    return [
        *_namespaces(user),
        *_environment(plan),
        *_system(),
        *_interpreters(interpreters),
        *_own_files(file_descriptors),
        *_kernel_folders(plan),
        *_project(plan),
        *_mounts(plan),
        *_relay(plan),
        *("--remount-ro", "/", "--chdir", PROJECT),
    ]


def _namespaces(user: BoxUser) -> Iterator[str]:
    yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try")
    yield from ("--hostname", "box", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    if not user.by_root:
        # Bubblewrap's own process inside would hold the command's pipes, open to everything of the same user there.
        yield "--as-pid-1"
    if user.by_root:
        # What `setpriv` needs to become the box's user, and bubblewrap to enter that user's closed project folder.
        # The user has none of them.
        for capability in ("SETUID", "SETGID", "SETPCAP", "DAC_READ_SEARCH"):
            yield from ("--cap-add", f"CAP_{capability}")
    else:
        yield from ("--unshare-user", "--disable-userns", "--uid", str(user.number), "--gid", str(user.number))


def _environment(plan: BoxPlan) -> Iterator[str]:
    variables = {
        "PATH": "/tools/bin:/usr/bin:/bin",
        "HOME": "/tmp",  # noqa: S108 - the box's own
        "TMPDIR": "/tmp",  # noqa: S108
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **plan.env,
    }
    yield "--clearenv"
    for name, value in variables.items():
        yield from ("--setenv", name, value)


def _system() -> Iterator[str]:
    yield from ("--ro-bind", str(_SYSTEM), str(_SYSTEM))
    for name in _SYSTEM_FOLDERS:
        folder = Path("/", name)
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))
    # A folder that bubblewrap makes unasked may be closed to everybody but root.
    for folder_name in ("/etc", "/run", "/tools", "/tools/bin"):
        yield from _open_folder(folder_name)
    for path in _SYSTEM_SETTINGS:
        yield from ("--ro-bind-try", path, path)


def _interpreters(found: Interpreters) -> Iterator[str]:
    if not found.python_prefix.is_relative_to(_SYSTEM):
        yield from ("--ro-bind", str(found.python_prefix), _PYTHON)
    if found.python_prefix.is_relative_to(_SYSTEM) or not found.shared_library:
        yield from ("--symlink", _python_inside(found), "/tools/bin/python3")
    yield from ("--ro-bind", str(found.node), "/tools/bin/node")
    for folder in _package_folders(found):
        yield from ("--perms", "0755", "--tmpfs", folder, "--remount-ro", folder)


def _package_folders(found: Interpreters) -> list[str]:
    """Where Python packages of this machine lie inside; a project must not lean on what another machine lacks."""
    own = [] if found.python_prefix.is_relative_to(_SYSTEM) else found.python_prefix.glob("lib/python3*/site-packages")
    inside = [f"{_PYTHON}/{folder.relative_to(found.python_prefix)}" for folder in own]
    shared = [folder for place in _PACKAGE_PLACES for folder in _SYSTEM.glob(place)]
    return [*inside, *(str(folder) for folder in shared if folder.is_dir() and not folder.is_symlink())]


def _python_inside(found: Interpreters) -> str:
    if found.python_prefix.is_relative_to(_SYSTEM):
        return str(found.python)
    return f"{_PYTHON}/{found.python.relative_to(found.python_prefix)}"


def _own_files(file_descriptors: Mapping[str, int]) -> Iterator[str]:
    for target, descriptor in file_descriptors.items():
        mode = "0555" if target.startswith("/tools/") else "0444"
        yield from ("--perms", mode, "--file", str(descriptor), target)


def _kernel_folders(plan: BoxPlan) -> Iterator[str]:
    # bubblewrap's /dev is a file system as large as half the memory: it is closed, and /dev/shm gets a size.
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--perms", "1777", "--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm")  # noqa: S108
    yield from ("--remount-ro", "/dev")
    yield from ("--perms", "1777", "--size", str(plan.limits.tmp_bytes), "--tmpfs", "/tmp")  # noqa: S108


def _project(plan: BoxPlan) -> Iterator[str]:
    if plan.project is None:
        yield from _open_folder(PROJECT)
        return
    if not plan.project.is_dir():
        raise HarnessError(f"the project of a box is no folder: {plan.project}")
    yield from ("--bind" if plan.writable else "--ro-bind", str(plan.project.resolve()), PROJECT)


def _mounts(plan: BoxPlan) -> Iterator[str]:
    for mount in plan.mounts:
        target = PurePosixPath(mount.target)
        if not target.is_absolute() or ".." in target.parts or len(target.parts) < 2:
            raise HarnessError(f"a mount needs an absolute target below /, not {mount.target!r}")
        if not mount.source.exists():
            raise HarnessError(f"a mount of a box does not exist: {mount.source}")
        yield from _parents(str(target))
        yield from ("--bind" if mount.writable else "--ro-bind", str(mount.source.resolve()), str(target))


def _relay(plan: BoxPlan) -> Iterator[str]:
    if plan.relay is not None:
        if not plan.relay.socket.is_socket():
            raise HarnessError(f"the relay of a box is not there: {plan.relay.socket}")
        yield from ("--bind", str(plan.relay.socket), RELAY_SOCKET)


def _parents(path: str) -> Iterator[str]:
    for parent in reversed(PurePosixPath(path).parents[:-1]):
        yield from _open_folder(str(parent))


def _open_folder(path: str) -> tuple[str, ...]:
    return ("--perms", "0755", "--dir", path)
