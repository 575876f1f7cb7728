"""The project that agents work on, held equal to one of the harness's own snapshots between steps."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.errors import EvidenceError, HarnessError, UsageError
from bench.records.snapshot import BlobStore, Snapshot, load, restore, save, take

_LISTED = 50
_HISTORIES = {".git", ".hg", ".svn", ".jj"}
"""Where version control keeps earlier and later states of files: a starter's answers may stand there."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What a step left behind, once the workspace is a snapshot again."""

    digest: str
    changed: tuple[str, ...]
    """Paths that the step added, changed or removed, whether they were kept or not; the first 50."""

    rejected: tuple[str, ...]
    """What no snapshot can hold and was removed: `path: reason`; the first 50."""


class Workspace:
    """A project folder with its snapshots. `project` is what a step sees; only `begin` and `go_back` replace it whole."""

    def __init__(self, *, project: Path, blobs: Path, snapshots: Path) -> None:
        self.project = project
        self._blobs = BlobStore(blobs)
        self._snapshots = snapshots
        self._current: Snapshot | None = None

    @property
    def current(self) -> Snapshot:
        """The snapshot that the project equals. Only after `begin` or `go_back`."""
        if self._current is None:
            raise HarnessError(f"{self.project}: the workspace was used before it was opened")
        return self._current

    def begin(self, starter: Path | None) -> str:
        """Makes the project a copy of the workload's starter files, or empty. Returns its digest.

        Raises UsageError for a starter with files that cannot be copied, or with the history of a repository.
        """
        with tempfile.TemporaryDirectory(prefix="runcard-empty-") as nothing, self._told():
            first = take(starter or Path(nothing), self._blobs)
        if first.rejected:
            worst = first.rejected[0]
            raise UsageError(f"{starter}: the starter file {worst.path} cannot be copied: {worst.reason}")
        if kept := next((file.path for file in first.files if _is_history(file.path)), None):
            raise UsageError(
                f"{starter}: the starter file {kept} is history of a repository, which may hold answers; remove it"
            )
        self._become(first)
        return first.digest

    def go_back(self, digest: str) -> None:
        """Makes the project exactly an earlier snapshot. Raises EvidenceError where that is missing or damaged."""
        self._become(load(self._snapshots, digest))

    def settle(self, *, keep: bool) -> Settled:
        """Takes what a step left. With `keep` it becomes the workspace, otherwise the project goes back.

        Either way the project equals a snapshot afterwards: links, pipes and what is over the quota are gone.
        """
        before = self.current
        with self._told():
            self.project.chmod(0o755)  # whatever the agent made of it
            found = take(self.project, self._blobs)
        changed = _changed(before, found)
        after = found if keep else before
        if found.rejected or after.digest != found.digest:
            self._become(after)
        elif changed:
            with self._told():
                save(after, self._snapshots)
            self._current = after
        return Settled(
            digest=after.digest,
            changed=changed[:_LISTED],
            rejected=tuple(f"{item.path}: {item.reason}" for item in found.rejected[:_LISTED]),
        )

    def read(self, path: str, *, at_most_bytes: int) -> bytes | None:
        """A file of the current snapshot, one byte more than asked for where it is longer; None: no such regular file."""
        file = self.current.file(path)
        return None if file is None else self._blobs.get(file.sha256)[: at_most_bytes + 1]

    def _become(self, snapshot: Snapshot) -> None:
        with self._told():
            save(snapshot, self._snapshots)
            restore(snapshot, self._blobs, self.project)
        self._current = snapshot

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EvidenceError(
                f"{error.filename or self.project}: a snapshot cannot be taken or put back ({error.strerror}); "
                "mend that and go on with --resume"
            ) from error


def _is_history(path: str) -> bool:
    """Whether a file belongs to a repository, checked out (`.git/`, or a file `.git` that names one) or bare."""
    parts = path.lower().split("/")
    return any(part in _HISTORIES for part in parts) or any(part.endswith(".git") for part in parts[:-1])


def _changed(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    old = {file.path: (file.sha256, file.executable) for file in before.files}
    new = {file.path: (file.sha256, file.executable) for file in after.files}
    return tuple(sorted(path for path in {*old, *new} if old.get(path) != new.get(path)))
