"""From what was asked to a record: the only place where the parts are joined. `execute` reads as the data flow."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.agents.adapters import open_adapter
from bench.agents.probing import probe
from bench.asked import begin, begun_with, default_limits, run_folder, told
from bench.contracts import Box, Progress, ProgressSink
from bench.figures.deviations import (
    alterations,
    configurations,
    isolation_deviations,
    run_deviations,
    weakest_isolation,
)
from bench.figures.run_figures import figures_of_run
from bench.interrupts import Interrupts, RunInterrupted
from bench.loop.journal import Journal, last_snapshot, read_journal
from bench.loop.perform import LoopParts, drive
from bench.loop.steps import End, next_step
from bench.loop.taming import tame
from bench.loop.verifying import run_verify
from bench.loop.workspace import Workspace
from bench.records import cases_file, requests_file, store
from bench.records.alterations import altered_since_record
from bench.records.cases_file import SCORED_ENDS
from bench.records.schema import SCHEMA_VERSION, CaseResult, JournalEntry, RunEnd, RunRecord
from bench.records.snapshot import BlobStore, Snapshot, empty, load, restore, save, take
from bench.sandbox.box import open_box
from bench.scoring.hidden_set import expected_cases
from bench.scoring.judge import judge
from bench.served import configuration, preflight, serve_session, served
from bench.spec import RunSpec, Subject


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the subject's part of a run ended, and the project it left."""

    kind: RunEnd
    reason: str
    project: Snapshot | None = None
    altered: tuple[str, ...] = ()
    """Evidence that had changed since the last record of a run that had ended already."""


def execute(spec: RunSpec, progress: ProgressSink, interrupts: Interrupts) -> tuple[RunRecord, Path]:
    """Makes, or goes on with, one run; returns its record and where that is written.

    Raises UsageError, MissingPartError, BusyError, EngineStartError before anything is measured; HarnessError where the
    harness broke; RunInterrupted where it was stopped at once. A run that was asked to stop at a whole place returns:
    its record ends `interrupted`.
    """
    box = open_box(unsafe=not spec.sandbox, secret=(spec.workload.hidden, spec.results))
    folder = run_folder(spec)
    with store.locked(folder), _private_folder(folder) as private:
        progress(Progress(text=f"run {folder.name}: {told(spec)}, box {box.name}"))
        before = _segments(folder)
        try:
            ending = _ending(spec, folder, private / "project", box, progress, interrupts)
            cases = _judge(spec, folder, private / "judged", ending, progress)
        except KeyboardInterrupt:
            with interrupts.held_off():
                raise RunInterrupted(_kept_interrupted(spec, folder, box, before)) from None
        with interrupts.held_off():
            return _keep(spec, folder, box, ending, cases)


def keep_traceback(spec: RunSpec, text: str) -> Path:
    """Keeps the traceback of a fault of ours beside the runs and says where."""
    place = spec.results / f"harness-fault-{datetime.now(UTC):%Y%m%dT%H%M%S}.txt"
    try:
        place.write_text(text, encoding="utf-8")
    except OSError:  # a full disk may be the fault itself
        place = Path(tempfile.gettempdir()) / place.name
        with contextlib.suppress(OSError):
            place.write_text(text, encoding="utf-8")
    return place


@contextmanager
def _private_folder(folder: Path) -> Iterator[Path]:
    """Where untrusted files lie while a run goes on: away from the repository, the same place for every segment.

    It depends on the run alone, so what a killed harness left there is found and removed.
    """
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    place = Path(tempfile.gettempdir()).resolve() / f"runcard-{name}"
    if place.is_dir() and not place.is_symlink():
        empty(place)
        place.rmdir()
    place.mkdir(mode=0o700)
    try:
        yield place
    finally:
        empty(place)
        place.rmdir()


# --- the subject's part --------------------------------------------------------------------------------------------


def _ending(  # noqa: PLR0917 - the flow's own parts, each once
    spec: RunSpec, folder: Path, project: Path, box: Box, progress: ProgressSink, interrupts: Interrupts
) -> Ending:
    if spec.subject is not None:
        return _drive(spec, spec.subject, folder, project, box, progress, interrupts)
    if spec.project is None:
        raise ValueError("a run has a subject or a project")
    begin(spec, folder)
    snapshot = take(spec.project, BlobStore(folder / "blobs"))
    save(snapshot, folder / "snapshots")
    return Ending(kind="scored", reason="", project=snapshot)


