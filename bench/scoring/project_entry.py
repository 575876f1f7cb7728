"""Whether a project has the file that is judged."""

from __future__ import annotations

from pathlib import Path

from bench.scoring.case import BadReply


def require_entry(project: Path, entry: str) -> None:
    """Raises BadReply where `entry` is not a regular file of the project."""
    place = project / entry
    if place.is_symlink() or not place.is_file():
        raise BadReply(f"the project has no file {entry}")
