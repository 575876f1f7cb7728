"""What was asked: options into a validated spec, and the folder of the run that they begin or go on with."""

from __future__ import annotations

import hashlib
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
from bench.spec import REPOSITORY, AgentSpec, Limits, RunSpec, Subject, Workload, apply_limit, read_workload


def plan(
    *,
    workload: str,
    engine: str,
    model: str | None,
    engine_url: str | None,
    engine_args: tuple[str, ...],
    agent: str,
    agent_args: tuple[str, ...],
    project: str | None,
    resume: str | None,
    results: str | None,
    limits: tuple[str, ...],
    sandbox: bool,
) -> RunSpec:
    """Validates everything that was asked before anything starts. Raises UsageError, FileFormatError, MissingPartError."""
    for option, value in (
        ("model", model),
        ("engine-url", engine_url),
        ("project", project),
        ("resume", resume),
        ("results", results),
    ):
        if value == "":
            raise UsageError(f"--{option} has an empty value; an unset variable?")
    asked = read_workload(workload, {**read_profile(engine).limits, **dict(apply_limit(text) for text in limits)})
    _check_hidden(asked)
    folder = store.prepare(_path("--results", results)) if results else store.prepare(REPOSITORY / "results")
    if project is not None:
        if resume or model or engine_url or engine_args or agent_args or limits:
            raise UsageError(
                "--project scores a folder at once: options of engine, agent, limits and --resume have no place there"
            )
        place = _path("--project", project)
        if not place.is_dir():
            raise UsageError(f"--project {project}: no such folder")
        return RunSpec(workload=asked, subject=None, project=place, results=folder, sandbox=sandbox)
    subject = Subject(
        engine=engine_spec(engine=engine, model=model, url=engine_url, args=engine_args, workload_id=workload),
        agent=AgentSpec(name=agent, args=agent_args),
    )
    _check_agent(subject)
    if not sandbox and subject.engine.api_key_env is not None:
        raise UsageError(
            f"{subject.engine.api_key_env} and --unsafe-no-sandbox do not go together: without a box an agent can read the key"
        )
    earlier = store.find_run(folder, resume) if resume else None
    return RunSpec(workload=asked, subject=subject, results=folder, resume=earlier, sandbox=sandbox)


def default_limits(spec: RunSpec) -> Limits:
    """The limits of the workload and the engine's profile, without any `--limit`."""
    engine = {} if spec.subject is None else read_profile(spec.subject.engine.name).limits
    return read_workload(spec.workload.id, engine).limits


def told(spec: RunSpec) -> str:
    """One line that says what a run is about."""
    if spec.subject is None:
        return f"scoring a project by the hidden cases of {spec.workload.id}"
    engine, agent = spec.subject.engine, spec.subject.agent
    return f"{spec.workload.id}, engine {engine.name}, model {engine.model}, agent {agent.name}"


def run_folder(spec: RunSpec) -> Path:
    """The folder of a new run, or of the one that is resumed, which must be the same run. Raises UsageError."""
    if spec.resume is not None:
        _refuse_another(spec.resume, begun_with(spec.resume)["identity"], _identity(spec))
        return spec.resume
    if spec.subject is not None:
        engine, agent = spec.subject.engine, spec.subject.agent
        date = f"{datetime.now(UTC):%Y-%m-%d}"
        wanted = store.run_name(date, engine.model, engine.name, agent.name, spec.workload.id)
    else:
        with tempfile.TemporaryDirectory(prefix="runcard-") as blobs:
            wanted = f"project-{take(spec.project or Path(), BlobStore(Path(blobs))).digest[:12]}"
    return store.new_run(spec.results, wanted)


def begin(spec: RunSpec, folder: Path, *, model_sha256: str | None = None) -> None:
    """Writes `run.json`, with which a folder becomes a run; of a resumed run, holds the model against it.

    Raises UsageError where the model behind the same name is another one now.
    """
    identity = {**_identity(spec), "model_sha256": model_sha256}
    if (folder / "run.json").exists():
        _refuse_another(folder, begun_with(folder)["identity"], identity)
        return
    data = {"created_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "identity": identity}
    write_atomically(folder / "run.json", (json.dumps(data, indent=1) + "\n").encode())


def begun_with(folder: Path) -> dict[str, Any]:
    """`run.json`: when the run began and its identity. Raises EvidenceError where it is damaged."""
    place = folder / "run.json"
    try:
        data = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(f"{place}: cannot be read ({error}); begin a new run") from error
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("identity"), dict)
        or not isinstance(data.get("created_at"), str)
    ):
        raise EvidenceError(f"{place}: damaged; begin a new run")
    return data


_SAID = {"agent_sha256": "the agent's profile, settings or skills are not what they were"}
"""Instead of two digests."""


def _refuse_another(folder: Path, earlier: dict[str, Any], asked: dict[str, Any]) -> None:
    # A run that was begun before something became part of the identity does not say it.
    if differing := sorted(key for key in asked if key in earlier and asked[key] != earlier[key]):
        told = "; ".join(_SAID.get(key, f"{key}: {earlier[key]} then, {asked[key]} now") for key in differing)
        raise UsageError(
            f"--resume {folder.name} is another run ({told}); give what it was begun with, or begin a new one"
        )


def _identity(spec: RunSpec) -> dict[str, Any]:
    """What must be equal in every segment of a run, and decides what it may be compared with."""
    workload = spec.workload
    identity: dict[str, Any] = {
        "workload": workload.id,
        "revision": workload.revision,
        "brief_sha256": workload.brief_sha256,
        "hidden_sha256": hidden_digest(workload.hidden),
        "unsafe_no_sandbox": not spec.sandbox,
    }
    if spec.subject is not None:
        engine = spec.subject.engine
        identity |= {"engine": engine.name, "engine_args": " ".join(engine.args), "model": engine.model}
        identity |= {"attached": engine.url is not None}
        agent = open_adapter(spec.subject.agent)
        behaviour = json.dumps(agent.configuration, sort_keys=True).encode()
        identity |= {"agent": agent.name, "agent_args": " ".join(spec.subject.agent.args)}
        identity |= {"agent_version": agent.version, "agent_sha256": hashlib.sha256(behaviour).hexdigest()}
    return identity


def _check_agent(subject: Subject) -> None:
    """Raises where the agent needs what this engine does not offer, or is not installed."""
    adapter, engine = open_adapter(subject.agent), read_profile(subject.engine.name)
    if adapter.api not in engine.apis:
        raise UsageError(
            f"the agent {adapter.name} asks {adapter.api}, which the engine {subject.engine.name} does not offer "
            f"({', '.join(engine.apis)}); take another agent or engine{_could_offer(subject)}"
        )
    adapter.check_installed()


def _could_offer(subject: Subject) -> str:
    """What to do where a person's own server may offer more than its profile says; nothing for one that we launch."""
    if subject.engine.url is None:
        return ""
    return f"; if your server offers it, add it to 'apis' in fixtures/engines/{subject.engine.name}.yaml"


def _check_hidden(workload: Workload) -> None:
    """Raises where the hidden set is broken, or has no case of the group that is the score."""
    groups = {case.group for case in expected_cases(workload.hidden)}
    if workload.score_group not in groups:
        place = REPOSITORY / "cases" / workload.id / "workload.yaml"
        raise UsageError(
            f"{place}: key 'score_group': no hidden case is of group '{workload.score_group}'; there are: {', '.join(sorted(groups))}"
        )


def _path(option: str, text: str) -> Path:
    try:
        return Path(text).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{option} {text[:80]}: no usable path ({error})") from error
