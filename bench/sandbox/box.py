"""Which box this machine has: bubblewrap on Linux, sandbox-exec on macOS, none where the user says so, else a refusal."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.contracts import Box
from bench.errors import MissingPartError
from bench.sandbox.bubblewrap import open_bubblewrap
from bench.sandbox.interpreters import find_interpreters
from bench.sandbox.seatbelt import open_seatbelt
from bench.sandbox.unboxed import UnboxedBox
from bench.spec import REPOSITORY


def open_box(*, unsafe: bool, secret: tuple[Path, ...] = ()) -> Box:
    """A box that has been seen to work; main thread only.

    `secret`: folders of which nothing may exist inside, besides the repository itself. A project below one is
    shown all the same, the rest of it is not.
    Raises MissingPartError where there is no box (the message says what to install), UsageError where a secret
    lies in a folder that every box shows.
    """
    if unsafe:
        return UnboxedBox(find_interpreters())
    secrets = (REPOSITORY, *secret)
    if sys.platform == "linux":
        return open_bubblewrap(secrets)
    if sys.platform == "darwin":
        return open_seatbelt(secrets)
    raise MissingPartError(
        f"there is no box for {sys.platform}; `--unsafe-no-sandbox` runs without one, unprotected, "
        "and is written into the record"
    )
