"""An agent's own folder: made anew for every session, and what is taken from it when the session is over.

The agent can write anything there, so nothing in it is followed, executed or read past a limit.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path

from bench.errors import EvidenceError
from bench.records.snapshot import empty

KEPT_BYTES = 64_000_000
"""At most this much is kept of one file; more is damage and said so."""

_ENTRIES = 10_000
"""So many are looked at for one glob. Files stand in folders that it names, which keeps others out of the count."""

_DEPTH = 32
_WILD = re.compile(r"[*?\[]")


def make_home(home: Path, files: Mapping[str, bytes], executable: frozenset[str] = frozenset()) -> None:
    """An empty folder with these files, some of them programs. Raises EvidenceError where it cannot be written."""
    try:
        if home.is_dir() and not home.is_symlink():
            empty(home)
        else:
            home.mkdir(mode=0o700, parents=True)
        for name, content in files.items():
            place = home / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            if name in executable:
                place.chmod(0o755)
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
        found, unseen = _found(home, pattern)
        if unseen:
            said.append(f"{pattern}: {unseen}")
        if len(found) > 1:
            said.append(f"{len(found)} files are {pattern} in the agent's folder; the last is kept")
        if found and (odd := _copy(home, found[-1], evidence / name)):
            said.append(f"{pattern}: {odd}")
    return tuple(said)


def _found(home: Path, pattern: str) -> tuple[list[str], str | None]:
    """Relative paths of what a glob means, sorted, and why there may be more; of a plain path itself, if it is there."""
    parts = Path(pattern).parts
    named = list(takewhile(lambda part: not _WILD.search(part), parts[:-1]))
    if len(named) == len(parts) - 1 and not _WILD.search(parts[-1]):
        return ([pattern] if os.path.lexists(home / pattern) else []), None
    walk = _Walk(home)
    below = "/".join(named)
    return sorted(path for path in walk.files(below) if fnmatch.fnmatchcase(path, pattern)), walk.unseen


class _Walk:
    """Looks for files below a folder of the home; no link is followed, and what was not looked at is told."""

    def __init__(self, home: Path) -> None:
        self.unseen: str | None = None
        self._home = home

    def files(self, folder: str) -> Iterator[str]:
        """Relative paths of all entries below it that are no folders."""
        seen = 0
        waiting = [folder]
        while waiting:
            folder = waiting.pop()
            for name, is_folder in self._entries(folder):
                seen += 1
                if seen > _ENTRIES:
                    self.unseen = f"only the first {_ENTRIES:,} entries of the agent's folder were looked at"
                    return
                path = f"{folder}/{name}" if folder else name
                if not is_folder:
                    yield path
                elif path.count("/") < _DEPTH:
                    waiting.append(path)
                else:
                    self.unseen = f"folders deeper than {_DEPTH} in the agent's folder were not looked at"

    def _entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Names in a folder, and whether each is a folder itself; nothing where there is none."""
        try:
            descriptor = _open_below(self._home, folder, os.O_DIRECTORY)
            try:
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        yield entry.name, entry.is_dir(follow_symlinks=False)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            self.unseen = f"a folder of the agent's cannot be read ({error.strerror})"


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


def _open_below(home: Path, relative: str, kind: int = 0) -> int:
    """Opens a file, or with `kind` O_DIRECTORY a folder, step by step, so that no part of its path is a link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open(home, flags | os.O_DIRECTORY)
    *folders, name = Path(relative).parts or (".",)
    try:
        for folder in folders:
            inner = os.open(folder, flags | os.O_DIRECTORY, dir_fd=held)
            os.close(held)
            held = inner
        return os.open(name, flags | kind | os.O_NONBLOCK, dir_fd=held)
    finally:
        os.close(held)
