"""What machine and what harness made a record: facts that decide whether two records may be compared."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent


def host() -> dict[str, Any]:
    """Machine facts without names of people or hosts."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "python": platform.python_version(),
    }


def harness() -> dict[str, Any]:
    """Version of the distribution and one digest over the package's sources."""
    try:
        version = metadata.version("runcard")
    except metadata.PackageNotFoundError:
        version = "not installed"
    return {"version": version, "source_sha256": source_digest()}


@functools.cache
def source_digest() -> str:
    """SHA-256 over names and contents of all sources of the package, in order."""
    total = hashlib.sha256()
    for place in sorted(_PACKAGE.rglob("*")):
        if place.suffix in {".py", ".mjs", ".md", ".yaml", ".json"} and "__pycache__" not in place.parts:
            total.update(place.relative_to(_PACKAGE).as_posix().encode() + b"\0" + place.read_bytes() + b"\0")
    return total.hexdigest()


def _processor() -> str | None:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
