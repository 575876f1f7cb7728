"""What did a run leave behind? Reads a run's folder into the evidence that figures are computed from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.agents.adapters import Adapter, AgentEvents
from bench.agents.agent import EVENTS_FILE, read_session
from bench.contracts import CheckLine, EngineProfile, ResponseField
from bench.errors import EvidenceError
from bench.figures.gather import gather_requests
from bench.figures.run_evidence import Evidence
from bench.loop.journal import read_journal
from bench.loop.rows import segment_rows, session_rows, task_rows
from bench.measure.memory import read_samples
from bench.records.schema import CaseResult, JournalEntry, RequestRecord, SessionRow


def read_folder(
    folder: Path,
    *,
    adapter: Adapter | None,
    cases: tuple[CaseResult, ...],
    score_group: str,
    warn: Callable[[str], None],
) -> Evidence:
    """Evidence of one run. `adapter` reads the agent's event streams; None: no agent ran, a project was scored.

    `warn` is told what is damaged but can be done without. Raises EvidenceError for what cannot.
    """
    if adapter is None:
        return Evidence(profile=None, cases=cases, score_group=score_group)
    profile = read_stored_profile(folder / "engine" / "profile.json")
    found = read_journal(folder / "journal.jsonl")
    if found.torn is not None:
        warn(found.torn)
    folders = sorted(place for place in (folder / "sessions").glob("[0-9]*") if place.is_dir())
    requests = gather_requests(folders, profile, warn=warn)
    events = _events(folders, adapter, warn)
    return Evidence(
        profile=profile,
        requests=requests,
        usage=tuple(claim for one in events.values() for claim in one.usage),
        journal=found.entries,
        memory=read_samples(folder / "memory.jsonl", warn=warn),
        cases=cases,
        score_group=score_group,
        sessions=_with_counts(session_rows(found.entries), requests, events),
        segments=segment_rows(found.entries),
        tasks=task_rows(found.entries),
        tool_calls=sum(one.tool_calls for one in events.values()),
        compactions=sum(one.compactions for one in events.values()),
        checks=_last_checks(found.entries),
    )


def read_stored_profile(path: Path) -> EngineProfile:
    """The profile that a run was measured with, as it was stored beside its evidence."""
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
        fields = {key: ResponseField(**place) for key, place in data.pop("response_fields").items()}
        memory, context = tuple(data.pop("memory_errors")), tuple(data.pop("context_errors"))
        return EngineProfile(response_fields=fields, memory_errors=memory, context_errors=context, **data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EvidenceError(f"{path}: the engine's stored profile cannot be read ({error})") from error


def _events(folders: list[Path], adapter: Adapter, warn: Callable[[str], None]) -> dict[int, AgentEvents]:
    """Event streams by session; a session that was cut before its agent wrote anything has none."""
    events = {}
    for place in folders:
        if (place / EVENTS_FILE).is_file() and int(place.name) > 0:
            events[int(place.name)] = read_session(place, int(place.name), adapter)
            if damage := events[int(place.name)].damage:
                warn(f"session {place.name}: its event stream is damaged ({damage})")
    return events


def _with_counts(
    rows: Sequence[SessionRow], requests: Sequence[RequestRecord], events: Mapping[int, AgentEvents]
) -> tuple[SessionRow, ...]:
    """Rows with the counts that the evidence has, also of sessions that were cut before the journal could say any."""
    counted = []
    for row in rows:
        mine = [request for request in requests if request.session == row.session]
        counted.append(
            replace(
                row,
                requests=len(mine),
                prompt_tokens=_sum(request.prompt_tokens for request in mine),
                output_tokens=_sum(request.output_tokens for request in mine),
                tool_calls=events[row.session].tool_calls if row.session in events else row.tool_calls,
            )
        )
    return tuple(counted)


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _last_checks(journal: tuple[JournalEntry, ...]) -> tuple[CheckLine, ...] | None:
    """The checks of the last `verify --all` that the harness ran on kept work; None where it ran none."""
    for entry in reversed(journal):
        if entry.event == "step-finished" and entry.step == "verify" and entry.outcome != "interrupted":
            first = entry.detail["runs"][0]
            return tuple(CheckLine(**check) for check in first["checks"])
    return None
