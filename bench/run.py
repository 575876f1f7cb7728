"""From what was asked to a record: the only place where the parts are joined. `execute` reads as the data flow."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.agents.adapters import Adapter, open_adapter
from bench.agents.agent import run_session
from bench.asked import begun_with, run_folder, told
from bench.contracts import Box, Progress, ProgressSink, SessionLabel, SessionRequest, SessionResult
from bench.engines.engine import LaunchedEngine, launch
from bench.errors import EngineStartError, UsageError
from bench.figures.compute import compute
from bench.figures.run_folder import read_folder
from bench.interrupts import Interrupts
from bench.loop.journal import Journal, last_snapshot
from bench.loop.perform import LoopParts, drive
from bench.loop.steps import End, next_step
from bench.loop.verifying import run_verify
from bench.loop.workspace import Workspace
from bench.measure.memory import MemorySampler
from bench.measure.relay import Relay
from bench.records import provenance, store
from bench.records.schema import SCHEMA_VERSION, CaseResult, RunEnd, RunRecord
from bench.records.snapshot import BlobStore, Snapshot, empty, load, restore, save, take, write_atomically
from bench.sandbox.box import open_box
from bench.scoring.hidden_set import expected_cases
from bench.scoring.judge import judge
from bench.spec import RunSpec

_PREFLIGHT_SECONDS = 120.0

SCORED_ENDS = ("complete", "unconverged", "limited", "scored")
"""Ends after which the hidden cases are judged; after the others they are not run."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the subject's part of a run ended, and the project it left."""

    kind: RunEnd
    reason: str
    project: Snapshot | None = None


def execute(spec: RunSpec, progress: ProgressSink, interrupts: Interrupts) -> tuple[RunRecord, Path]:
    """Makes, or goes on with, one run; returns its record and where that is written.

    Raises UsageError, MissingPartError, BusyError, EngineStartError before anything is measured; HarnessError where the
    harness broke. A run that was asked to stop has a record that ends `interrupted`.
    """
    box = open_box(unsafe=not spec.sandbox, secret=(spec.workload.hidden, spec.results))
    folder = run_folder(spec)
    with store.locked(folder):
        progress(Progress(text=f"run {folder.name}: {told(spec)}, box {box.name}"))
        try:
            ending = (
                _score_only(spec.project, folder) if spec.project else _drive(spec, folder, box, progress, interrupts)
            )
        except KeyboardInterrupt:
            _keep(
                spec,
                folder,
                box,
                ending := Ending(kind="interrupted", reason="stopped at once"),
                _not_judged(spec, ending),
            )
            raise
        cases = _judge(spec, folder, ending, progress)
        return _keep(spec, folder, box, ending, cases)


def keep_traceback(spec: RunSpec, text: str) -> Path:
    """Keeps the traceback of a fault of ours beside the runs and says where."""
    place = spec.results / f"harness-fault-{datetime.now(UTC):%Y%m%dT%H%M%S}.txt"
    place.write_text(text, encoding="utf-8")
    return place


def _adapter(spec: RunSpec) -> Adapter:
    if spec.agent is None:
        raise UsageError("a run needs an agent")
    return open_adapter(spec.agent)


# --- the subject's part --------------------------------------------------------------------------------------------


def _score_only(project: Path, folder: Path) -> Ending:
    snapshot = take(project, BlobStore(folder / "blobs"))
    save(snapshot, folder / "snapshots")
    return Ending(kind="scored", reason="", project=snapshot)


