"""What was asked: options into a validated spec, and the folder of the run that they begin or go on with."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.agents.adapters import open_adapter
from bench.engines.profile import read_profile
from bench.engines.served_model import engine_spec
from bench.errors import EvidenceError, UsageError
from bench.records import store
from bench.records.snapshot import BlobStore, take, write_atomically
from bench.scoring.hidden_set import expected_cases, hidden_digest
from bench.spec import REPOSITORY, AgentSpec, RunSpec, apply_limit, read_workload


def plan(
    *,
    workload: str,
    engine: str,
    model: str | None,
    engine_args: tuple[str, ...],
    agent: str,
    project: str | None,
    resume: str | None,
    results: str | None,
    limits: tuple[str, ...],
    sandbox: bool,
) -> RunSpec:
    """Validates everything that was asked before anything starts. Raises UsageError, FileFormatError, MissingPartError."""
    overrides = dict(apply_limit(text) for text in limits)
    asked = read_workload(workload, {**read_profile(engine).limits, **overrides})
    expected_cases(asked.hidden)
    folder = store.prepare(Path(results).expanduser() if results else REPOSITORY / "results")
    if project is not None:
        if resume is not None or model is not None or engine_args:
            raise UsageError(
                "--project scores a folder at once: --resume, --model and --engine-arg have no place there"
            )
        place = Path(project).expanduser()
        if not place.is_dir():
            raise UsageError(f"--project {project}: no such folder")
        return RunSpec(
            workload=asked, engine=None, agent=None, project=place.resolve(), results=folder, sandbox=sandbox
        )
    spec = RunSpec(
        workload=asked,
        engine=engine_spec(engine=engine, model=model, args=engine_args, workload_id=workload),
        agent=AgentSpec(name=agent),
        results=folder,
        resume=store.find_run(folder, resume) if resume else None,
        sandbox=sandbox,
        limit_overrides=overrides,
    )
    open_adapter(AgentSpec(name=agent))
    return spec


def told(spec: RunSpec) -> str:
    """One line that says what a run is about."""
    if spec.engine is None or spec.agent is None:
        return f"scoring a project by the hidden cases of {spec.workload.id}"
    return f"{spec.workload.id}, engine {spec.engine.name}, model {spec.engine.model}, agent {spec.agent.name}"


def run_folder(spec: RunSpec) -> Path:
    """A new folder with `run.json`, or that of the run that is resumed, which must be the same run."""
    asked = _identity(spec)
    if spec.resume is not None:
        earlier = begun_with(spec.resume)["identity"]
        if differing := sorted(key for key in {*asked, *earlier} if asked.get(key) != earlier.get(key)):
            told = "; ".join(f"{key}: {earlier.get(key)} then, {asked.get(key)} now" for key in differing)
            raise UsageError(f"--resume {spec.resume.name} is another run ({told}); give the options it was begun with")
        return spec.resume
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    if spec.project is not None:
        with tempfile.TemporaryDirectory(prefix="runcard-") as blobs:
            wanted = f"project-{take(spec.project, BlobStore(Path(blobs))).digest[:12]}"
    elif spec.engine is not None and spec.agent is not None:
        wanted = store.run_name(date, spec.engine.model, spec.engine.name, spec.agent.name, spec.workload.id)
    else:
        raise UsageError("a run needs an engine and an agent, or a project to score")
    folder = store.new_run(spec.results, wanted)
    data = {"created_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "identity": asked}
    write_atomically(folder / "run.json", (json.dumps(data, indent=1) + "\n").encode())
    return folder


def _identity(spec: RunSpec) -> dict[str, Any]:
    """What must be equal in every segment of a run, and decides what it may be compared with."""
    workload = spec.workload
    identity: dict[str, Any] = {
        "workload": workload.id,
        "revision": workload.revision,
        "brief_sha256": workload.brief_sha256,
        "hidden_sha256": hidden_digest(workload.hidden),
        "sandbox": spec.sandbox,
    }
    if spec.engine is not None and spec.agent is not None:
        identity |= {"engine": spec.engine.name, "model": spec.engine.model, "agent": spec.agent.name}
        identity |= {"engine_args": " ".join(spec.engine.args)}
    return identity


def begun_with(folder: Path) -> dict[str, Any]:
    """`run.json`: when the run began and its identity. Raises EvidenceError."""
    try:
        data: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{folder / 'run.json'}: cannot be read ({error}); begin a new run") from error
    return data
