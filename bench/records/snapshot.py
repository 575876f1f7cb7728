"""A project as data: its regular files with digests, taken without following anything, stored once, put back exactly.

The tree is untrusted: an agent may still hold open descriptors, may have planted links, pipes, sparse giants or odd
names. Every name is opened relative to its folder's descriptor with O_NOFOLLOW, and only regular files with one link
are taken; the rest is listed with the reason.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.errors import EvidenceError

_AND_MORE = "…"


@dataclass(frozen=True, kw_only=True)
class Quota:
    files: int = 5_000
    file_bytes: int = 64_000_000
    total_bytes: int = 256_000_000
    depth: int = 24


@dataclass(frozen=True, kw_only=True)
class SnapshotFile:
    path: str
    """Relative, `/` between parts."""

    sha256: str
    bytes: int
    executable: bool


@dataclass(frozen=True, kw_only=True)
class Rejected:
    path: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    digest: str
    """SHA-256 over the sorted list of files; equal trees have equal digests."""

    files: tuple[SnapshotFile, ...]
    rejected: tuple[Rejected, ...]

    def file(self, path: str) -> SnapshotFile | None:
        return next((file for file in self.files if file.path == path), None)


class BlobStore:
    """Contents by SHA-256, each stored once and compressed, under `folder/ab/cdef…`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _place(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256[2:]

    def put(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        place = self._place(sha256)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, zlib.compress(content, 6))
        return sha256

    def get(self, sha256: str) -> bytes:
        """Raises EvidenceError where the content is missing or no longer has its digest."""
        try:
            content = zlib.decompress(self._place(sha256).read_bytes())
        except (OSError, zlib.error) as error:
            raise EvidenceError(f"{self._place(sha256)}: stored content cannot be read ({error})") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise EvidenceError(f"{self._place(sha256)}: stored content does not have its digest")
        return content


def take(project: Path, blobs: BlobStore, *, quota: Quota | None = None) -> Snapshot:
    """Reads the regular files below `project` into `blobs`. What cannot or must not be taken is listed, never followed."""
    walk = _Walk(blobs, quota or Quota())
    root = os.open(project, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        walk.folder(root, "", 0)
    finally:
        os.close(root)
    files = tuple(sorted(walk.files, key=lambda file: file.path))
    return Snapshot(digest=_digest(files), files=files, rejected=tuple(walk.rejected))


def restore(snapshot: Snapshot, blobs: BlobStore, target: Path) -> None:
    """Makes `target` exactly the snapshot: whatever else stood there is gone, the folder itself stays."""
    target.mkdir(parents=True, exist_ok=True)
    empty(target)
    for file in snapshot.files:
        place = target / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(blobs.get(file.sha256))
        place.chmod(0o755 if file.executable else 0o644)


def empty(folder: Path) -> None:
    """Removes all that stands in a folder, links themselves and never what they point to, closed folders included.

    The tools, not a walk of our own: an agent can make paths longer and deeper than Python's functions take.
    """
    for tool in (["chmod", "-R", "u+rwX", "--", str(folder)], ["find", str(folder), "-mindepth", "1", "-delete"]):
        subprocess.run(
            tool, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    if left := next(folder.iterdir(), None):
        raise OSError(errno.ENOTEMPTY, "cannot be removed", str(left))


def save(snapshot: Snapshot, folder: Path) -> None:
    """Stores the list of files as `folder/<digest>.json`; contents are in the blob store already."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{snapshot.digest}.json"
    if not place.exists():
        write_atomically(place, json.dumps(asdict(snapshot), indent=1).encode())


def load(folder: Path, digest: str) -> Snapshot:
    """Raises EvidenceError where the list is missing, damaged or does not have the digest it is named for."""
    place = folder / f"{digest}.json"
    try:
        data = json.loads(place.read_bytes())
        files = tuple(SnapshotFile(**file) for file in data["files"])
        rejected = tuple(Rejected(**item) for item in data["rejected"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise EvidenceError(f"{place}: snapshot cannot be read ({error})") from error
    if _digest(files) != digest or any(_unsafe(file.path) for file in files):
        raise EvidenceError(f"{place}: snapshot does not have its digest")
    return Snapshot(digest=digest, files=files, rejected=rejected)


def write_atomically(place: Path, content: bytes) -> None:
    """Writes a file that is either whole or not there, whatever kills us meanwhile."""
    draft = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(place)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        if isinstance(error, OSError):
            raise EvidenceError(
                f"{place}: cannot be written ({error.strerror}); make room and go on with --resume"
            ) from error
        raise


class _Walk:
    """Collects files and rejects while it goes down the tree by descriptors."""

    def __init__(self, blobs: BlobStore, quota: Quota) -> None:
        self.blobs = blobs
        self.quota = quota
        self.files: list[SnapshotFile] = []
        self.rejected: list[Rejected] = []
        self.total_bytes = 0

    def folder(self, descriptor: int, at: str, depth: int) -> None:
        for name in sorted(os.listdir(descriptor)):
            path = f"{at}{name}"
            if len(self.rejected) >= self.quota.files:
                if self.rejected[-1].path != _AND_MORE:
                    self._reject(
                        _AND_MORE, f"more than {self.quota.files:,} entries cannot be taken; the rest was not looked at"
                    )
                return
            if _unsafe(name):
                self._reject(repr(path), "a name that is not plain UTF-8 text")
                continue
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                self._entry(descriptor, name, path, status, depth)
            except OSError as error:
                self._reject(path, f"cannot be read: {error.strerror}")

    def _entry(self, descriptor: int, name: str, path: str, status: os.stat_result, depth: int) -> None:
        if stat.S_ISDIR(status.st_mode):
            if depth + 1 >= self.quota.depth:
                self._reject(path, f"more than {self.quota.depth} folders deep")
                return
            with _opened(name, descriptor, os.O_DIRECTORY) as inner:
                self.folder(inner, f"{path}/", depth + 1)
        elif stat.S_ISREG(status.st_mode):
            with _opened(name, descriptor, os.O_NONBLOCK) as inner:
                self._file(inner, path)
        else:
            self._reject(path, "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file")

    def _file(self, descriptor: int, path: str) -> None:
        status = os.fstat(descriptor)
        room = min(self.quota.file_bytes, self.quota.total_bytes - self.total_bytes)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            self._reject(path, "has more than one hard link")
        elif len(self.files) >= self.quota.files:
            self._reject(path, f"more than {self.quota.files:,} files")
        elif status.st_size > room:
            self._reject(path, f"{status.st_size:,} bytes are more than the {max(room, 0):,} left of the quota")
        else:
            content = _read_capped(descriptor, room)
            if content is None:
                self._reject(path, "grew past the quota while it was read")
                return
            self.total_bytes += len(content)
            self.files.append(
                SnapshotFile(
                    path=path,
                    sha256=self.blobs.put(content),
                    bytes=len(content),
                    executable=bool(status.st_mode & 0o111),
                )
            )

    def _reject(self, path: str, reason: str) -> None:
        self.rejected.append(Rejected(path=path, reason=reason))


@contextlib.contextmanager
def _opened(name: str, folder: int, flags: int) -> Iterator[int]:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_capped(descriptor: int, room: int) -> bytes | None:
    parts: list[bytes] = []
    left = room + 1
    while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return None if left <= 0 else b"".join(parts)


def _unsafe(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return path.startswith("/") or ".." in path.split("/") or any(ord(char) < 32 for char in path)


def _digest(files: tuple[SnapshotFile, ...]) -> str:
    lines = [f"{file.sha256} {'x' if file.executable else '-'} {file.path}\n" for file in files]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
