"""Which files are sessions of an ingested run, and what was each of them for? sessions.yaml, the journal or names tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.agents.kept_sessions import KeptSession, session_files
from bench.contracts import Role
from bench.errors import EvidenceError, FileFormatError, UsageError
from bench.figures.ingested_rows import SessionSheet, bounds_of
from bench.loop.journal import read_journal
from bench.loop.rows import session_rows
from bench.records.schema import SessionRow
from bench.yaml_file import load_model

if TYPE_CHECKING:
    from pydantic import BaseModel

MAPPING = "sessions.yaml"
_MOST_FILES = 10_000
_CLOCKS_APART_SECONDS = 5.0
"""How far a file's first instant may lie outside the session that the journal tells."""

_ROLES: Mapping[str, Role] = {
    "bootstrap": "bootstrap",
    "plan": "bootstrap",
    "build": "builder",
    "builder": "builder",
    "review": "reviewer",
    "reviewer": "reviewer",
    "replan": "replan",
}
_TASK = re.compile(r"[tf]\d{1,3}")


@dataclass(frozen=True, kw_only=True)
class FoundSession:
    path: Path
    sheet: SessionSheet
    kept: KeptSession


@dataclass(frozen=True, kw_only=True)
class _File:
    path: Path
    name: str
    """Relative to the folder."""

    kept: KeptSession


def find_sessions(folder: Path, agent: str, journal: Path | None) -> list[FoundSession]:
    """The sessions of a folder, by number; links are passed over.

    `sessions.yaml` in the folder decides, then the journal (by the time at which a session ran), then the files' names:
    `T003-build-2` is the builder of T003 in its second attempt. Raises UsageError where there is no session, or where
    it cannot be told which of the journal's sessions a file is.
    """
    files = _files(folder, agent)
    if (folder / MAPPING).is_file():
        sheets = _mapped(folder / MAPPING, files)
    elif journal is not None and (rows := _rows(journal)):
        sheets = _of_journal(files, rows, bounds_of(read_journal(journal).entries))
    else:
        sheets = [_named(number, file) for number, file in enumerate(files, 1)]
    by_name = {file.name: file for file in files}
    return [
        FoundSession(path=by_name[sheet.file].path, sheet=sheet, kept=by_name[sheet.file].kept)
        for sheet in sorted(sheets, key=lambda sheet: sheet.session)
    ]


def _files(folder: Path, agent: str) -> list[_File]:
    """All session files, the earliest first."""
    reader = session_files(agent)
    if not folder.is_dir():
        raise UsageError(f"--agent-sessions {folder}: no such folder")
    paths = sorted({path for pattern in reader.patterns for path in folder.glob(pattern)})
    paths = [path for path in paths if path.is_file() and not path.is_symlink() and not path.parent.is_symlink()]
    if not paths:
        raise UsageError(
            f"--agent-sessions {folder}: no session of {agent} in it, looked for {', '.join(reader.patterns)}"
        )
    if len(paths) > _MOST_FILES:
        raise UsageError(f"--agent-sessions {folder}: {len(paths):,} files, at most {_MOST_FILES:,} are read")
    files = [_File(path=path, name=path.relative_to(folder).as_posix(), kept=reader.read(path, 0)) for path in paths]
    return sorted(files, key=lambda file: (file.kept.started_at or float("inf"), file.name))


def _rows(journal: Path) -> dict[int, SessionRow]:
    """The journal's sessions by number; nothing of a journal that is damaged, which the record then says."""
    try:
        return {row.session: row for row in session_rows(read_journal(journal).entries)}
    except (EvidenceError, TypeError, ValueError):
        return {}


def _of_journal(
    files: Sequence[_File], rows: Mapping[int, SessionRow], bounds: Mapping[int, tuple[float, float]]
) -> list[SessionSheet]:
    taken: dict[int, str] = {}
    sheets = []
    for file in files:
        number = _number(file, bounds)
        if number is None or number not in rows or number in taken:
            raise UsageError(
                f"{file.name}: it cannot be told which of the journal's {len(rows)} sessions this file is; "
                f"write {MAPPING} beside it (docs/adding.md)"
            )
        taken[number] = file.name
        row = rows[number]
        sheets.append(
            SessionSheet(
                session=number,
                file=file.name,
                role=row.role,
                task=row.task,
                attempt=row.attempt,
                retry=row.retry,
                segment=row.segment,
            )
        )
    return sheets


def _number(file: _File, bounds: Mapping[int, tuple[float, float]]) -> int | None:
    """The session that ran when the file was begun, or the number that its folder or its name begins with."""
    if (at := file.kept.started_at) is not None:
        near = {
            number: abs(at - begin)
            for number, (begin, end) in bounds.items()
            if begin - _CLOCKS_APART_SECONDS <= at <= end + _CLOCKS_APART_SECONDS
        }
        return min(near, key=lambda number: near[number]) if near else None
    digits = re.match(r"(\d{1,6})(?!\d)", file.name)
    return int(digits.group(1)) if digits else None


def _named(number: int, file: _File) -> SessionSheet:
    words = re.split(r"[^a-z0-9]+", file.path.stem.lower())
    role: Role = next((_ROLES[word] for word in words if word in _ROLES), "session")
    if role == "reviewer" and "final" in words:
        role = "final-reviewer"
    last = words[-1]
    return SessionSheet(
        session=number,
        file=file.name,
        role=role,
        task=next((word.upper() for word in words if _TASK.fullmatch(word)), None),
        attempt=int(last) if role != "session" and re.fullmatch(r"[1-9]\d?", last) else 1,
        retry=0,
        segment=1,
    )


def _mapped(path: Path, files: Sequence[_File]) -> list[SessionSheet]:
    """What sessions.yaml says; every file must be in it, and every name in it must be a file."""
    form: Any = load_model(path, _mapping_form())
    names = [file.name for file in files]
    if missing := [name for name in names if name not in form.sessions]:
        raise FileFormatError(path, f"says nothing of {missing[0]}; every session file must stand in it")
    if strange := [name for name in form.sessions if name not in names]:
        raise FileFormatError(path, f"names {strange[0]}, which is no session file of this folder")
    sheets = []
    for place, name in enumerate(names, 1):
        said = form.sessions[name].model_dump()
        number = said.pop("session")
        sheets.append(SessionSheet(session=place if number is None else number, file=name, **said))
    if len({sheet.session for sheet in sheets}) != len(sheets):
        raise FileFormatError(path, "two files have the same session number")
    return sheets


def _mapping_form() -> type[BaseModel]:
    from pydantic import BaseModel, ConfigDict, Field

    strict = ConfigDict(extra="forbid", strict=True)

    class Said(BaseModel):
        model_config = strict
        role: Role = "session"
        task: str | None = None
        attempt: int = Field(default=1, ge=1)
        retry: int = Field(default=0, ge=0)
        segment: int = Field(default=1, ge=1)
        session: int | None = Field(default=None, ge=1)

    class Mapped(BaseModel):
        model_config = strict
        sessions: dict[str, Said]

    return Mapped
