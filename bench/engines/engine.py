"""Launches an engine, waits until it is ready, stops it: the engines' room as `run.py` sees it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contracts import Progress, ProgressSink
from bench.engine_profile import EngineProfile
from bench.engines.engine_http import Answer, Endpoint
from bench.engines.supervised import Supervised
from bench.errors import EngineStartError
from bench.processes import free_port
from bench.spec import EngineSpec

if TYPE_CHECKING:
    from bench.engines.profile import ProfileFile
    from bench.engines.readiness import NotReadyError

_HOST = "127.0.0.1"
_LARGE_BYTES = 2_000_000_000
_TAIL_BYTES = 20_000
_TAIL_LINES = 15
_TAIL_COLUMNS = 300


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What is to be started, with everything filled in; `contracts.EngineHandle` but for the process."""

    profile: EngineProfile
    host: str
    port: int
    argv: tuple[str, ...]
    environment: dict[str, str]
    """Added to the inherited one."""

    version: str
    binary_sha256: str | None
    model: str
    model_sha256: str | None
    log: Path
    disk_cache: Path | None
    """Folder of a prefix cache that outlives the process; None: there is none."""

    warm_arg: str | None
    """An argument with which a new process may find an old cache; None: there is none."""

    not_known: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The line that does the same by hand."""
        prefix = ["env", *(f"{name}={value}" for name, value in self.environment.items())] if self.environment else []
        return shlex.join([*prefix, *self.argv])


class LaunchedEngine:
    """A launched engine that is ready; implements `contracts.EngineHandle`."""

    def __init__(
        self,
        launch: Launch,
        supervised: Supervised,
        *,
        context_window: int | None,
        granted: Mapping[str, str],
        ready_seconds: float,
    ) -> None:
        self.owned = True
        self.profile = launch.profile
        self.host = launch.host
        self.port = launch.port
        self.argv = launch.argv
        self.version = launch.version
        self.binary_sha256 = launch.binary_sha256
        self.model = launch.model
        self.model_sha256 = launch.model_sha256
        self.context_window = context_window
        self.granted = granted
        window = "the engine does not tell it where its profile looks"
        self.not_known: Mapping[str, str] = {
            **launch.not_known,
            **({"context_window": window} if context_window is None else {}),
        }
        self.log: Path | None = launch.log
        self.disk_cache = launch.disk_cache
        self.warm_arg = launch.warm_arg
        self.ready_seconds = ready_seconds
        """From the start of the process to its first 200."""

        self._supervised = supervised
        self._endpoint = Endpoint(launch.host, launch.port)
        self._stopped = False

    def ask(self, method: str, path: str, body: object = None, *, seconds: float = 5.0) -> Answer:
        """One HTTP request to the engine, past the relay; see `Endpoint.ask`."""
        return self._endpoint.ask(method, path, body, seconds=seconds)

    @property
    def pid(self) -> int | None:
        """The engine's own process; None once it has ended."""
        self._supervised.listen()
        return None if self._supervised.ended else self._supervised.pid

    def dead(self) -> str | None:
        """Why the engine is no longer there, or None while it lives."""
        if self._stopped:
            return "the harness stopped it"
        self._supervised.listen()
        return str(self._supervised.ended) if self._supervised.ended else None

    def stop(self) -> None:
        """Ends the engine and everything it started, and waits until it is seen dead. Safe to call twice."""
        self._supervised.stop()
        self._stopped = True


def launch(spec: EngineSpec, *, workload_id: str, folder: Path, progress: ProgressSink) -> LaunchedEngine:
    """Starts the engine that `spec` names and waits until it is ready; its log and files lie in `folder` (made if missing).

    Raises UsageError (unknown engine, one that can only be attached, script or model file), MissingPartError (not
    installed) before anything starts; EngineStartError with the command, the last lines of the log and what to do
    when it dies, stays silent, or somebody else holds its port.
    """
    from bench.engines.profile import launch_part, read_profile
    from bench.engines.program import sha256_of
    from bench.engines.served_model import check_args, check_gguf, default_model, folder_sha256, script_folder

    profile = read_profile(spec.name)
    kind = launch_part(profile).model
    check_args(profile, spec.args)
    model, file, digest, script = spec.model, None, None, None
    if kind == "file":
        file = check_gguf(spec.model_file or Path(spec.model))
        model = model or file.stem
        if file.stat().st_size > _LARGE_BYTES:
            progress(Progress(text=f"{profile.title}: reading {file.name} once for its digest"))
        digest = sha256_of(file)
    elif kind == "script":
        model = model or default_model(spec.name, workload_id)
        script = script_folder(model, workload_id)
        digest = folder_sha256(script)
    values = {"model": model, "model_file": str(file or ""), "script": str(script or "")}
    planned = plan_launch(profile, name=spec.name, values=values, args=spec.args, model_sha256=digest, folder=folder)
    return start(planned, profile, progress=progress)


