"""Evidence in, figures out: every figure of the table, in its order, with a value or a reason; then those of each part."""

from __future__ import annotations

from bench.figures.check_figures import CHECKS
from bench.figures.definition import Definition
from bench.figures.definitions import DEFINITIONS
from bench.figures.inference_figures import INFERENCE
from bench.figures.measured import Formulas
from bench.figures.memory_figures import MEMORY
from bench.figures.residual_figures import RESIDUALS
from bench.figures.run_evidence import Evidence
from bench.figures.scopes import narrowed, scopes_of
from bench.figures.session_figures import SESSIONS
from bench.figures.time_figures import TIMES
from bench.figures.token_figures import TOKENS
from bench.figures.traffic_figures import TRAFFIC
from bench.records.schema import Figure

FORMULAS: Formulas = {**INFERENCE, **MEMORY, **SESSIONS, **TIMES, **TRAFFIC, **RESIDUALS, **TOKENS, **CHECKS}


def compute(evidence: Evidence) -> tuple[Figure, ...]:
    """All figures of a run; the same code for a run, an audit, an ingest and a new scoring.

    The whole run's figures come first, in the order of the definitions; then, role by role and class of prompts by
    class, those that are given for parts: the same formulas on evidence that was narrowed.
    """
    figures = [_figure(definition, evidence, None) for definition in DEFINITIONS]
    for scope in scopes_of(evidence):
        part = narrowed(evidence, scope)
        figures += [_figure(one, part, scope.name) for one in DEFINITIONS if scope.kind in one.scopes]
    return tuple(figures)


def _figure(definition: Definition, evidence: Evidence, scope: str | None) -> Figure:
    measured = FORMULAS[definition.id](evidence)
    return Figure(
        id=definition.id,
        title=definition.title,
        value=measured.value,
        unit=definition.unit,
        statistic=definition.statistic,
        n=measured.n,
        version=definition.version,
        source=measured.source or definition.sources[0],
        includes=measured.includes,
        reason=measured.reason,
        group=definition.group,
        scope=scope,
    )
