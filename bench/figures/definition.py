"""What does a figure mean? The form in which each is defined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.figures.scopes import ScopeKind
from bench.records.schema import SourceClass

ENGINE: tuple[SourceClass, ...] = ("engine-response", "engine-counter", "engine-log")
"""Sources of what an engine tells of one request's times and drafts; a figure is made of one of them."""

COUNTS: tuple[SourceClass, ...] = ("engine-response", "engine-log")
"""Sources of a request's token counts: the answer's usage, or the engine's log where no relay stood between."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One figure. `version` is raised whenever formula, unit, statistic, source or null rule changes what it says."""

    id: str
    version: int = 1
    title: str
    unit: str
    statistic: str
    sources: tuple[SourceClass, ...]
    """The classes that it may rest on, of which each figure names one."""

    formula: str
    null_when: str
    """Besides: where no engine and no agent ran, every figure but the hidden cases is null."""

    group: Literal["inference", "session", "token", "check"]
    scopes: tuple[ScopeKind, ...] = ()
    """The kinds of parts of a run for which it is given, too."""