def _drive(spec: RunSpec, folder: Path, box: Box, progress: ProgressSink, interrupts: Interrupts) -> Ending:
    """Serves the model, runs the loop to its end, and gives the project as it then stood."""
    adapter = _adapter(spec)
    journal = Journal.open(folder / "journal.jsonl")
    end = next_step(journal.entries, spec.workload.limits, spec.workload.drive) if journal.entries else None
    if not isinstance(end, End) or end.kind == "blocked":
        with _project_folder(folder) as project, _served(spec, folder, progress) as served:
            parts = LoopParts(
                workload=spec.workload,
                run_id=folder.name,
                journal=journal,
                workspace=Workspace(project=project, blobs=folder / "blobs", snapshots=folder / "snapshots"),
                run_session=lambda request: _run_session(
                    request, served, adapter=adapter, box=box, progress=progress, interrupts=interrupts
                ),
                run_verify=lambda request: run_verify(request, box=box, stop_requested=interrupts.asked),
                preflight=lambda: _preflight(folder, folder.name, served),
                model=served.engine.model,
                context_window=served.engine.context_window,
                sessions_folder=folder / "sessions",
                progress=progress,
                stop_requested=interrupts.asked,
                clock=time.time,
                sleep=time.sleep,
                configuration=_configuration(spec, box, served),
            )
            with interrupts.gracefully():
                end = drive(parts)
    digest = last_snapshot(journal.entries)
    project_left = load(folder / "snapshots", digest) if digest else None
    return Ending(kind=end.kind, reason=end.reason, project=project_left)


@contextmanager
def _project_folder(folder: Path) -> Iterator[Path]:
    """The workspace on the host: a private folder away from the repository, the same for every segment of a run.

    Its place depends on the run alone, so what a killed harness left there is found and removed.
    """
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    place = Path(tempfile.gettempdir()).resolve() / f"runcard-{name}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
    try:
        (place / "project").mkdir()
        yield place / "project"
    finally:
        empty(place)
        place.rmdir()


@dataclass(frozen=True, kw_only=True)
class Served:
    """A running engine with the relay in front of it and the memory sampler beside it."""

    engine: LaunchedEngine
    relay: Relay
    sampler: MemorySampler


@contextmanager
def _served(spec: RunSpec, folder: Path, progress: ProgressSink) -> Iterator[Served]:
    if spec.engine is None:
        raise UsageError("a run needs an engine")
    number = 1 + len(list((folder / "engine").glob("launch-*")))
    engine = launch(
        spec.engine, workload_id=spec.workload.id, folder=folder / "engine" / f"launch-{number}", progress=progress
    )
    try:
        write_atomically(folder / "engine" / "profile.json", json.dumps(asdict(engine.profile), indent=1).encode())
        with (
            MemorySampler(folder / "memory.jsonl", engine_pid=lambda: engine.pid) as sampler,
            Relay(engine.host, engine.port, api_key=None, engine_process=number) as relay,
        ):
            yield Served(engine=engine, relay=relay, sampler=sampler)
    finally:
        engine.stop()


def _run_session(
    request: SessionRequest,
    served: Served,
    *,
    adapter: Adapter,
    box: Box,
    progress: ProgressSink,
    interrupts: Interrupts,
) -> SessionResult:
    """One agent process with a relay address of its own, which is gone when it ends."""
    served.sampler.boundary()
    address = served.relay.open_session(request.label, request.evidence)
    try:
        return run_session(
            request,
            adapter=adapter,
            box=box,
            relay=address,
            exchanges=lambda: served.relay.exchanges(request.label),
            engine_dead=served.engine.dead,
            profile=served.engine.profile,
            progress=progress,
            stop_requested=interrupts.asked,
        )
    finally:
        served.relay.close_session(request.label)
        served.sampler.boundary()


