"""Does a record still say what its evidence gives? Everything that can be computed again is, and compared exactly."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import EvidenceError, UsageError
from bench.figures.deviations import alterations, configurations, run_deviations, weakest_isolation
from bench.figures.differences import Difference, of_rows, of_values
from bench.figures.ingested_folder import SHEET, figures_of_ingested
from bench.figures.kept_files import file_differences, record_differences, snapshot_differences
from bench.figures.run_figures import RunFigures, figures_of_run
from bench.records import cases_file, requests_file, store
from bench.records.schema import Figure, JournalEntry, RunRecord
from bench.scoring.hidden_set import expected_cases, hidden_digest
from bench.spec import AgentSpec, read_workload

Recompute = Callable[[Path, RunRecord], RunFigures]

_TAKEN = (
    "hidden cases are compared with cases.json; whether the project earns them, only a new scoring can say",
    "nothing is signed: whoever rewrites evidence and record together, digests included, is not found out",
    "memory samples, the relay's instants and the agent's event stream are taken as they were written down",
)

_DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""What reading may stumble over in a file that was changed, besides what its reader knows as damage."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found. It agrees when there is no difference."""

    run_id: str
    differences: tuple[Difference, ...]
    compared: tuple[str, ...]
    """`96 figures`, `24 sessions` ..."""

    taken: tuple[str, ...]
    """What cannot be computed again, and what it rests on instead."""


def figures_of_record(folder: Path, record: RunRecord) -> RunFigures:
    """The figures of a run computed again from its folder, in the way in which its record was made."""
    if _ingested(folder):
        return figures_of_ingested(folder)
    cases, score_group = cases_file.read_cases(folder)
    agent = record.identity.get("agent")
    spec = AgentSpec(name=str(agent)) if agent is not None else None
    return figures_of_run(folder, agent=spec, cases=cases, score_group=score_group)


def audit(folder: Path, *, recompute: Recompute = figures_of_record) -> Audit:
    """Audits one run. Changed evidence is a difference, whatever it did to the figures.

    Raises EvidenceError where there is no record, and for evidence that is unchanged and cannot be read.
    """
    if not (folder / "record.json").is_file():
        raise EvidenceError(f"{folder.name}: no record yet; finish the run with --resume {folder.name}")
    try:
        record = store.read_record(folder)
    except EvidenceError as error:
        return _broken(folder.name, Difference(what="record.json", record="no record", evidence=_told(error, folder)))
    differences = record_differences(folder, record) + file_differences(folder, record.evidence)
    compared = [f"{len(record.evidence)} files"]
    taken = list(_TAKEN)
    try:
        found = recompute(folder, record)
        differences += _rows(record, found) + _facts(folder, record, found) + _requests(folder, found)
        if not _ingested(folder):  # the snapshots that its journal names stayed where the run was
            differences += snapshot_differences(folder, found.evidence.journal)
    except (EvidenceError, *_DAMAGE) as error:
        if not differences:
            if isinstance(error, EvidenceError):
                raise
            # Nothing was changed: evidence of a form that this version does not write.
            raise EvidenceError(
                f"{folder.name}: its evidence cannot be read by this version ({_told(error, folder)})"
            ) from error
        gone = Difference(what="figures", record=f"{len(record.figures)} of them", evidence=_told(error, folder))
        return _ended(record, [*differences, gone], compared, taken)
    expected, said = _expected_cases(record)
    kinds = {
        "figures": record.figures,
        "requests": found.evidence.requests,
        "sessions": record.sessions,
        "segments": record.segments,
        "tasks": record.tasks,
        "cases": record.cases,
    }
    compared += [f"{len(rows)} {kind}" for kind, rows in kinds.items() if rows]
    return _ended(record, differences + expected, compared, taken + said)


def _ended(record: RunRecord, differences: list[Difference], compared: list[str], taken: list[str]) -> Audit:
    return Audit(run_id=record.run_id, differences=tuple(differences), compared=tuple(compared), taken=tuple(taken))


def _rows(record: RunRecord, found: RunFigures) -> list[Difference]:
    evidence = found.evidence
    return [
        *of_rows("figure", record.figures, found.figures, _figure_name),
        *of_rows("segment", record.segments, evidence.segments, lambda row: row.segment),
        *of_rows("session", record.sessions, evidence.sessions, lambda row: row.session),
        *of_rows("task", record.tasks, evidence.tasks, lambda row: row.id),
        *of_rows("case", record.cases, evidence.cases, lambda row: row.id),
    ]


