"""journal.jsonl: what the loop did, one JSON line an entry, on the disk before the loop goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

from bench.errors import EvidenceError
from bench.records.schema import EntryEvent, JournalEntry, StepKind

_MAX_LINE_BYTES = 16_000_000
_KEYS = {item.name for item in fields(JournalEntry)}


@dataclass(frozen=True, kw_only=True)
class JournalFile:
    """What stands in a journal file."""

    entries: tuple[JournalEntry, ...]
    whole_bytes: int
    """Length of the file up to the end of its last whole line."""

    torn: str | None
    """What is said of a last line that was cut off while it was written, and is not among the entries."""


def read_journal(path: Path) -> JournalFile:
    """Reads a journal; no file is an empty one.

    A last line without its line end was cut off by a crash: it is dropped, and said. Anything else that is not the
    next entry raises EvidenceError with the line.
    """
    from pydantic import TypeAdapter

    adapter = TypeAdapter(JournalEntry)
    entries: list[JournalEntry] = []
    whole = 0
    try:
        with path.open("rb") as stream:
            while line := stream.readline(_MAX_LINE_BYTES):
                if not line.endswith(b"\n"):
                    if len(line) == _MAX_LINE_BYTES:
                        _damaged(path, len(entries) + 1, f"longer than {_MAX_LINE_BYTES:,} bytes")
                    torn = f"{path.name}: its last line was cut off after {len(line):,} bytes and is left out"
                    return JournalFile(entries=tuple(entries), whole_bytes=whole, torn=torn)
                entries.append(_entry(adapter, path, len(entries) + 1, line))
                whole += len(line)
    except FileNotFoundError:
        return JournalFile(entries=(), whole_bytes=0, torn=None)
    except OSError as error:
        raise EvidenceError(f"{path}: the journal cannot be read ({error.strerror})") from error
    return JournalFile(entries=tuple(entries), whole_bytes=whole, torn=None)


@dataclass(kw_only=True)
class Journal:
    """The journal of a run that goes on: entries so far, and the file they are appended to."""

    path: Path
    torn: str | None
    _entries: list[JournalEntry] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Reads the journal and cuts a torn last line off the file. Raises EvidenceError where it is damaged."""
        found = read_journal(path)
        if found.torn is not None:
            try:
                os.truncate(path, found.whole_bytes)
            except OSError as error:
                raise EvidenceError(f"{path}: the torn last line cannot be cut off ({error.strerror})") from error
        return cls(path=path, torn=found.torn, _entries=list(found.entries))

    @property
    def entries(self) -> Sequence[JournalEntry]:
        return self._entries

    def append(
        self,
        event: EntryEvent,
        *,
        at: float,
        step: StepKind | None = None,
        session: int | None = None,
        task: str | None = None,
        attempt: int = 1,
        retry: int = 0,
        outcome: str | None = None,
        kind: str | None = None,
        verdict: Literal["ACCEPT", "CHANGES"] | None = None,
        snapshot: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> JournalEntry:
        """Adds one entry; it is on the disk when this returns. Raises EvidenceError where it cannot be written."""
        entry = JournalEntry(
            seq=len(self._entries) + 1,
            event=event,
            at=at,
            step=step,
            session=session,
            task=task,
            attempt=attempt,
            retry=retry,
            outcome=outcome,
            kind=kind,
            verdict=verdict,
            snapshot=snapshot,
            detail=detail or {},
        )
        text = json.dumps(asdict(entry), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        # Half a character of an agent's text must not make a line that cannot be read again.
        line = text.encode("utf-8", "replace") + b"\n"
        try:
            new = not self.path.exists()
            with self.path.open("ab") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
            if new:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise EvidenceError(
                f"{self.path}: the journal cannot be written ({error.strerror}); make room and go on with --resume"
            ) from error
        # As it is read again, so that a run goes on the same whether or not it was resumed meanwhile.
        entry = replace(entry, detail=json.loads(line)["detail"])
        self._entries.append(entry)
        return entry


def last_snapshot(entries: Sequence[JournalEntry]) -> str | None:
    """Digest that the workspace must have when the next step begins; None before the first step.

    The newest one written down: a step that was cut left the one from before it, a finished step the one after.
    """
    return next((entry.snapshot for entry in reversed(entries) if entry.snapshot is not None), None)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entry(adapter: Any, path: Path, number: int, line: bytes) -> JournalEntry:
    from pydantic import ValidationError

    try:
        data = json.loads(line, parse_constant=_no_constant)
        if not isinstance(data, dict):
            _damaged(path, number, "not a JSON object")
        if unknown := sorted(set(data) - _KEYS):
            _damaged(path, number, f"unknown key '{unknown[0]}'")
        entry: JournalEntry = adapter.validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        _damaged(path, number, f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}")
    except (ValueError, RecursionError) as error:
        _damaged(path, number, f"not JSON: {error}")
    if entry.seq != number:
        _damaged(path, number, f"entry {entry.seq} where entry {number} was expected")
    return entry


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _damaged(path: Path, number: int, problem: str) -> NoReturn:
    raise EvidenceError(
        f"{path}:{number}: the journal is damaged ({problem}); this run cannot be resumed, begin a new one"
    )