def _preflight(folder: Path, run_id: str, served: Served) -> str:
    """One small question through the relay; its traffic is session 0 and stays out of every figure."""
    place = folder / "sessions" / "000"
    place.mkdir(parents=True, exist_ok=True)
    label = SessionLabel(run_id=run_id, session=0, role="preflight", task=None, attempt=1, retry=0)
    address = served.relay.open_session(label, place)
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=_PREFLIGHT_SECONDS)
    question = {"model": served.engine.model, "max_tokens": 1, "messages": [{"role": "user", "content": "Say OK."}]}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(question), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read(2_000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise EngineStartError(
            f"the engine is ready but does not answer ({error}); its log: {served.engine.log}"
        ) from error
    finally:
        connection.close()
        served.relay.close_session(label)
    if answer.status != 200:
        raise EngineStartError(
            f"the engine is ready but answers a first small question with HTTP {answer.status}: {said[:300]}; its log: {served.engine.log}"
        )
    window = served.engine.context_window
    return f"the engine answers; context window {f'{window:,} tokens' if window else 'not reported'}"


def _configuration(spec: RunSpec, box: Box, served: Served) -> dict[str, Any]:
    """What was granted in this segment, for the journal and the record."""
    engine = served.engine
    return {
        "engine": {
            "name": engine.profile.name,
            "version": engine.version,
            "simulated": engine.profile.simulated,
            "argv": list(engine.argv),
            "binary_sha256": engine.binary_sha256,
            "model": engine.model,
            "model_sha256": engine.model_sha256,
        },
        "agent": {"name": spec.agent.name, "version": open_adapter(spec.agent).version} if spec.agent else None,
        "box": {"name": box.name, "isolation": box.isolation},
        "harness": provenance.harness(),
        "host": provenance.host(),
    }


# --- scoring and the record ----------------------------------------------------------------------------------------


def _judge(spec: RunSpec, folder: Path, ending: Ending, progress: ProgressSink) -> tuple[CaseResult, ...]:
    """Judges the project's snapshot by the hidden cases, or lists them as not run where there is nothing to judge."""
    if ending.kind not in SCORED_ENDS or ending.project is None:
        return _not_judged(spec, ending)
    progress(Progress(text=f"judging by the hidden cases of {spec.workload.id}"))
    with tempfile.TemporaryDirectory(prefix="runcard-judged-") as place:
        project = Path(place) / "project"
        restore(ending.project, BlobStore(folder / "blobs"), project)
        return judge(workload=spec.workload, project=project, evidence=folder / "scoring", unsafe=not spec.sandbox)


def _not_judged(spec: RunSpec, ending: Ending) -> tuple[CaseResult, ...]:
    why = f"the run is {ending.kind}: {ending.reason}" if ending.reason else f"the run is {ending.kind}"
    return tuple(
        CaseResult(
            id=case.id,
            group=case.group,
            outcome="not-run",
            brief=case.brief,
            observed=None,
            expected=None,
            reason=case.not_run or why,
            seconds=None,
        )
        for case in expected_cases(spec.workload.hidden)
    )


def _keep(
    spec: RunSpec, folder: Path, box: Box, ending: Ending, cases: tuple[CaseResult, ...]
) -> tuple[RunRecord, Path]:
    """Computes the figures from the evidence and writes the record."""
    write_atomically(folder / "cases.json", json.dumps([asdict(case) for case in cases], indent=1).encode())
    warnings: list[str] = []
    evidence = read_folder(
        folder,
        adapter=open_adapter(spec.agent) if spec.agent else None,
        cases=cases,
        score_group=spec.workload.score_group,
        warn=warnings.append,
    )
    granted: dict[str, Any] = next(
        (entry.detail["configuration"] for entry in reversed(evidence.journal) if entry.event == "segment-started"), {}
    )
    begun = begun_with(folder)
    simulated = evidence.profile is not None and evidence.profile.simulated
    record = RunRecord(
        schema_version=SCHEMA_VERSION,
        run_id=folder.name,
        end=ending.kind,
        reason=ending.reason,
        valid=ending.kind in SCORED_ENDS and all(case.outcome != "error" for case in cases),
        simulated=simulated,
        created_at=begun["created_at"],
        identity={**begun["identity"], "isolation": box.isolation, "simulated": simulated},
        configuration={"limits": asdict(spec.workload.limits), **granted},
        segments=evidence.segments,
        sessions=evidence.sessions,
        tasks=evidence.tasks,
        cases=cases,
        figures=compute(evidence),
        warnings=tuple(warnings),
        deviations=_deviations(spec, box),
        evidence=store.manifest(folder),
    )
    return record, store.write_record(folder, record, max(1, len(evidence.segments)))


def _deviations(spec: RunSpec, box: Box) -> tuple[str, ...]:
    found = [f"limit {name} set to {value:g}" for name, value in sorted(spec.limit_overrides.items())]
    if box.isolation == "none":
        found.append("no box: agent and project could reach this machine, hidden cases included (--unsafe-no-sandbox)")
    elif box.isolation == "weaker":
        found.append(f"weaker isolation: {box.name}")
    return tuple(found)
