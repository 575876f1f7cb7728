"""What one coding agent is, as data: reads `fixtures/agents/<name>/profile.yaml`.

A profile says how the agent is started in a box, what it is told, what is kept of it and which module reads that.
Words in braces stand for what only a session knows; any other brace is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from bench.spec import REPOSITORY
from bench.yaml_file import load_model

PROFILES = REPOSITORY / "fixtures" / "agents"

SAMPLING = ("temperature", "top_p", "seed")
"""What decides what a model says to the same prompt, and should be the same for every engine."""

PLACEHOLDERS = (
    *("model", "url", "home", "project", "packages", "program", "session", "prompt_file"),
    *("context_window", "output_tokens", "seconds", "milliseconds", *SAMPLING),
)
"""What may stand in braces. `url` is without `/v1`; `program` is the package's program; `prompt_file` lies in the home."""

_WORD = re.compile(r"\{([a-z_]+)\}")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._@-]+(/[A-Za-z0-9._@-]+)*")

Value = str | int | float


def _known_words(text: str) -> str:
    if unknown := next((word for word in _WORD.findall(text) if word not in PLACEHOLDERS), None):
        raise ValueError(f"unknown placeholder {{{unknown}}}; known: {', '.join(PLACEHOLDERS)}")
    return text


def _known_inside(value: Any) -> Any:
    for text in _strings(value):
        _known_words(text)
    return value


def _relative(path: str) -> str:
    if not _PLAIN_PATH.fullmatch(path) or ".." in path.split("/"):
        raise ValueError(f"expected a path below the agent's home, got '{path}'")
    return path


def _reader(module: str) -> str:
    known = sorted(path.stem for path in Path(__file__).parent.glob("*_events.py") if path.stem != "pi_events")
    if module not in known:
        raise ValueError(f"there is no bench/agents/{module}.py; known: {', '.join(known)}")
    return module


Template = Annotated[str, AfterValidator(_known_words)]
Structure = Annotated[dict[str, Any], AfterValidator(_known_inside)]
ListOrStructure = Annotated[dict[str, Any] | list[Any], AfterValidator(_known_inside)]
HomePath = Annotated[str, AfterValidator(_relative)]
EvidenceName = Annotated[str, Field(pattern=r"^agent-[a-z0-9-]+\.(jsonl|json|txt|db)$")]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Package(Part):
    """Where the agent comes from. Its version stands in `package.json` or `requirements.txt` beside the profile."""

    npm: str | None = None
    program: str | None = None
    """The file that is run, relative to the npm package."""

    pip: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.npm is None) == (self.pip is None) or (self.npm is None) != (self.program is None):
            raise ValueError("'package' needs either 'npm' and 'program', or 'pip'")
        return self


class ConfigFile(Part):
    """One file in the agent's home: plain text, or a structure that is written as JSON or TOML."""

    text: Template | None = None
    as_json: ListOrStructure | None = Field(default=None, alias="json")
    as_toml: Structure | None = Field(default=None, alias="toml")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if sum(form is not None for form in (self.text, self.as_json, self.as_toml)) != 1:
            raise ValueError("a file needs exactly one of 'text', 'json', 'toml'")
        return self


class AgentProfile(Part):
    """A whole profile file."""

    title: str
    checked: Literal["run here", "documentation"]
    """Whether sessions were run with this profile, or it was only written from what the agent's makers say."""

    package: Package
    api: Literal["/v1/chat/completions", "/v1/responses", "/v1/messages"]
    """What the engine must offer."""

    version_argv: list[Template] = Field(min_length=1)
    """Prints the version."""

    argv: list[Template] = Field(min_length=1)
    prompt: Literal["stdin", "file"]
    """How it gets its prompt: on standard input up to the end, or as the file `{prompt_file}`; never as an argument,
    which could not be longer than 128 kB."""

    env: dict[str, Template] = Field(default_factory=dict)
    files: dict[HomePath, ConfigFile] = Field(default_factory=dict)
    keeps: dict[EvidenceName, str] = Field(default_factory=dict)
    """What is taken from its home: name in the evidence folder -> glob."""

    noise: list[str] = Field(default_factory=list)
    """Beginnings of lines of its standard output that only repeat what others say."""

    reader: Annotated[str, AfterValidator(_reader)]
    """The module of this folder that reads its standard output and what is kept."""

    window_if_unknown: int = Field(gt=0)
    """What it is told where the engine does not tell its context window."""

    sampling: dict[Literal["temperature", "top_p", "seed"], float | int] = Field(default_factory=dict)
    not_pinned: dict[Literal["temperature", "top_p", "seed"], str] = Field(default_factory=dict)
    """What of the sampling cannot be set, and why."""

    retries: str
    """What it does after a failed request, in a few words for the record."""

    @model_validator(mode="after")
    def _all_said(self) -> Self:
        for name in SAMPLING:
            if (name in self.sampling) == (name in self.not_pinned):
                raise ValueError(f"'{name}' must stand under 'sampling' or, with why, under 'not_pinned'")
        said = [*self.argv, *self.version_argv, *self.env.values()]
        for file in self.files.values():
            said += list(_strings([file.text, file.as_json, file.as_toml]))
        words = {word for text in said for word in _WORD.findall(text)}
        if missing := sorted(words & set(self.not_pinned)):
            raise ValueError(f"{{{missing[0]}}} is used, but 'sampling' has no '{missing[0]}'")
        if unused := sorted(set(self.sampling) - words):
            raise ValueError(f"'{unused[0]}' stands under 'sampling', but {{{unused[0]}}} is used nowhere")
        if (self.prompt == "file") != ("prompt_file" in words):
            raise ValueError("'prompt: file' and {prompt_file} belong together")
        return self


def profiled_agents() -> tuple[str, ...]:
    """Names of the agents that there is a profile of."""
    return tuple(sorted(path.parent.name for path in PROFILES.glob("*/profile.yaml")))


def read_agent_profile(name: str) -> AgentProfile:
    """One agent's profile. Raises FileFormatError, with the line and the key, for a bad file."""
    return load_model(PROFILES / name / "profile.yaml", AgentProfile)


def fill(text: str, values: Mapping[str, Value]) -> str:
    """The text with every word in braces replaced."""
    return _WORD.sub(lambda found: str(values[found[1]]), text)


def fill_structure(value: Any, values: Mapping[str, Value]) -> Any:
    """The structure with every word replaced, in keys, too; a string that is one number's word becomes the number."""
    if isinstance(value, dict):
        return {fill(key, values): fill_structure(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill_structure(inner, values) for inner in value]
    if not isinstance(value, str):
        return value
    whole = _WORD.fullmatch(value)
    return values[whole[1]] if whole else fill(value, values)


def _strings(value: Any) -> Iterator[str]:
    """All strings of a structure, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(key)
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
