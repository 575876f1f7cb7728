"""What one engine is, as data: reads `fixtures/engines/<name>.yaml`."""

from __future__ import annotations

import re
from string import Formatter
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from bench.contracts import EngineProfile, ResponseField, Unit
from bench.errors import UsageError
from bench.spec import REPOSITORY, Limits
from bench.yaml_file import load_model

PROFILES = REPOSITORY / "fixtures" / "engines"

TimedFigure = Literal[
    "ttft_seconds",
    "prefill_seconds",
    "decode_seconds",
    "queue_seconds",
    "drafted_tokens",
    "accepted_tokens",
    "computed_prompt_tokens",
]
"""What `response_fields` may give. Each stands either there or, with the reason, under `unavailable`."""

AnyFigure = TimedFigure | Literal["cached_tokens", "reasoning_tokens"]

PLACEHOLDERS = ("host", "port", "model", "model_file", "script", "folder")
"""What may stand in braces in `argv` and `environment`. `folder` is where the engine's log lies."""


def _known_placeholders(text: str) -> str:
    for _, name, _, _ in Formatter().parse(text):
        if name is not None and name not in PLACEHOLDERS:
            raise ValueError(f"unknown placeholder {{{name}}}; known: {', '.join(PLACEHOLDERS)}")
    return text


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


Template = Annotated[str, AfterValidator(_known_placeholders)]
Pattern = Annotated[str, AfterValidator(_compiles)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Program(_Part):
    """One way to start the engine: a command on PATH, or a module of this harness that needs a distribution."""

    command: str | None = None
    version_args: list[str] = Field(default_factory=list)
    """With which the command prints its version."""

    version_pattern: Pattern = r"(.+)"
    """Group 1 is the version in what it prints."""

    module: str | None = None
    distribution: str | None = None
    """Must be installed for the module; its version is the engine's."""

    binary: str | None = None
    """Its file whose digest identifies the engine, relative to where distributions lie."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.module is None) or (self.module is None) != (self.distribution is None):
            raise ValueError("needs either 'command', or 'module' and 'distribution'")
        return self


class Ready(_Part):
    path: str
    """Answers 200 when the engine is ready."""

    loading: list[int] = Field(default_factory=list)
    """Other HTTP statuses that mean: not yet."""

    seconds: float = Field(gt=0)


class JsonPlace(_Part):
    """A value in the JSON answer to GET `path`: `key` is dotted, numbers are indices of lists."""

    path: str
    key: str


class FieldPlace(_Part):
    path: str
    unit: Unit


class LaunchProfile(_Part):
    """A whole profile file: how to start, await and stop the engine, and what its answers mean."""

    title: str
    simulated: bool
    model: Literal["script", "file", "none"]
    """What `--model` names: a script of the embedded engine, a GGUF file, or nothing."""

    programs: list[Program] = Field(min_length=1)
    """Tried in this order."""

    install: str
    """What to do when none of them is there."""

    argv: list[Template]
    own_args: list[str] = Field(default_factory=list)
    """Arguments that a person may not add, because the launch depends on them."""

    environment: dict[str, Template] = Field(default_factory=dict)
    ready: Ready
    stop_seconds: float = Field(gt=0)
    limits: dict[str, float] = Field(default_factory=dict)
    """Limits of a workload that this engine changes where `--limit` does not, e.g. `backoff_seconds`."""

    context_window: JsonPlace | None = None
    response_fields: dict[TimedFigure, FieldPlace] = Field(default_factory=dict)
    includes: dict[AnyFigure, str] = Field(default_factory=dict)
    unavailable: dict[AnyFigure, str] = Field(default_factory=dict)
    memory_errors: list[Pattern] = Field(default_factory=list)
    context_errors: list[Pattern] = Field(default_factory=list)

    @field_validator("limits")
    @classmethod
    def _known_limits(cls, limits: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(set(limits) - set(Limits.__dataclass_fields__)):
            raise ValueError(f"no limit '{unknown[0]}'; there are: {', '.join(sorted(Limits.__dataclass_fields__))}")
        return limits

    @model_validator(mode="after")
    def _nothing_left_open(self) -> Self:
        for figure in TimedFigure.__args__:  # type: ignore[attr-defined]
            if (figure in self.response_fields) == (figure in self.unavailable):
                raise ValueError(f"'{figure}' must stand either under 'response_fields' or, with why, 'unavailable'")
        return self

    def contract(self, name: str) -> EngineProfile:
        """What the other rooms may know of the engine."""
        return EngineProfile(
            name=name,
            title=self.title,
            simulated=self.simulated,
            response_fields={
                figure: ResponseField(path=place.path, unit=place.unit)
                for figure, place in self.response_fields.items()
            },
            includes={str(figure): text for figure, text in self.includes.items()},
            unavailable={str(figure): why for figure, why in self.unavailable.items()},
            memory_errors=tuple(self.memory_errors),
            context_errors=tuple(self.context_errors),
        )


def list_profiles() -> tuple[str, ...]:
    """Names of the engines that can be launched."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.yaml")))


def read_profile(name: str) -> LaunchProfile:
    """One engine's profile. Raises UsageError for a name that does not exist, FileFormatError for a bad file."""
    if name not in list_profiles():
        raise UsageError(f"unknown engine '{name}'; there are: {', '.join(list_profiles())}")
    return load_model(PROFILES / f"{name}.yaml", LaunchProfile)


def value_at(document: Any, key: str) -> Any:
    """What stands at a dotted key of parsed JSON (`data.0.meta.n_ctx`), or None."""
    for part in key.split("."):
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document
