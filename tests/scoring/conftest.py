"""A real box, small projects and small hidden sets for the tests of scoring."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from bench.sandbox.box import open_box
from bench.spec import Limits, Workload


@pytest.fixture(scope="session")
def box():
    return open_box(unsafe=False)


@pytest.fixture
def project(tmp_path):
    """A function that writes a project of one file and returns its folder."""

    def write(name: str, text: str) -> Path:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        (folder / name).write_text(textwrap.dedent(text))
        return folder

    return write


@pytest.fixture
def hidden_set(tmp_path):
    """A function that writes one file of cases and returns the workload that is judged by it."""

    def write(cases: str) -> Workload:
        hidden = tmp_path / "hidden"
        hidden.mkdir()
        head = "from bench.scoring.case import BadReply, about, case, expect\n"
        (hidden / "test_own.py").write_text(head + textwrap.dedent(cases))
        return Workload(
            id="own",
            revision=1,
            title="Own",
            drive="session",
            brief="",
            brief_sha256="",
            limits=Limits(**dict.fromkeys(Limits.__dataclass_fields__, 1)),
            case_kind="command",
            entry="program.py",
            starter=None,
            hidden=hidden,
            score_group="own",
        )

    return write
