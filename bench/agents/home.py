"""An agent's own folder: made anew for every session, and what is taken from it when the session is over.

The agent can write anything there, so nothing in it is followed, executed or read past a limit.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.errors import EvidenceError
from bench.records.snapshot import empty

KEPT_BYTES = 64_000_000
"""At most this much is kept of one file; more is damage and said so."""

_ENTRIES = 10_000


def make_home(home: Path, files: Mapping[str, bytes]) -> None:
    """An empty folder with these files. Raises EvidenceError where it cannot be written."""
    try:
        if home.is_dir() and not home.is_symlink():
            empty(home)
        else:
            home.mkdir(mode=0o700, parents=True)
        for name, content in files.items():
            place = home / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    except OSError as error:
        raise EvidenceError(
            f"{error.filename or home}: the agent's folder cannot be written ({error.strerror}); "
            "set TMPDIR to a folder that can be"
        ) from error


def keep(home: Path, wanted: Mapping[str, str], evidence: Path) -> tuple[str, ...]:
    """Copies the wanted files (name in `evidence` -> glob) out of a home that nobody uses any more.

    Returns what was odd about them, one sentence each. Raises EvidenceError when a copy cannot be written.
    """
    said = []
    for name, pattern in wanted.items():
        found = sorted(path for path in _files(home) if fnmatch.fnmatchcase(path, pattern))
        if len(found) > 1:
            said.append(f"{len(found)} files are {pattern} in the agent's folder; the last is kept")
        if found and (odd := _copy(home, found[-1], evidence / name)):
            said.append(f"{pattern}: {odd}")
    return tuple(said)


def _files(home: Path) -> Iterator[str]:
    """Relative paths of all entries that are no folders; links are not followed."""
    seen = 0
    for folder, _, names, _ in os.fwalk(home, follow_symlinks=False, onerror=None):
        for name in names:
            seen += 1
            if seen > _ENTRIES:
                return
            yield os.path.relpath(f"{folder}/{name}", home)


def _copy(home: Path, relative: str, target: Path) -> str | None:
    """Copies one regular file, not through any link; what was odd about it, or None."""
    try:
        descriptor = _open_below(home, relative)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    with os.fdopen(descriptor, "rb") as source:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "is no regular file"
        try:
            with target.open("xb") as copy:
                left = KEPT_BYTES
                while left and (piece := source.read(min(left, 1_048_576))):
                    left -= copy.write(piece)
        except OSError as error:
            raise EvidenceError(f"{target}: cannot be written ({error.strerror})") from error
        return f"was cut at {KEPT_BYTES:,} bytes" if source.read(1) else None


def _open_below(home: Path, relative: str) -> int:
    """Opens a file step by step, so that no part of its path is a link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open(home, flags | os.O_DIRECTORY)
    *folders, name = Path(relative).parts
    try:
        for folder in folders:
            inner = os.open(folder, flags | os.O_DIRECTORY, dir_fd=held)
            os.close(held)
            held = inner
        return os.open(name, flags | os.O_NONBLOCK, dir_fd=held)
    finally:
        os.close(held)
