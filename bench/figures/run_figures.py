"""From a run's folder to its figures: the one way, walked when a record is written and again when it is audited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.agents.adapters import open_adapter
from bench.figures.compute import compute
from bench.figures.run_evidence import Evidence
from bench.figures.run_folder import read_folder
from bench.figures.stream_warnings import stream_warnings
from bench.records.schema import CaseResult, Figure
from bench.spec import AgentSpec


@dataclass(frozen=True, kw_only=True)
class RunFigures:
    """What a run's evidence gives."""

    evidence: Evidence
    figures: tuple[Figure, ...]
    warnings: tuple[str, ...]
    """What of the evidence is damaged but can be done without, and where its streams differ; paths are relative to the
    run's folder."""


def figures_of_run(
    folder: Path, *, agent: AgentSpec | None, cases: Sequence[CaseResult], score_group: str
) -> RunFigures:
    """Reads the evidence and computes all figures. `agent` None: no agent ran, a project was scored.

    Raises EvidenceError where the evidence is damaged beyond a torn last line.
    """
    warnings: list[str] = []
    evidence = read_folder(
        folder,
        adapter=open_adapter(agent) if agent else None,
        cases=tuple(cases),
        score_group=score_group,
        warn=lambda text: warnings.append(text.replace(f"{folder}/", "")),
    )
    figures = compute(evidence)
    return RunFigures(evidence=evidence, figures=figures, warnings=(*warnings, *stream_warnings(evidence, figures)))
