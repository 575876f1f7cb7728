"""Has what a run kept been changed behind its back? Looked at before a run is gone on with."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bench.errors import EvidenceError
from bench.records.store import read_record

_WRITTEN_ANEW = ("cases.json", "requests.jsonl", "scoring/")
_PROFILE = "engine/profile.json"
"""Made again with every record, from what is checked; the profile only where the engine is served again."""


def altered_since_record(folder: Path, *, served_anew: bool = True) -> tuple[str, ...]:
    """Files that are missing or differ from the newest record's digests; one that only grew is held to its old part.

    Empty where there is no record yet. A record that cannot be read counts as altered itself.
    """
    if not (folder / "record.json").exists():
        return ()
    try:
        evidence = read_record(folder).evidence
    except EvidenceError:
        return ("record.json",)
    return tuple(
        file.path
        for file in evidence
        if not file.path.startswith(_WRITTEN_ANEW)
        and not (served_anew and file.path == _PROFILE)
        and _digest(folder / file.path, file.bytes) != file.sha256
    )


def _digest(place: Path, count: int) -> str | None:
    """SHA-256 of the first `count` bytes; None where there are fewer, or no such regular file."""
    if place.is_symlink() or not place.is_file():
        return None
    total, left = hashlib.sha256(), count
    with place.open("rb") as stream:
        while left and (part := stream.read(min(left, 1 << 20))):
            total.update(part)
            left -= len(part)
    return None if left else total.hexdigest()
