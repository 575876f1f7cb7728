"""The judge's own pytest plugin: gives hidden cases their project in a box and reports each outcome on a descriptor.

Loaded with `-p bench.judge_plugin` in the process that `bench.scoring.judge` starts, and by hand where a case is
being written: `python -m pytest -p bench.judge_plugin --judge-project DIR --judge-kind node-module
--judge-entry model.mjs hidden/prefix-cache`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from bench.contracts import Box
from bench.sandbox.box import open_box
from bench.scoring.boxed_call import REPLY_SECONDS
from bench.scoring.case import BadReply, Missed, case_id
from bench.scoring.command_program import CommandProgram
from bench.scoring.node_module import NodeModule
from bench.spec import REPOSITORY

_REPORT = pytest.StashKey[dict[str, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("judge", "judging one project by hidden cases")
    group.addoption("--judge-project", metavar="DIR", required=True, help="the project, restored from its snapshot")
    group.addoption("--judge-kind", choices=["node-module", "command"], required=True, help="how cases reach it")
    group.addoption("--judge-entry", metavar="FILE", required=True, help="the file of the project that is judged")
    group.addoption("--judge-unsafe", action="store_true", help="without a box")
    group.addoption("--judge-seconds", type=float, default=REPLY_SECONDS, help="limit of one call of the project")
    group.addoption("--judge-order", type=int, metavar="SEED", help="judge in a random order")
    group.addoption("--judge-lifeline", type=int, metavar="FD", help="a pipe that closes when nobody wants the answers")
    group.addoption("--judge-results", type=int, metavar="FD", help="descriptor that gets one JSON line a case")


def pytest_configure(config: pytest.Config) -> None:
    # What the cases of a set share lies beside them; nothing else is put on the path, least of all the project.
    sys.path.extend(sorted({str(_folder_of(argument)) for argument in config.args}))
    lifeline = config.getoption("--judge-lifeline")
    if lifeline is not None:
        threading.Thread(target=_interrupt_at_end_of, args=[lifeline], daemon=True).start()


def _folder_of(argument: str) -> Path:
    place = Path(argument.partition("::")[0]).resolve()
    return place if place.is_dir() else place.parent


def _interrupt_at_end_of(lifeline: int) -> None:
    """An interrupt ends the running box on its way out, which a kill would not where there is no real box."""
    os.read(lifeline, 1)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@pytest.fixture(scope="session")
def box(pytestconfig: pytest.Config) -> Box:
    """Where the project's code runs; the hidden set must not exist inside."""
    return open_box(unsafe=pytestconfig.getoption("--judge-unsafe"), secret=(pytestconfig.rootpath, REPOSITORY))


@pytest.fixture(scope="session")
def model(box: Box, pytestconfig: pytest.Config) -> NodeModule:
    """The project as a Node module; every `run` of it is a process of its own."""
    return NodeModule(box=box, **_subject(pytestconfig, "node-module"))


@pytest.fixture(scope="session")
def program(box: Box, pytestconfig: pytest.Config) -> CommandProgram:
    """The project as a command-line program."""
    return CommandProgram(box=box, **_subject(pytestconfig, "command"))


def _subject(config: pytest.Config, kind: str) -> dict[str, Any]:
    if config.getoption("--judge-kind") != kind:
        raise pytest.UsageError(f"this workload's cases are of kind {config.getoption('--judge-kind')}, not {kind}")
    return {
        "project": Path(config.getoption("--judge-project")),
        "entry": config.getoption("--judge-entry"),
        "seconds": config.getoption("--judge-seconds"),
    }


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--judge-order")
    if seed is not None:
        random.Random(seed).shuffle(items)  # noqa: S311 - an order, not a secret


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """One line a case, written when all of it is over, its set-up and tear-down included."""
    report: dict[str, Any] = {
        "id": case_id(getattr(item, "function", None)),
        "outcome": "error",
        "reason": "was not judged",
    }
    item.stash[_REPORT] = report
    started = time.monotonic()
    result = yield
    report["seconds"] = round(time.monotonic() - started, 4)
    descriptor = item.config.getoption("--judge-results")
    if descriptor is not None:
        os.write(descriptor, json.dumps(report).encode() + b"\n")
    return result


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    report = item.stash[_REPORT]
    if call.excinfo is not None:
        report |= _verdict_on(call.excinfo.value, in_case=call.when == "call")
    elif call.when == "call":
        report |= {"outcome": "passed", "reason": None}


def _verdict_on(error: BaseException, *, in_case: bool) -> dict[str, Any]:
    """A wrong or missing answer of the project is a miss; whatever else went wrong is no judgement at all."""
    if isinstance(error, Missed) and in_case:
        return {"outcome": "missed", "reason": error.what, "observed": error.observed, "expected": error.expected}
    if isinstance(error, BadReply) and in_case:
        return {"outcome": "missed", "reason": str(error)}
    if isinstance(error, AssertionError) and in_case:
        return {"outcome": "missed", "reason": str(error).partition("\n")[0] or "an assertion failed"}
    return {"outcome": "error", "reason": f"{type(error).__name__}: {error}"}
