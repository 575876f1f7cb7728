"""Has an agent filled more of the disk than a project may take? No kernel quota bounds a folder of many files."""

from __future__ import annotations

import subprocess
from pathlib import Path

PROJECT_BYTES = 1_000_000_000
"""Four times what a snapshot may hold: build folders and caches have room, filling the machine's disk does not."""

PROJECT_FILES = 200_000
_LOOK_SECONDS = 20


def outgrown(*folders: Path) -> bool:
    """Whether one of the folders that an agent may write takes more than a project may.

    Looked at by `du`, which takes deep and long paths as they come. A tree that changes meanwhile, or that cannot be
    weighed in time, is weighed again at the next look.
    """
    return any(_outgrown(folder) for folder in folders)


def _outgrown(folder: Path) -> bool:
    try:
        kilobytes = _first_number("du", "-skx", str(folder))
        files = _first_number("du", "-sx", "--inodes", str(folder)) if kilobytes is not None else None
    except subprocess.TimeoutExpired:
        return False
    return (kilobytes or 0) * 1024 > PROJECT_BYTES or (files or 0) > PROJECT_FILES


def _first_number(*argv: str) -> int | None:
    """The first field that a tool prints, if it is a number (macOS's `du` knows no `--inodes`)."""
    done = subprocess.run(argv, capture_output=True, check=False, timeout=_LOOK_SECONDS)
    word = done.stdout.split(None, 1)[0] if done.stdout.strip() else b""
    return int(word) if word.isdigit() else None
