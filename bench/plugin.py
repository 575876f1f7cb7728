"""The harness inside pytest: options, the run before the first item, an item a hidden case, the summary, exit codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.errors import HarnessError, RuncardError
from bench.interrupts import Interrupts, RunInterrupted
from bench.scoring.hidden_set import expected_cases
from bench.test_workloads import RECORD, HiddenCases

if TYPE_CHECKING:
    from bench.contracts import Progress, ProgressSink
    from bench.records.schema import RunRecord
    from bench.spec import RunSpec

EXIT_BLOCKED = 10
EXIT_BROKE = 11
_EXIT_OF_END = {"blocked": EXIT_BLOCKED, "interrupted": pytest.ExitCode.INTERRUPTED}
_COLLECTED = Path(__file__).with_name("test_workloads.py")
_STATE = pytest.StashKey["_State"]()


@dataclass
class _State:
    """What one pytest invocation knows of the run that it makes."""

    record: RunRecord | None = None
    resumable: str | None = None
    """Id of the run that can be gone on with."""

    record_path: Path | None = None
    broke: str | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("runcard", "runcard: benchmark of model, engine and coding agent")
    group.addoption("--workload", metavar="NAME", help="what is built and judged; `pytest bench` alone lists them")
    group.addoption("--engine", metavar="NAME", default="embedded", help="profile of the engine (default: embedded)")
    group.addoption(
        "--model", metavar="NAME|FILE", help="script of the embedded engine, or a model file for llama-server"
    )
    group.addoption(
        "--engine-url", metavar="URL", help="an engine that runs already, e.g. http://127.0.0.1:8080; never stopped"
    )
    group.addoption(
        "--engine-arg", metavar="ARG", action="append", default=[], help="one more argument for the engine; repeatable"
    )
    group.addoption("--agent", metavar="NAME", default="builtin", help="the coding agent (default: builtin)")
    group.addoption(
        "--agent-arg",
        metavar="ARG",
        action="append",
        default=[],
        help="one more argument for the agent; repeatable. Only pi takes any: --thinking=LEVEL, --sampling=NAME=NUMBER, --skill=DIR, --assumed-window=TOKENS",
    )
    group.addoption("--project", metavar="DIR", help="score this project only: no engine, no agent")
    group.addoption("--resume", metavar="RUN", help="go on with a run that was stopped: its id, its folder, or `last`")
    group.addoption("--results", metavar="DIR", help="where runs are kept (default: results/)")
    group.addoption(
        "--limit",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="override a limit of the workload; repeatable",
    )
    group.addoption(
        "--unsafe-no-sandbox", action="store_true", help="run agent and project without a box; stamped into the record"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STATE] = _State()
    if not config.getoption("--workload"):
        return
    if config.getoption("numprocesses", None) or config.getoption("tx", None) or config.getoption("dist", "no") != "no":
        raise pytest.UsageError("a benchmark run cannot be spread over processes: leave out pytest-xdist's -n")
    if config.option.verbose == 0:
        config.option.verbose = 1  # one line for every hidden case is what a run is read by


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == _COLLECTED and not config.getoption("--workload") else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Bad names are told before anything is collected or started."""
    from bench import spec

    workload = session.config.getoption("--workload")
    if workload:
        with _as_pytest_usage():
            spec.find_workload(workload)
            expected_cases(spec.REPOSITORY / "hidden" / workload)
    elif any(Path(arg.split("::")[0]).resolve() in (_COLLECTED, _COLLECTED.parent) for arg in session.config.args):
        raise pytest.UsageError(
            f"choose what to run with --workload NAME; there are: {', '.join(spec.workload_ids())}\n"
            f"e.g. pytest bench --workload {spec.workload_ids()[0]}"
        )


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collected file is no module of test functions: its items are the workload's hidden cases."""
    if module_path != _COLLECTED:
        return None
    nodeid = parent.config.getoption("--workload")
    cases: pytest.Collector = HiddenCases.from_parent(parent, path=module_path, nodeid=nodeid)
    return cases


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Makes the run before the first item; a run that ends without a record leaves nothing to report item by item."""
    config = session.config
    if not config.getoption("--workload") or config.option.collectonly or session.testsfailed:
        return None
    state = config.stash[_STATE]
    if not session.items:
        raise pytest.UsageError("no hidden case is selected: leave out -k, -m and case ids that do not exist")
    with _as_pytest_usage():
        spec = _run_spec(config)
        interrupts = Interrupts()
        with interrupts.caught(), _watched(config) as progress:
            try:
                _run(spec, state, progress, interrupts)
            except HarnessError as error:
                state.broke = str(error)
    if state.record is not None:
        config.stash[RECORD] = state.record
    return True if state.broke else None


def _run(spec: RunSpec, state: _State, progress: ProgressSink, interrupts: Interrupts) -> None:
    from bench import run

    try:
        state.record, state.record_path = run.execute(spec, progress, interrupts)
    except RunInterrupted as interrupt:
        state.resumable = interrupt.run_id
        raise
    except (RuncardError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - the outermost edge: a fault of ours ends as exit 11, with its traceback kept
        where = run.keep_traceback(spec, traceback.format_exc())
        state.broke = f"{type(error).__name__}: {error}; the traceback is in {where}"


def _run_spec(config: pytest.Config) -> RunSpec:
    from bench import asked

    option = config.getoption
    return asked.plan(
        workload=option("--workload"),
        engine=option("--engine"),
        model=option("--model"),
        engine_url=option("--engine-url"),
        engine_args=tuple(option("--engine-arg")),
        agent=option("--agent"),
        agent_args=tuple(option("--agent-arg")),
        project=option("--project"),
        resume=option("--resume"),
        results=option("--results"),
        limits=tuple(option("--limit")),
        sandbox=not option("--unsafe-no-sandbox"),
    )


def pytest_report_teststatus(
    report: pytest.TestReport | pytest.CollectReport,
) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
    outcome = dict(getattr(report, "user_properties", ())).get("outcome")
    if outcome is None or getattr(report, "when", None) != "call":
        return None
    if outcome == "missed":
        return "missed", "m", ("MISSED", {"yellow": True})
    if outcome == "not-run":
        return "not run", "n", "NOT-RUN"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    state = config.stash[_STATE]
    if state.broke:
        terminalreporter.section("the harness broke")
        terminalreporter.write_line(state.broke)
    if state.record:
        from bench.report import tables

        terminalreporter.section("runcard")
        terminalreporter.write_line(tables.summary(state.record))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    state = session.config.stash.get(_STATE, _State())
    if state.broke or (state.record and any(case.outcome == "error" for case in state.record.cases)):
        session.exitstatus = EXIT_BROKE
    elif state.record and state.record.end in _EXIT_OF_END:
        session.exitstatus = _EXIT_OF_END[state.record.end]
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if state.resumable and reporter:
        reporter.write_line(f"interrupted; go on with the same command and --resume {state.resumable}")
    if state.record and reporter:
        from bench.report import tables

        if state.record.end in _EXIT_OF_END:
            reporter.write_line(f"{state.record.end}; go on with the same command and --resume {state.record.run_id}")
        reporter.write_line(tables.cases_line(state.record.cases))
        reporter.write_line(str(state.record_path))


@contextmanager
def _as_pytest_usage() -> Iterator[None]:
    """A user's mistake or a missing part is one message and exit 4, never a traceback."""
    try:
        yield
    except RuncardError as error:
        raise pytest.UsageError(str(error)) from error


@contextmanager
def _watched(config: pytest.Config) -> Iterator[ProgressSink]:
    """A sink that shows progress while pytest captures: a live line on a terminal, plain lines elsewhere."""
    from bench.report.live import shown

    capture = config.pluginmanager.getplugin("capturemanager")
    uncaptured = capture.global_and_fixture_disabled() if capture else nullcontext()  # none with `-p no:capture`
    with uncaptured, shown(sys.stdout) as sink:

        def say(progress: Progress) -> None:
            sink(progress.text, progress.transient)

        yield say