def plan_launch(
    profile: ProfileFile,
    *,
    name: str,
    values: dict[str, str],
    args: tuple[str, ...],
    model_sha256: str | None,
    folder: Path,
) -> Launch:
    """Finds the program, chooses a port, fills in the arguments. Raises MissingPartError. Starts nothing."""
    from bench.engines.profile import launch_part
    from bench.engines.program import find_program

    how = launch_part(profile)
    port = free_port(_HOST)
    folder.mkdir(parents=True, exist_ok=True)
    full = {**values, "host": _HOST, "port": str(port), "folder": str(folder.absolute())}
    arguments = (*(text.format_map(full) for text in how.argv), *args)
    program = find_program(how, title=profile.title, by_hand=arguments)
    unknown = {
        "binary_sha256": None if program.binary_sha256 else "the program is not one file that could be read",
        "model_sha256": None if model_sha256 else "the engine finds the model by itself; no file was given",
    }
    return Launch(
        profile=profile.contract(name),
        host=_HOST,
        port=port,
        argv=(*program.argv, *arguments),
        environment={key: text.format_map(full) for key, text in how.environment.items()},
        version=program.version,
        binary_sha256=program.binary_sha256,
        model=values["model"],
        model_sha256=model_sha256,
        log=folder / "engine.log",
        disk_cache=Path(how.disk_cache.format_map(full)) if how.disk_cache else None,
        warm_arg=next((arg for arg in args if arg.partition("=")[0] in how.warm_args), None),
        not_known={name: why for name, why in unknown.items() if why is not None},
    )


def start(planned: Launch, profile: ProfileFile, *, progress: ProgressSink) -> LaunchedEngine:
    """Starts what was planned and waits until it is ready. Raises EngineStartError; then nothing of it is left."""
    from bench.engines.granted import Facts
    from bench.engines.profile import launch_part
    from bench.engines.readiness import NotReadyError, wait_until_ready

    endpoint = Endpoint(planned.host, planned.port)
    logged_before = planned.log.stat().st_size if planned.log.exists() else 0
    with ExitStack() as undo:
        supervised = Supervised(
            planned.argv,
            environment=planned.environment,
            log=planned.log,
            stop_seconds=launch_part(profile).stop_seconds,
        )
        undo.callback(supervised.stop)
        try:
            seconds = wait_until_ready(
                supervised, endpoint=endpoint, ready=profile.ready, title=profile.title, progress=progress
            )
        except NotReadyError as error:
            supervised.stop()
            raise EngineStartError(_trouble(planned, error, logged_before)) from None
        facts = Facts(endpoint, model=planned.model, log=planned.log, log_from=logged_before)
        window, granted = facts.context_window(profile), facts.granted(profile)
        undo.pop_all()
    if seconds > 2.0:
        progress(Progress(text=f"{profile.title}: ready after {seconds:.1f} s"))
    return LaunchedEngine(planned, supervised, context_window=window, granted=granted, ready_seconds=seconds)


def last_lines(log: Path, *, after: int = 0) -> tuple[str, ...]:
    """The last lines of an engine's log from byte `after` on, cut short and without control characters."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(after, size - _TAIL_BYTES))
        text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
    return tuple("".join(c if c.isprintable() else " " for c in line)[:_TAIL_COLUMNS] for line in lines)


def _trouble(planned: Launch, error: NotReadyError, logged_before: int) -> str:
    tail = last_lines(planned.log, after=logged_before)
    log = "\n".join(f"    {line}" for line in tail) if tail else "    (nothing)"
    return (
        f"{planned.profile.title} did not start: {error.why}\n"
        f"  command: {planned.command}\n"
        f"  last lines of {planned.log}:\n{log}\n"
        f"  what to do: {error.advice}"
    )
