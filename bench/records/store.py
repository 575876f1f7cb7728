"""Where runs lie: one folder a run, its lock, its record, the list of runs. Nothing half-written is ever taken for whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from bench.errors import BusyError, EvidenceError, UsageError
from bench.records import requests_file, schema
from bench.records.snapshot import write_atomically
from bench.spec import slug

_LEFT_OUT = {"lock", "record.json"}
_DERIVED = {requests_file.NAME}
_FREE_BYTES_NEEDED = 200_000_000


def prepare(results: Path) -> Path:
    """The results folder, made if needed and proved writable with room, before anything starts. Raises UsageError."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        probe = results / f".probe-{os.getpid()}"
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
        free = shutil.disk_usage(results).free
    except OSError as error:
        raise UsageError(
            f"{results}: results cannot be written ({error.strerror}); choose another folder with --results DIR"
        ) from error
    if free < _FREE_BYTES_NEEDED:
        raise UsageError(
            f"{results}: only {free // 1_000_000} MB free, a run wants {_FREE_BYTES_NEEDED // 1_000_000} MB; free some or use --results DIR"
        )
    return results.resolve()


def new_run(results: Path, wanted: str) -> Path:
    """Makes the folder of a new run. A taken id gets `-r2`, `-r3` ...; two processes never get the same one."""
    for number in range(1, 10_000):
        folder = results / (wanted if number == 1 else f"{wanted}-r{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            if not _abandoned(folder):
                continue
        except OSError as error:
            raise UsageError(
                f"{folder}: cannot be made ({error.strerror}); choose another folder with --results DIR"
            ) from error
        return folder
    raise UsageError(f"{results}: {wanted} is taken 10,000 times over")


def _abandoned(folder: Path) -> bool:
    """Whether a folder is what a start that failed left behind, and nobody works on it; it is emptied then."""
    if (
        (folder / "run.json").exists()
        or (folder / "journal.jsonl").exists()
        or folder.is_symlink()
        or not folder.is_dir()
    ):
        return False
    try:
        with locked(folder):
            for entry in folder.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                elif entry.name != "lock":
                    entry.unlink()
    except (BusyError, OSError):
        return False
    return True


def find_run(results: Path, name: str) -> Path:
    """The folder of a run named by its id, by a path to it or by `last`. Raises UsageError listing what exists."""
    if name == "last" and (ids := run_ids(results)):
        return results / max(ids, key=lambda run_id: (results / run_id).stat().st_mtime)
    for folder in (results / name, Path(name)):
        with contextlib.suppress(OSError, ValueError):  # a name that no file can have
            if (folder / "run.json").is_file():
                return folder.resolve()
    known = run_ids(results)
    known.sort(key=lambda run_id: (results / run_id).stat().st_mtime)
    shown = ", ".join(known[-8:]) if known else "none yet"
    raise UsageError(f"no run '{name[:100]}' under {results}; the newest there: {shown}")


def run_ids(results: Path) -> list[str]:
    """Ids of all runs below a results folder, by name."""
    if not results.is_dir():
        return []
    return sorted(folder.name for folder in results.iterdir() if (folder / "run.json").is_file())


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a run for this process alone. Raises BusyError where another process has it."""
    with (folder / "lock").open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            holder = stream.read(40).strip() or "unknown"
            raise BusyError(
                f"{folder.name}: another process (id {holder}) works on this run; wait for it or end it"
            ) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield


def manifest(folder: Path) -> tuple[schema.EvidenceFile, ...]:
    """Every file of a run's folder with size and digest, the record and the lock apart."""
    found = []
    for place in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        name = place.relative_to(folder).as_posix()
        if name in _LEFT_OUT or place.name.endswith(".part") or place.match("record.*.json"):
            continue
        with place.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        found.append(
            schema.EvidenceFile(path=name, bytes=place.stat().st_size, sha256=sha256, derived=name in _DERIVED)
        )
    return tuple(found)


def write_record(folder: Path, record: schema.RunRecord, segment: int) -> Path:
    """Writes `record.<segment>.json` and makes `record.json` the same, each replaced in one step."""
    content = (json.dumps(asdict(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    write_atomically(folder / f"record.{segment}.json", content)
    write_atomically(folder / "record.json", content)
    return folder / "record.json"


def read_record(folder: Path) -> schema.RunRecord:
    """Raises EvidenceError where there is no record, it is damaged, or its format is not one that we read."""
    place = folder / "record.json"
    try:
        data = json.loads(place.read_bytes())
    except FileNotFoundError:
        raise EvidenceError(f"{folder.name}: no record yet; finish the run with --resume {folder.name}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(f"{place}: the record cannot be read ({error})") from error
    if not isinstance(data, dict) or data.get("schema_version") != schema.SCHEMA_VERSION:
        found = data.get("schema_version") if isinstance(data, dict) else None
        raise EvidenceError(f"{place}: format {found} is not format {schema.SCHEMA_VERSION}, which this version reads")
    from pydantic import TypeAdapter, ValidationError

    try:
        record: schema.RunRecord = TypeAdapter(schema.RunRecord).validate_json(json.dumps(data))
    except (ValidationError, ValueError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise EvidenceError(
            f"{place}: not a record of format {schema.SCHEMA_VERSION} ({where}: {first['msg']})"
        ) from error
    return record


def run_name(date: str, *parts: str) -> str:
    """`2026-11-30-resume-on-miss-embedded-builtin-prefix-cache`: date, then the parts, lower case and dashes."""
    return "-".join([date, *(slug(part)[:48].strip("-") for part in parts)])
