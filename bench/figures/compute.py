"""Evidence in, figures out: every figure of the table, in its order, with a value or a reason."""

from __future__ import annotations

from bench.figures.check_figures import CHECKS
from bench.figures.definitions import DEFINITIONS
from bench.figures.inference_figures import INFERENCE
from bench.figures.measured import Formulas
from bench.figures.run_evidence import Evidence
from bench.figures.session_figures import SESSIONS
from bench.figures.token_figures import TOKENS
from bench.records.schema import Figure

FORMULAS: Formulas = {**INFERENCE, **SESSIONS, **TOKENS, **CHECKS}


def compute(evidence: Evidence) -> tuple[Figure, ...]:
    """All figures of a run; the same code for a run, an audit, an ingest and a new scoring."""
    figures = []
    for definition in DEFINITIONS:
        measured = FORMULAS[definition.id](evidence)
        figures.append(
            Figure(
                id=definition.id,
                title=definition.title,
                value=measured.value,
                unit=definition.unit,
                statistic=definition.statistic,
                n=measured.n,
                version=definition.version,
                source=definition.source,
                includes=measured.includes,
                reason=measured.reason,
                group=definition.group,
            )
        )
    return tuple(figures)
