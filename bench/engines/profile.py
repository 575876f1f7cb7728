"""What one engine is, as data: reads `fixtures/engines/<name>.yaml`."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from bench.engine_profile import EngineProfile
from bench.engines.profile_parts import (
    FieldPlace,
    Mark,
    Metrics,
    Part,
    Pattern,
    Places,
    Ready,
    Reset,
    Start,
    Summary,
    field_contract,
)
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
"""Each stands under `response_fields`, `metrics.series` or `log_summary`, or, with the reason, under `unavailable`."""

ResponseFigure = TimedFigure | Literal["cached_tokens"]
AnyFigure = (
    TimedFigure | Literal["cached_tokens", "reasoning_tokens", "prompt_tokens", "output_tokens", "finished_requests"]
)

TIMED: tuple[str, ...] = TimedFigure.__args__  # type: ignore[attr-defined]
_SPANS = ("ttft_seconds", "prefill_seconds", "decode_seconds")
"""Times that engines measure from different instants: whoever gives one says what it includes."""


class ProfileFile(Part):
    """A whole profile file: how to start or recognise the engine, and what its answers, counters and log mean."""

    title: str
    simulated: bool
    checked: Literal["run here", "recordings", "documentation"]
    """How far this file was tried: on a running engine, on recordings of one, or only read."""

    apis: list[Literal["/v1/chat/completions", "/v1/responses", "/v1/messages"]] = Field(
        default=["/v1/chat/completions"], min_length=1
    )
    """The model endpoints that it offers; an agent that needs another one is refused before anything starts."""

    recognised_by: list[Mark] = Field(default_factory=list)
    """An attached engine is believed to be this one when any of them is found; empty: cannot be told."""

    launch: Start | None = None
    """None: we cannot start it, only attach to it."""

    ready: Ready
    limits: dict[str, float] = Field(default_factory=dict)
    """Limits of a workload that this engine changes where `--limit` does not, e.g. `backoff_seconds`."""

    version: Places = Field(default_factory=list)
    context_window: Places = Field(default_factory=list)
    granted: dict[str, Places] = Field(default_factory=dict)
    """Further facts of a started engine that the record keeps, by name: `offload`, `slots`."""

    response_fields: dict[ResponseFigure, FieldPlace] = Field(default_factory=dict)
    metrics: Metrics | None = None
    log_summary: Summary | None = None
    reset: Reset | None = None
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

    @field_validator("response_fields")
    @classmethod
    def _units_suit(cls, fields: dict[ResponseFigure, FieldPlace]) -> dict[ResponseFigure, FieldPlace]:
        for figure, place in fields.items():
            field_contract(figure, place)
        return fields

    @model_validator(mode="after")
    def _nothing_left_open(self) -> Self:
        for figure in TIMED:
            if figure not in self.given and figure not in self.unavailable:
                raise ValueError(
                    f"'{figure}' must stand under 'response_fields', 'metrics.series' or 'log_summary', "
                    "or, with why, under 'unavailable'"
                )
        if both := sorted(self.given & set(self.unavailable)):
            raise ValueError(f"'{both[0]}' has a source and stands under 'unavailable'")
        for figure in _SPANS:
            if figure in self.given and figure not in self.includes:
                raise ValueError(f"'includes' must say what '{figure}' includes, e.g. queueing")
        return self

    @property
    def given(self) -> frozenset[str]:
        """The quantities for which some source is named."""
        counted = self.metrics.series if self.metrics else ()
        logged = self.log_summary.quantities if self.log_summary else ()
        return frozenset({*self.response_fields, *counted, *logged})

    def contract(self, name: str) -> EngineProfile:
        """What the other rooms may know of the engine."""
        return EngineProfile(
            name=name,
            title=self.title,
            simulated=self.simulated,
            checked=self.checked,
            apis=tuple(self.apis),
            response_fields={figure: field_contract(figure, place) for figure, place in self.response_fields.items()},
            metrics=self.metrics.contract() if self.metrics else None,
            log_summary=self.log_summary.contract() if self.log_summary else None,
            reset=self.reset.contract() if self.reset else None,
            includes={str(figure): text for figure, text in self.includes.items()},
            unavailable={str(figure): why for figure, why in self.unavailable.items()},
            memory_errors=tuple(self.memory_errors),
            context_errors=tuple(self.context_errors),
        )


def list_profiles() -> tuple[str, ...]:
    """Names of the engines that there is a profile of."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.yaml")))


def read_profile(name: str) -> ProfileFile:
    """One engine's profile. Raises UsageError for a name that does not exist, FileFormatError for a bad file."""
    if name not in list_profiles():
        raise UsageError(f"unknown engine '{name}'; there are: {', '.join(list_profiles())}")
    return load_model(PROFILES / f"{name}.yaml", ProfileFile)


def launch_part(profile: ProfileFile) -> Start:
    """How the engine is started. Raises UsageError for one that can only be attached."""
    if profile.launch is None:
        raise UsageError(f"{profile.title} is not started by this program: start it yourself and say --engine-url URL")
    return profile.launch


def value_at(document: Any, key: str, *, model: str | None = None) -> Any:
    """What stands at a dotted key of parsed JSON (`data.0.meta.n_ctx`, `data.[id].max_model_len`), or None.

    `[id]` is the first item of a list whose `id` is the model's name.
    """
    for part in key.split("."):
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, list) and part.startswith("[") and part.endswith("]"):
            items = (item for item in document if isinstance(item, dict))
            document = next((item for item in items if model is not None and item.get(part[1:-1]) == model), None)
        else:
            return None
    return document
