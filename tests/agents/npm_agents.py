"""Installs a coding agent for the tests that run it, once a test session, as a person would."""

from __future__ import annotations

import subprocess
from functools import cache

import pytest

from bench.spec import REPOSITORY

_SECONDS = 600
_NO_NPM = 3


def require_agent(name: str) -> None:
    """Skips the test only where npm is missing and cannot be installed; any other failure fails it."""
    code, said = _installed(name)
    if code == _NO_NPM:
        pytest.skip(said.strip().splitlines()[-1])
    assert code == 0, said


@cache
def _installed(name: str) -> tuple[int, str]:
    done = subprocess.run(
        [REPOSITORY / "bin" / "install-agent", name],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