def _drive(  # noqa: PLR0917 - as _ending
    spec: RunSpec,
    subject: Subject,
    folder: Path,
    project: Path,
    box: Box,
    progress: ProgressSink,
    interrupts: Interrupts,
) -> Ending:
    """Serves the model, runs the loop to its end, and gives the project as it then stood."""
    adapter = open_adapter(subject.agent)
    journal = Journal.open(folder / "journal.jsonl")
    end = next_step(journal.entries, spec.workload.limits, spec.workload.drive) if journal.entries else None
    over = isinstance(end, End) and end.kind != "blocked"
    altered = altered_since_record(folder, served_anew=not over)
    if not isinstance(end, End) or end.kind == "blocked":
        project.mkdir()
        probe(adapter, box=box, home=project.parent / "agent")
        with served(
            spec,
            subject,
            folder=folder,
            private=project.parent,
            earlier_salt=_earlier_salt(journal.entries),
            progress=progress,
        ) as by:
            begin(spec, folder, model_sha256=by.engine.model_sha256)
            parts = LoopParts(
                workload=spec.workload,
                run_id=folder.name,
                journal=journal,
                workspace=Workspace(project=project, blobs=folder / "blobs", snapshots=folder / "snapshots"),
                run_session=lambda request: serve_session(
                    request, by, adapter=adapter, box=box, progress=progress, interrupts=interrupts
                ),
                run_verify=lambda request: run_verify(request, box=box, stop_requested=interrupts.asked),
                preflight=lambda: preflight(by, run_id=folder.name, sessions=folder / "sessions"),
                model=by.engine.model,
                context_window=by.engine.context_window,
                sessions_folder=folder / "sessions",
                progress=progress,
                stop_requested=interrupts.asked,
                clock=time.time,
                sleep=time.sleep,
                cache=str(by.cache),
                salt=by.cache.salt,
                configuration={
                    **configuration(by, adapter=adapter, box=box),
                    "own_limits": asdict(default_limits(spec)),
                    "altered": list(altered),
                },
            )
            with interrupts.gracefully():
                end = drive(parts)
    digest = last_snapshot(journal.entries)
    project_left = load(folder / "snapshots", digest) if digest else None
    return Ending(kind=end.kind, reason=tame(end.reason, 2_000), project=project_left, altered=altered if over else ())


def _earlier_salt(journal: Sequence[JournalEntry]) -> str | None:
    """The line that this run's prompts began with before."""
    salts = (entry.detail.get("salt") for entry in reversed(journal) if entry.event == "segment-started")
    return next((str(salt) for salt in salts if salt), None)


# --- scoring -------------------------------------------------------------------------------------------------------


def _judge(spec: RunSpec, folder: Path, judged: Path, ending: Ending, progress: ProgressSink) -> tuple[CaseResult, ...]:
    """Judges the project's snapshot by the hidden cases, or lists them as not run where there is nothing to judge."""
    if ending.kind not in SCORED_ENDS or ending.project is None:
        return _not_judged(spec, ending)
    progress(Progress(text=f"judging by the hidden cases of {spec.workload.id}"))
    restore(ending.project, BlobStore(folder / "blobs"), judged)
    return judge(workload=spec.workload, project=judged, evidence=folder / "scoring", unsafe=not spec.sandbox)


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


# --- the record ----------------------------------------------------------------------------------------------------


def _kept_interrupted(spec: RunSpec, folder: Path, box: Box, before: int) -> str | None:
    """Writes a record that ends `interrupted` if a segment began in this call: an older record is never replaced by less.

    Returns the run's id if there is something to go on with.
    """
    now = _segments(folder)
    if now > before:
        ending = Ending(kind="interrupted", reason="stopped at once")
        _keep(spec, folder, box, ending, _not_judged(spec, ending))
    return folder.name if now else None


def _segments(folder: Path) -> int:
    entries = read_journal(folder / "journal.jsonl").entries
    return sum(entry.event == "segment-started" for entry in entries)


def _keep(
    spec: RunSpec, folder: Path, box: Box, ending: Ending, cases: tuple[CaseResult, ...]
) -> tuple[RunRecord, Path]:
    """Computes the figures from the evidence and writes the record."""
    cases_file.write_cases(folder, cases, score_group=spec.workload.score_group)
    agent = spec.subject.agent if spec.subject else None
    found = figures_of_run(folder, agent=agent, cases=cases, score_group=spec.workload.score_group)
    evidence = found.evidence
    if evidence.segments:
        requests_file.write_requests(folder, evidence.requests)
    judged_in = {"name": box.name, "isolation": box.isolation}
    granted = configurations(evidence.journal)
    boxes = [one["box"] for one in granted] or [judged_in]
    begun = begun_with(folder)
    simulated = evidence.profile is not None and evidence.profile.simulated
    record = RunRecord(
        schema_version=SCHEMA_VERSION,
        run_id=folder.name,
        end=ending.kind,
        reason=ending.reason,
        valid=cases_file.is_valid(ending.kind, cases),
        simulated=simulated,
        created_at=begun["created_at"],
        identity={**begun["identity"], "isolation": weakest_isolation(boxes), "simulated": simulated},
        configuration={"limits": asdict(spec.workload.limits), **(granted[-1] if granted else {})},
        segments=evidence.segments,
        sessions=evidence.sessions,
        tasks=evidence.tasks,
        cases=cases,
        figures=found.figures,
        warnings=(
            *found.warnings,
            *alterations(evidence.journal),
            *(f"evidence had changed since the last record: {path}" for path in ending.altered),
        ),
        deviations=run_deviations(evidence.journal) if granted else isolation_deviations(boxes),
        evidence=store.manifest(folder),
    )
    return record, store.write_record(folder, record, max(1, len(evidence.segments)))
