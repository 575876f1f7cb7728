"""cases.json: what the judge said of each hidden case, and which group of them is the score of record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.errors import EvidenceError
from bench.records.schema import CaseResult, RunEnd
from bench.records.snapshot import write_atomically

NAME = "cases.json"

SCORED_ENDS: tuple[RunEnd, ...] = ("complete", "unconverged", "limited", "scored")
"""Ends after which the hidden cases are judged; after the others they are not run."""


def write_cases(folder: Path, cases: Sequence[CaseResult], *, score_group: str) -> None:
    """Writes the file of a run, whole or not at all."""
    data = {"score_group": score_group, "cases": [asdict(case) for case in cases]}
    write_atomically(folder / NAME, json.dumps(data, indent=1).encode())


def read_cases(folder: Path) -> tuple[tuple[CaseResult, ...], str]:
    """The cases and the score group of a run. Raises EvidenceError."""
    place = folder / NAME
    try:
        data = json.loads(place.read_bytes())
        return tuple(CaseResult(**case) for case in data["cases"]), str(data["score_group"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise EvidenceError(f"{place}: the judged cases cannot be read ({error})") from error


def is_valid(end: RunEnd, cases: Sequence[CaseResult]) -> bool:
    """Whether a run says anything about its subject: it came to an end of the subject's own, and every case was judged.

    A run that was ingested has no cases; it says what its figures say.
    """
    return (end in SCORED_ENDS or end == "ingested") and all(case.outcome != "error" for case in cases)
