"""Refuses to show in a box what must not exist there: the repository, the hidden cases, the results."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.errors import UsageError


def refuse_secrets(secret: Iterable[Path], trees: Iterable[Path]) -> None:
    """Raises UsageError when a secret folder is one of the mounted trees or lies below one.

    The other way round is allowed: a project lies below the results, and only the project is mounted.
    """
    shown = [tree.resolve() for tree in trees]
    for path in secret:
        real = path.resolve()
        for tree in shown:
            if real.is_relative_to(tree):
                raise UsageError(
                    f"{real} must not be seen from inside a box, but lies in {tree}, which the box would show; "
                    "keep it elsewhere, for example in a home directory"
                )
