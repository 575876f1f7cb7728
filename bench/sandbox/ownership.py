"""As root: makes what a plan shows readable, and what it may write writable, for the box's unprivileged user.

Root can still read and remove all of it afterwards.
"""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from bench.contracts import BoxPlan
from bench.errors import HarnessError, UsageError

_OPEN_FOLDER = stat.S_IROTH | stat.S_IXOTH


def make_reachable(plan: BoxPlan, user: int) -> None:
    """Hands over to `user` what is writable, the relay's socket, and every folder that is closed to others.

    A closed folder is one that the harness made for itself; a single file that others cannot read may be a
    person's own, so it is left alone and UsageError says what to do.
    """
    if plan.project is not None:
        _hand_over(plan.project, user, always=plan.writable)
    for mount in plan.mounts:
        if mount.writable or mount.source.is_dir():
            _hand_over(mount.source, user, always=mount.writable)
        elif not mount.source.stat().st_mode & stat.S_IROTH:
            raise UsageError(f"{mount.source}: a box's user cannot read it; run: chmod o+r {mount.source}")
    if plan.relay is not None:
        os.chown(plan.relay.socket, user, user, follow_symlinks=False)


def _hand_over(path: Path, user: int, *, always: bool) -> None:
    if not always and path.stat().st_mode & _OPEN_FOLDER == _OPEN_FOLDER:
        return
    # The tool, not a walk of our own: it neither follows symlinks nor stumbles over a path of any depth.
    done = subprocess.run(
        ["chown", "-R", "-h", "-P", f"{user}:{user}", "--", path.resolve()],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise HarnessError(f"{path} cannot be handed to the box's user {user}: {done.stderr.strip()[:500]}")
