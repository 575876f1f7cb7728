"""Where do the relay's sockets lie? In a fresh folder whose path is short enough for a unix socket's name."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_FOLDER_BYTES = 80
"""Socket names end at 104 bytes on macOS, 108 on Linux."""


def make_socket_folder(within: Path | None = None) -> Path:
    """Makes it, below `within` where that is short enough; a box may pass through, nobody can list it or guess its name."""
    folder = tempfile.mkdtemp(prefix="runcard-", dir=within)
    if len(os.fsencode(folder)) > _FOLDER_BYTES:
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="runcard-", dir="/tmp")
    Path(folder).chmod(0o711)
    return Path(folder)
