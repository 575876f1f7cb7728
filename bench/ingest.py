"""Makes a record of a run that was not started by us: copies what it left, matches after the fact, computes the figures."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.engine_profile import EngineProfile
from bench.engines.profile import list_profiles, read_profile
from bench.errors import UsageError
from bench.figures import ingested_folder as places
from bench.figures.ingested_folder import figures_of_ingested
from bench.figures.run_figures import RunFigures
from bench.ingest_sessions import FoundSession, find_sessions
from bench.measure.log_summaries import read_summaries
from bench.records import cases_file, provenance, requests_file, store
from bench.records.schema import SCHEMA_VERSION, RunRecord
from bench.records.snapshot import write_atomically
from bench.spec import REPOSITORY

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,150}")


@dataclass(frozen=True, kw_only=True)
class Left:
    """What a run left behind, as the user names it."""

    agent_sessions: Path
    agent: str = "pi"
    engine_log: Path
    engine: str | None = None
    """Name of a profile; None: the one whose patterns find requests in the log."""

    metrics: Path | None = None
    journal: Path | None = None
    memory: Path | None = None
    name: str | None = None


def ingest(left: Left, results: Path = REPOSITORY / "results") -> tuple[RunRecord, Path]:
    """Makes the record, and leaves nothing behind where that fails. The files that are ingested stay as they are.

    Raises UsageError and FileFormatError for a wrong call; damaged files are warnings of the record.
    """
    if left.name is not None and not _NAME.fullmatch(left.name):
        raise UsageError(f"--name {left.name}: expected lower-case letters, digits, dots and dashes")
    for option, path in (("--engine-log", left.engine_log), *_extras(left)):
        _regular(option, path)
    profile = _profile(left)
    sessions = find_sessions(left.agent_sessions, left.agent, left.journal)
    model = next((one.kept.model for one in sessions if one.kept.model), None)
    began = min((one.kept.started_at for one in sessions if one.kept.started_at is not None), default=None)
    day = datetime.now(UTC) if began is None else datetime.fromtimestamp(began, UTC)
    wanted = left.name or store.run_name(
        f"{day:%Y-%m-%d}", model or "unknown-model", profile.name, left.agent, "ingested"
    )
    folder = store.new_run(store.prepare(results), wanted)
    try:
        with store.locked(folder):
            _copy(left, sessions, profile, folder)
            identity = {"ingested": True, "engine": profile.name, "model": model, "agent": left.agent}
            return _keep(folder, identity)
    except BaseException:
        shutil.rmtree(folder)
        raise


def _extras(left: Left) -> list[tuple[str, Path]]:
    named = (("--metrics", left.metrics), ("--journal", left.journal), ("--memory", left.memory))
    return [(option, path) for option, path in named if path is not None]


def _regular(option: str, path: Path) -> None:
    try:
        kind = path.stat().st_mode
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(kind) or not os.access(path, os.R_OK):
        raise UsageError(f"{option} {path}: expected a file that can be read")


def _profile(left: Left) -> EngineProfile:
    """The profile that was named, else the only one whose patterns find requests in the log."""
    if left.engine is not None:
        profile = read_profile(left.engine).contract(left.engine)
        if profile.log_summary is None:
            raise UsageError(f"--engine {left.engine}: its profile has no log_summary, so nothing can be matched")
        return profile
    profiles = [read_profile(name).contract(name) for name in list_profiles()]
    told = [one for one in profiles if one.log_summary is not None]
    found = {
        one.name: len(read_summaries(left.engine_log, one.log_summary, warn=lambda _: None))
        for one in told
        if one.log_summary is not None
    }
    fitting = [one for one in told if found[one.name]]
    if len(fitting) != 1:
        said = ", ".join(f"{one.name} ({found[one.name]})" for one in fitting) or "no profile"
        raise UsageError(
            f"--engine-log {left.engine_log}: requests are found in it by {said}; "
            f"name the engine with --engine, one of {', '.join(one.name for one in told)}"
        )
    return fitting[0]


def _copy(left: Left, sessions: list[FoundSession], profile: EngineProfile, folder: Path) -> None:
    """Copies all evidence into the run's folder, and writes down what was said of it."""
    for one in sessions:
        _copy_file(one.path, folder / places.SESSIONS_FOLDER / one.sheet.file)
    _copy_file(left.engine_log, folder / places.ENGINE_LOG)
    for option, path in _extras(left):
        name = {"--metrics": places.METRICS, "--journal": places.JOURNAL, "--memory": places.MEMORY}[option]
        _copy_file(path, folder / name)
    sheet: dict[str, Any] = {"format": places.FORMAT, "agent": left.agent}
    sheet["sessions"] = [asdict(one.sheet) for one in sessions]
    write_atomically(folder / places.SHEET, (json.dumps(sheet, indent=1) + "\n").encode())
    write_atomically(folder / places.PROFILE, json.dumps(asdict(profile), indent=1).encode())


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise UsageError(f"{source}: cannot be copied to {target.parent} ({error.strerror})") from error


def _keep(folder: Path, identity: dict[str, Any]) -> tuple[RunRecord, Path]:
    created_at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    begun = {"created_at": created_at, "identity": identity}
    write_atomically(folder / "run.json", (json.dumps(begun, indent=1) + "\n").encode())
    cases_file.write_cases(folder, (), score_group="")
    found = figures_of_ingested(folder)
    evidence = found.evidence
    requests_file.write_requests(folder, evidence.requests)
    simulated = evidence.profile is not None and evidence.profile.simulated
    record = RunRecord(
        schema_version=SCHEMA_VERSION,
        run_id=folder.name,
        end="ingested",
        reason="",
        valid=cases_file.is_valid("ingested", ()),
        simulated=simulated,
        created_at=created_at,
        identity={**identity, "simulated": simulated},
        configuration=_configuration(found),
        segments=evidence.segments,
        sessions=evidence.sessions,
        tasks=evidence.tasks,
        cases=(),
        figures=found.figures,
        warnings=found.warnings,
        deviations=("not started by runcard: no relay, no box, no hidden cases",),
        evidence=store.manifest(folder),
    )
    return record, store.write_record(folder, record, max(1, len(evidence.segments)))


def _configuration(found: RunFigures) -> dict[str, Any]:
    """What the journal says was granted, and what made the record."""
    started = (entry for entry in reversed(found.evidence.journal) if entry.event == "segment-started")
    told = next(started, None)
    granted = told.detail.get("configuration") if told is not None else None
    ingested_by = {"harness": provenance.harness()}
    return {**granted, "ingested_by": ingested_by} if isinstance(granted, dict) else {"ingested_by": ingested_by}
