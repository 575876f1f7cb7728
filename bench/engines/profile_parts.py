"""The parts of a profile file as forms: what may stand in it, and what is wrong with what does."""

from __future__ import annotations

import re
from string import Formatter
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from bench.engine_profile import CacheReset, LogSummary, MetricSeries, MetricsPage, Quantity, ResponseField, Unit

QUANTITIES: tuple[str, ...] = get_args(Quantity)

PLACEHOLDERS = ("host", "port", "model", "model_file", "script", "folder")
"""What may stand in braces in `argv`, `environment`, `disk_cache`. `folder` is where the engine's log lies."""

_SECONDS = "_seconds"
_TIME_UNITS = ("s", "ms", "us", "ns")


def plain_unit(quantity: str) -> Unit:
    """The unit that a quantity has where none is said."""
    return "s" if quantity.endswith(_SECONDS) else "tokens"


def quantity_of(group: str) -> str | None:
    """The quantity that a named group of a log pattern means: `decode_ms` is decode_seconds in milliseconds.

    None for the names that only tell requests apart.
    """
    if group in ("key", "response_id"):
        return None
    stem, _, unit = group.rpartition("_")
    return f"{stem}{_SECONDS}" if unit in _TIME_UNITS else group


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


def _absolute(path: str) -> str:
    if not re.fullmatch(r"/[!-~]*", path):
        raise ValueError(f"expected an address that begins with /, got '{path}'")
    return path


def _suits(quantity: str, unit: Unit) -> None:
    if (unit == "tokens") == quantity.endswith(_SECONDS):
        raise ValueError(f"'{quantity}' cannot be counted in {unit}")


Template = Annotated[str, AfterValidator(_known_placeholders)]
Pattern = Annotated[str, AfterValidator(_compiles)]
HttpPath = Annotated[str, AfterValidator(_absolute)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Program(Part):
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


class Start(Part):
    """How the engine is started and stopped by us."""

    model: Literal["script", "file", "name", "none"]
    """What `--model` names: a script of the embedded engine, a GGUF file, a model as the engine calls it, nothing."""

    programs: list[Program] = Field(min_length=1)
    """Tried in this order."""

    install: str
    """What to do when none of them is there."""

    argv: list[Template]
    own_args: list[str] = Field(default_factory=list)
    """Arguments that a person may not add, because the launch depends on them."""

    environment: dict[str, Template] = Field(default_factory=dict)
    stop_seconds: float = Field(gt=0)
    disk_cache: Template | None = None
    """Folder of a prefix cache that outlives the process; None: the engine, started like this, keeps none."""

    warm_args: list[str] = Field(default_factory=list)
    """Arguments of a person with which a new process may find an old cache."""


class Ready(Part):
    path: HttpPath
    """Answers 200 when the engine is ready."""

    loading: list[int] = Field(default_factory=list)
    """Other HTTP statuses that mean: not yet."""

    seconds: float = Field(gt=0)


class Place(Part):
    """Where a fact stands: in the JSON answer to GET `path` at `key`, or in the engine's log behind a pattern."""

    path: HttpPath | None = None
    key: str | None = None
    """Dotted; a number is an index of a list, `[id]` is the item of a list whose `id` is the model's name."""

    log: Pattern | None = None
    """Group 1 is the fact; the log of an attached engine cannot be read."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) != (self.key is None) or (self.path is None) == (self.log is None):
            raise ValueError("needs either 'path' and 'key', or 'log'")
        if self.log is not None and re.compile(self.log).groups != 1:
            raise ValueError("'log' needs exactly one group: the fact")
        return self


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


Places = Annotated[list[Place], BeforeValidator(_as_list)]
"""Asked in order; the first that answers wins. One place may stand without the list."""


class Mark(Part):
    """Something that this kind of engine says over HTTP and others do not."""

    path: HttpPath
    pattern: Pattern


class FieldPlace(Part):
    path: str
    unit: Unit


class Series(Part):
    names: list[str] = Field(min_length=1)
    labels: dict[str, str] = Field(default_factory=dict)
    unit: Unit | None = None
    """Left out: seconds or tokens, as the quantity is."""

    includes: str | None = None
    """What this source includes, where that differs from what stands under `includes`."""


class Metrics(Part):
    path: HttpPath
    late_seconds: float = Field(ge=0)
    read_seconds: float = Field(gt=0)
    series: dict[Quantity, Series] = Field(min_length=1)

    @model_validator(mode="after")
    def _units_suit(self) -> Self:
        for quantity, series in self.series.items():
            _suits(quantity, series.unit or plain_unit(quantity))
        return self

    def contract(self) -> MetricsPage:
        return MetricsPage(
            path=self.path,
            late_seconds=self.late_seconds,
            read_seconds=self.read_seconds,
            series={
                quantity: MetricSeries(
                    names=tuple(series.names),
                    labels=series.labels,
                    unit=series.unit or plain_unit(quantity),
                    includes=series.includes,
                )
                for quantity, series in self.series.items()
            },
        )


class Summary(Part):
    lines: list[Pattern] = Field(min_length=1)
    starts: Pattern | None = None

    @model_validator(mode="after")
    def _groups_are_known(self) -> Self:
        for line in self.lines:
            groups = re.compile(line).groupindex
            for group in groups:
                if quantity_of(group) not in (None, *QUANTITIES):
                    raise ValueError(f"unknown group '{group}'; known: key, response_id, {', '.join(QUANTITIES)}")
            if len(self.lines) > 1 and "key" not in groups:
                raise ValueError("several lines need a group 'key' in each, so that those of one request are joined")
        return self

    @property
    def quantities(self) -> frozenset[str]:
        """What the summary tells."""
        found = (quantity_of(group) for line in self.lines for group in re.compile(line).groupindex)
        return frozenset(quantity for quantity in found if quantity is not None)

    def contract(self) -> LogSummary:
        return LogSummary(lines=tuple(self.lines), starts=self.starts)


class Reset(Part):
    method: Literal["GET", "POST", "DELETE"]
    path: HttpPath
    expect: Pattern | None = None

    def contract(self) -> CacheReset:
        return CacheReset(method=self.method, path=self.path, expect=self.expect)


def field_contract(quantity: str, place: FieldPlace) -> ResponseField:
    """Raises ValueError where the unit cannot be one of this quantity."""
    _suits(quantity, place.unit)
    return ResponseField(path=place.path, unit=place.unit)
