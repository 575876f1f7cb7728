"""A skill that an agent is given: a folder with SKILL.md, which says its name and what it is for.

It is read once, whole: what every session gets is what the digest is of, whatever happens to the folder meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from bench.errors import UsageError
from bench.spec import REPOSITORY

FILES = 2_000
BYTES = 50_000_000
_ABOUT_CHARACTERS = 1_024
"""The formats' own limit; agents pass over a skill that is described at greater length."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONT = re.compile(r"\A---\r?\n(.*?)\r?\n---\r?(?:\n|\Z)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class SkillIdentity:
    """What the record says of a skill."""

    name: str
    version: str | None
    """Where the front matter tells one, as `version` or `metadata.version`."""

    sha256: str
    """Of the names and contents of all its files."""


@dataclass(frozen=True, kw_only=True)
class Skill:
    identity: SkillIdentity
    files: Mapping[str, bytes]
    """Path relative to the skill's folder -> content."""

    executable: frozenset[str]
    """Those of the files that a person made executable."""


def read_skill(folder: Path) -> Skill:
    """Reads and checks a skill. Raises UsageError saying what is wrong with it."""
    place = folder.expanduser().resolve()
    page = place / "SKILL.md"
    if not place.is_dir():
        raise UsageError(f"--skill {folder}: there is no such folder")
    hidden = (REPOSITORY / "hidden").resolve()
    if place.is_relative_to(hidden) or hidden.is_relative_to(place):
        raise UsageError(f"--skill {folder}: no agent is shown hidden cases")
    paths = _files(place)
    if page not in paths:
        raise UsageError(f"--skill {folder}: there is no SKILL.md in it")
    try:
        files = {str(path.relative_to(place)): path.read_bytes() for path in paths}
        executable = frozenset(str(path.relative_to(place)) for path in paths if path.stat().st_mode & stat.S_IXUSR)
        front = _front_matter(files["SKILL.md"].decode("utf-8"), page)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--skill {folder}: it cannot be read ({error})") from error
    name, about = front.get("name"), front.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 64:
        raise UsageError(
            f"{page}: front matter, key 'name': expected lower case letters, digits and dashes, at most 64"
        )
    if not isinstance(about, str) or not about.strip() or len(about) > _ABOUT_CHARACTERS:
        raise UsageError(
            f"{page}: front matter, key 'description': expected what the skill is for, "
            f"at most {_ABOUT_CHARACTERS:,} characters"
        )
    metadata = front.get("metadata")
    version = front.get("version", metadata.get("version") if isinstance(metadata, dict) else None)
    told = None if version is None else str(version)[:100].encode("utf-8", "replace").decode()
    identity = SkillIdentity(name=name, version=told, sha256=_digest(files))
    return Skill(identity=identity, files=files, executable=executable)


def _front_matter(text: str, page: Path) -> dict[str, Any]:
    found = _FRONT.match(text)
    if found is None:
        raise UsageError(f"{page}: it does not begin with front matter (`---`, name, description, `---`)")
    try:
        front = yaml.safe_load(found[1])
    except yaml.YAMLError as error:
        raise UsageError(f"{page}: its front matter is no YAML ({error})") from error
    if not isinstance(front, dict):
        raise UsageError(f"{page}: its front matter is no mapping of keys")
    return front


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for relative, content in files.items():
        name = os.fsencode(relative)
        digest.update(b"%d %b %d " % (len(name), name, len(content)) + content)
    return digest.hexdigest()


def _files(folder: Path) -> tuple[Path, ...]:
    """All of its files, in one order; nothing is opened before all are known to be regular, and few and small enough."""
    found, size = [], 0
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        for name in (*names, *folders):
            path = Path(place, name)
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                continue
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"--skill {folder}: {path.relative_to(folder)} is neither a file nor a folder")
            found.append(path)
            size += status.st_size
            if len(found) > FILES or size > BYTES:
                raise UsageError(
                    f"--skill {folder}: more than {FILES:,} files or {BYTES:,} bytes; is it a skill's folder?"
                )
    return tuple(sorted(found))


def _unreadable(error: OSError) -> NoReturn:
    raise UsageError(f"--skill {error.filename}: it cannot be read ({error.strerror})") from error
