"""The folder of one doctor's decoys, and how one that a killed doctor left is known and removed.

Whoever works with such a folder holds a lock on it, which the kernel takes from the dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "runcard-doctor-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextmanager
def own_folder() -> Iterator[Path]:
    """A new folder where every user may look, gone afterwards; what doctors that were killed left is removed first."""
    remove_left()
    folder, held = _made()
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def remove_left() -> None:
    """Removes every folder of this user's doctors whose owner is dead. One that cannot be removed stays."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _open(folder) as descriptor:
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def _made() -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        with contextlib.suppress(
            FileNotFoundError
        ):  # another doctor took it for a dead one's before the lock was there
            descriptor = os.open(folder, _FOLDER)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(folder, descriptor):
                return folder, descriptor
            os.close(descriptor)


def _is_at(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), folder.lstat())
    except FileNotFoundError:
        return False


@contextmanager
def _open(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
