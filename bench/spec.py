"""What a person asks for: specs of engine, agent, workload and run, read from YAML. The only reader of the environment."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bench.errors import UsageError
from bench.yaml_file import load_model

if TYPE_CHECKING:
    from pydantic import BaseModel

REPOSITORY = Path(__file__).resolve().parent.parent
"""The checkout: `cases/`, `hidden/`, `fixtures/` and, unless told otherwise, `results/` lie in it."""

ENGINE_KEY = "RUNCARD_ENGINE_KEY"
"""Environment variable with the key of an engine that is reached by --engine-url."""

Drive = Literal["task-loop", "session"]
CaseKind = Literal["node-module", "command"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where a run is stopped and scored as it stands. Seconds and tokens."""

    attempts_per_task: int
    bootstrap_attempts: int
    final_reviews: int
    replans: int
    sessions: int
    wall_clock_seconds: float
    session_seconds: float
    no_progress_seconds: float
    """How long a session may go without a new token of the model, or without asking it anything. An answer that is not
    streamed may take half of `session_seconds`."""

    verify_seconds: float
    output_tokens_per_request: int
    output_tokens_per_run: int
    requests_per_session: int
    engine_errors_in_a_row: int
    backoff_seconds: float
    """First wait after an engine error; doubled for each further one in a row, at most 60 times as long."""


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """The engine that serves the model, described by a profile under fixtures/engines/: launched by us, or attached."""

    name: str
    model: str
    model_file: Path | None = None
    args: tuple[str, ...] = ()
    url: str | None = None
    """Where an engine answers that somebody else started, e.g. `http://127.0.0.1:8080`; it is never stopped."""

    api_key_env: str | None = None
    """Name of the environment variable that holds the engine's key. The key itself is stored nowhere."""


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """The coding agent: a name in the registry of bench/agents/adapters.py."""

    name: str
    args: tuple[str, ...] = ()
    """Further arguments; an agent that takes none refuses them."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is built and how it is judged; `cases/<id>/workload.yaml` beside its brief."""

    id: str
    revision: int
    title: str
    drive: Drive
    brief: str
    brief_sha256: str
    limits: Limits
    case_kind: CaseKind
    """How a hidden case reaches the project: a Node module over a descriptor, or a program with argv and stdin."""

    entry: str
    """The file that is judged, relative to the project: `model.mjs`, `csv_totals.py`."""

    starter: Path | None
    hidden: Path
    score_group: str
    """The group of hidden cases that is the score of record; other groups stand beside it."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is benchmarked: a model behind its engine, and the agent that uses it."""

    engine: EngineSpec
    agent: AgentSpec


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run: everything that was asked, before anything starts."""

    workload: Workload
    subject: Subject | None
    """None: only `project` is scored."""

    project: Path | None = None
    results: Path = REPOSITORY / "results"
    resume: Path | None = None
    """Folder of the run that is gone on with."""

    sandbox: bool = True


def workload_ids() -> list[str]:
    """Ids of the workloads that exist, by name."""
    return sorted(place.parent.name for place in (REPOSITORY / "cases").glob("*/workload.yaml"))


def find_workload(name: str) -> Path:
    """The folder of a workload under cases/. Raises UsageError listing those that exist."""
    if name not in workload_ids():
        raise UsageError(f"no workload '{name}'; there are: {', '.join(workload_ids())}")
    return REPOSITORY / "cases" / name


def read_workload(name: str, overrides: Mapping[str, float] | None = None) -> Workload:
    """Reads `cases/<name>/workload.yaml` and its brief; `overrides` replace limits. Raises UsageError, FileFormatError."""
    folder = find_workload(name)
    form = load_model(folder / "workload.yaml", _workload_form())
    data = form.model_dump()
    limits = {key: type(data["limits"][key])(value) for key, value in (overrides or {}).items()}
    try:
        brief = (folder / "brief.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder / 'brief.md'}: the brief cannot be read ({error})") from error
    starter = folder / "starter"
    return Workload(
        **{**data, "limits": Limits(**{**data["limits"], **limits})},
        id=name,
        brief=brief,
        brief_sha256=hashlib.sha256(brief.encode()).hexdigest(),
        starter=starter if starter.is_dir() else None,
        hidden=REPOSITORY / "hidden" / name,
    )


@functools.cache
def _workload_form() -> type[BaseModel]:
    """The form of workload.yaml, built on demand: pydantic costs a quarter of a second that --collect-only spares."""
    from pydantic import ConfigDict, Field, create_model

    strict = ConfigDict(extra="forbid", strict=True)
    kinds = {
        name: (int, Field(ge=least, le=10**12))
        if part.type == "int"
        else (float, Field(ge=0, le=10**12, allow_inf_nan=False))
        for name, part in Limits.__dataclass_fields__.items()
        for least in [0 if name in MAY_BE_ZERO else 1]
    }
    limits: type[BaseModel] = create_model("Limits", __config__=strict, **kinds)  # type: ignore[call-overload]
    form: type[BaseModel] = create_model(
        "Workload",
        __config__=strict,
        title=(str, Field(min_length=1)),
        revision=(int, Field(ge=1)),
        drive=(Drive, ...),
        case_kind=(CaseKind, ...),
        entry=(str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$")),
        score_group=(str, Field(min_length=1)),
        limits=(limits, ...),
    )
    return form


MAY_BE_ZERO = frozenset({"final_reviews", "replans", "backoff_seconds"})
"""Limits of which none at all makes sense; every other limit is at least 1, or over 0 s."""


def slug(text: str) -> str:
    """Lower case, dashes, nothing else: the form of every part of a run id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def environment(name: str) -> str | None:
    """One variable of the harness's own environment; nobody else reads it."""
    return os.environ.get(name) or None


def engine_key(engine: EngineSpec) -> str | None:
    """The key of an attached engine, for the relay and the handle only: never for argv, files or messages.

    Raises UsageError, without the key, if it cannot stand in an HTTP header.
    """
    key = environment(engine.api_key_env) if engine.api_key_env else None
    if key is not None and not re.fullmatch(r"[!-~]+", key):
        raise UsageError(f"{engine.api_key_env} holds characters that a key cannot have (spaces, line ends ...)")
    return key


def apply_limit(text: str) -> tuple[str, float]:
    """Reads `NAME=VALUE` of --limit. Raises UsageError naming the limits that exist."""
    names = sorted(Limits.__dataclass_fields__)
    name, equals, value = text.partition("=")
    key = name.strip().replace("-", "_")
    if not equals or key not in names:
        raise UsageError(f"--limit {text}: expected NAME=VALUE with NAME one of {', '.join(names)}")
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"--limit {text}: '{value}' is not a number") from None
    whole = Limits.__dataclass_fields__[key].type == "int"
    least, most = (0 if key in MAY_BE_ZERO else 1 if whole else 0.001), 10**12
    if not least <= number <= most or (whole and number != int(number)):
        raise UsageError(f"--limit {text}: expected a {'whole ' if whole else ''}number from {least} to {most:,}")
    return key, number
