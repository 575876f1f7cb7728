"""Which program an engine is on this machine: the first of its profile's ways that is there, its version and digest."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import MissingPartError

if TYPE_CHECKING:
    from bench.engines.profile_parts import Program, Start


@dataclass(frozen=True, kw_only=True)
class FoundProgram:
    argv: tuple[str, ...]
    """What stands before the profile's own arguments."""

    version: str
    """Names the way as well: `xllamacpp 2026.10.11549 (bench.engines.llama_launcher)`."""

    binary_sha256: str | None


def find_program(start: Start, *, title: str, by_hand: Sequence[str]) -> FoundProgram:
    """The first program of the engine's launch part that is installed.

    `by_hand`: the arguments it would get, for the message of MissingPartError when none is there.
    """
    for program in start.programs:
        found = _on_path(program) if program.command is not None else _as_module(program)
        if found is not None:
            return found
    looked = " and ".join(
        f"`{program.command}` on PATH" if program.command else f"the Python distribution '{program.distribution}'"
        for program in start.programs
    )
    first = start.programs[0].command or f"{sys.executable} -P -m {start.programs[0].module}"
    raise MissingPartError(
        f"{title} is not installed: looked for {looked}.\n"
        f"  what to do: {start.install}\n"
        f"  it would be run as: {first} {' '.join(by_hand)}"
    )


def sha256_of(path: Path) -> str:
    """Digest of a file, read in pieces; a file that has not changed is read once."""
    about = path.stat()
    return _sha256(path.resolve(), about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _on_path(program: Program) -> FoundProgram | None:
    place = shutil.which(program.command or "")
    if place is None:
        return None
    path = Path(place).absolute()
    return FoundProgram(
        argv=(str(path),), version=f"{program.command} {_printed_version(path, program)}", binary_sha256=sha256_of(path)
    )


def _printed_version(path: Path, program: Program) -> str:
    try:
        done = subprocess.run(
            [path, *program.version_args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=30,
        )
    except subprocess.TimeoutExpired:
        return "(version not told within 30 s)"
    except OSError as error:
        return f"(version not told: {error.strerror})"
    found = re.search(program.version_pattern, done.stdout[:10_000].decode("utf-8", "replace"))
    return found.group(1).strip()[:200] if found else f"(version not told, exit code {done.returncode})"


def _as_module(program: Program) -> FoundProgram | None:
    try:
        distribution = metadata.distribution(program.distribution or "")
    except metadata.PackageNotFoundError:
        return None
    binary = Path(str(distribution.locate_file(program.binary))) if program.binary else None
    return FoundProgram(
        argv=(sys.executable, "-P", "-m", program.module or ""),
        version=f"{program.distribution} {distribution.version} ({program.module})",
        binary_sha256=sha256_of(binary) if binary is not None and binary.is_file() else None,
    )
