"""The form of mutants.yaml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Edit(_Strict):
    """One change of the base's file; `old` stands in it exactly once."""

    old: str = Field(min_length=1)
    new: str


class Mutant(_Strict):
    about: str = Field(min_length=1)
    misses: list[str] = Field(min_length=1)
    edits: list[Edit] = Field(min_length=1)


class MutantsFile(_Strict):
    """Edits of `alternatives/<base>/<file>`, by the mutant's name."""

    base: str
    file: str
    mutants: dict[str, Mutant]