def _figure_name(figure: Figure) -> str:
    return figure.id if figure.scope is None else f"{figure.id} {figure.scope}"


def _facts(folder: Path, record: RunRecord, found: RunFigures) -> list[Difference]:
    """What the record says of the run as a whole, beside what it was begun with and what the journal tells."""
    evidence, begun = found.evidence, _begun(folder)
    simulated = evidence.profile is not None and evidence.profile.simulated
    identity: dict[str, Any] = {**begun["identity"], "simulated": simulated}
    differences = [
        *of_values("run_id", record.run_id, folder.name),
        *of_values("created_at", record.created_at, begun["created_at"]),
        *of_values("simulated", record.simulated, simulated),
        *of_values("valid", record.valid, cases_file.is_valid(record.end, record.cases)),
    ]
    started = next((one for one in reversed(evidence.journal) if one.event == "segment-started"), None)
    granted = started.detail.get("configuration", {}) if started is not None else {}
    if _ingested(folder):
        differences += of_values("end", record.end, "ingested")
        told = {key: record.configuration.get(key) for key in granted}
        differences += of_values("configuration", told, granted)
    elif started is not None:
        identity["isolation"] = weakest_isolation([one["box"] for one in configurations(evidence.journal)])
        differences += of_values("configuration", record.configuration, granted)
        differences += of_values("deviations", record.deviations, run_deviations(evidence.journal))
        if record.end != "interrupted":  # a run that was stopped while it was judged ended otherwise in its journal
            differences += of_values("end", record.end, evidence.segments[-1].end)
            differences += of_values("reason", record.reason, _reason(evidence.journal))
    for key in sorted({*identity, *record.identity} - ({"isolation"} - {*identity})):
        differences += of_values(f"identity {key}", record.identity.get(key), identity.get(key))
    lost = [text for text in (*found.warnings, *alterations(evidence.journal)) if text not in record.warnings]
    return differences + [Difference(what="warning", record="nothing of it", evidence=text) for text in lost]


def _reason(journal: Sequence[JournalEntry]) -> str:
    """Why the last segment ended, as the loop wrote it down."""
    ended = next((one for one in reversed(journal) if one.event == "segment-ended"), None)
    return str(ended.detail.get("reason", "")) if ended is not None else ""


def _requests(folder: Path, found: RunFigures) -> list[Difference]:
    """requests.jsonl beside the requests that the evidence gives."""
    content = requests_file.lines_of(found.evidence.requests)
    if not (folder / requests_file.NAME).exists():
        return of_values(requests_file.NAME, "nothing", "requests") if content else []
    if (folder / requests_file.NAME).read_bytes() == content:
        return []
    try:
        kept = requests_file.read_requests(folder)
    except EvidenceError as error:
        return [Difference(what=requests_file.NAME, record="no requests", evidence=_told(error, folder))]
    return of_rows("request", kept, found.evidence.requests, lambda one: f"{one.session}/{one.index}")


def _expected_cases(record: RunRecord) -> tuple[list[Difference], list[str]]:
    """The list of cases beside the hidden set, where this one is still the set that the run was judged by."""
    name = str(record.identity.get("workload"))
    if record.end == "ingested":
        return [], []  # nothing was judged
    try:
        hidden = read_workload(name).hidden
        if hidden_digest(hidden) == record.identity.get("hidden_sha256"):
            ids = [case.id for case in expected_cases(hidden)]
            return of_values("case list", [case.id for case in record.cases], ids), []
    except UsageError:
        pass  # no such workload here any more
    return [], [f"the hidden set of {name} is no longer the one of this run, so the list of cases is taken as it is"]


def _ingested(folder: Path) -> bool:
    """Whether the run was not started by this program: its record was made of files that it had left."""
    return (folder / SHEET).is_file()


def _begun(folder: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads((folder / "run.json").read_bytes())
        return {"identity": dict(data["identity"]), "created_at": data["created_at"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {"identity": {}, "created_at": None}


def _broken(run_id: str, difference: Difference) -> Audit:
    return Audit(run_id=run_id, differences=(difference,), compared=(), taken=())


def _told(error: Exception, folder: Path) -> str:
    text = str(error) if isinstance(error, EvidenceError) else f"{type(error).__name__}: {error}"
    return text.replace(f"{folder}/", "")
