"""Are a run's files still those that its record lists? Digests, the record's own form, snapshots and their contents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.errors import EvidenceError
from bench.figures.differences import Difference
from bench.records import store
from bench.records.schema import EvidenceFile, JournalEntry, RunRecord
from bench.records.snapshot import BlobStore, load

_FORM_ERRORS = 5


def record_differences(folder: Path, record: RunRecord) -> list[Difference]:
    """Where `record.json` is no record of the published form, or not the one that its segment wrote."""
    from pydantic import TypeAdapter, ValidationError

    content = (folder / "record.json").read_bytes()
    found: list[Difference] = []
    try:
        TypeAdapter(RunRecord).validate_json(content, strict=True)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False)[:_FORM_ERRORS]:
            where = ".".join(str(part) for part in one["loc"])
            found.append(Difference(what=f"record.json {where}", record="what has no place there", evidence=one["msg"]))
    unknown = sorted(set(json.loads(content)) - set(asdict(record)))
    found += [
        Difference(what=f"record.json {key}", record="something", evidence="no such key in this format")
        for key in unknown
    ]
    copy = f"record.{max(1, len(record.segments))}.json"
    if not (folder / copy).is_file() or (folder / copy).read_bytes() != content:
        found.append(Difference(what=copy, record="otherwise", evidence="the same bytes as record.json"))
    return found


def file_differences(folder: Path, listed: Sequence[EvidenceFile]) -> list[Difference]:
    """Files that are missing, changed, or were added since the record was written; links, which no run makes."""
    there = {file.path: file for file in store.manifest(folder)}
    found: list[Difference] = []
    for file in listed:
        now = there.pop(file.path, None)
        if now is None:
            found.append(_file(file.path, f"{file.bytes:,} bytes", "no such file"))
        elif now.sha256 != file.sha256:
            found.append(_file(file.path, f"sha256 {file.sha256[:16]}…", f"sha256 {now.sha256[:16]}…"))
        elif now != file:
            found.append(_file(file.path, f"{file.bytes:,} bytes", f"{now.bytes:,} bytes"))
    found += [_file(name, "nothing of it", f"{file.bytes:,} bytes") for name, file in there.items()]
    links = sorted(place for place in folder.rglob("*") if place.is_symlink())
    return found + [_file(link.relative_to(folder).as_posix(), "nothing of it", "a link") for link in links]


def snapshot_differences(folder: Path, journal: Sequence[JournalEntry]) -> list[Difference]:
    """Snapshots that the journal names and that are gone or damaged, and contents that do not have their digest."""
    blobs = BlobStore(folder / "blobs")
    digests = {entry.snapshot for entry in journal if entry.snapshot is not None}
    digests |= {place.stem for place in (folder / "snapshots").glob("*.json")}
    found: list[Difference] = []
    whole: set[str] = set()
    for digest in sorted(digests):
        try:
            for file in load(folder / "snapshots", digest).files:
                if file.sha256 not in whole:
                    blobs.get(file.sha256)
                    whole.add(file.sha256)
        except EvidenceError as error:
            told = str(error).replace(f"{folder}/", "")
            found.append(Difference(what=f"snapshot {digest[:16]}…", record="it is kept", evidence=told))
    return found


def _file(name: str, record: str, evidence: str) -> Difference:
    return Difference(what=f"file {name}", record=record, evidence=evidence)
