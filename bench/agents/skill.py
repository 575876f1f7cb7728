"""A skill that an agent is given: a folder with SKILL.md, which says its name and what it is for."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.errors import UsageError

_FILES = 2_000
_BYTES = 50_000_000
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
    folder: Path
    identity: SkillIdentity


def read_skill(folder: Path) -> Skill:
    """Reads and checks a skill. Raises UsageError saying what is wrong with it."""
    place = folder.expanduser().absolute()
    page = place / "SKILL.md"
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--skill {folder}: SKILL.md cannot be read ({error})") from error
    front = _front_matter(text, page)
    name, about = front.get("name"), front.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 64:
        raise UsageError(
            f"{page}: front matter, key 'name': expected lower case letters, digits and dashes, at most 64"
        )
    if not isinstance(about, str) or not about.strip():
        raise UsageError(f"{page}: front matter, key 'description': what the skill is for is missing")
    metadata = front.get("metadata")
    version = front.get("version", metadata.get("version") if isinstance(metadata, dict) else None)
    return Skill(
        folder=place.resolve(),
        identity=SkillIdentity(
            name=name, version=None if version is None else str(version)[:100], sha256=_digest(place.resolve())
        ),
    )


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


def _digest(folder: Path) -> str:
    digest, size = hashlib.sha256(), 0
    for count, path in enumerate(sorted(_files(folder)), 1):
        content = path.read_bytes()
        size += len(content)
        if count > _FILES or size > _BYTES:
            raise UsageError(
                f"--skill {folder}: more than {_FILES:,} files or {_BYTES:,} bytes; is it a skill's folder?"
            )
        name = os.fsencode(path.relative_to(folder))
        digest.update(b"%d %b %d " % (len(name), name, len(content)) + content)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            yield path
        elif not stat.S_ISDIR(mode):
            raise UsageError(f"--skill {folder}: {path.relative_to(folder)} is neither a file nor a folder")
