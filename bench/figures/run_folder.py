"""What did a run leave behind? Reads a run's folder into the evidence that figures are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.agents.adapters import EVENTS_FILE, Adapter, AgentEvents
from bench.agents.agent import read_session
from bench.contracts import CheckLine
from bench.engine_profile import EngineProfile
from bench.errors import EvidenceError
from bench.figures.gather import gather_requests
from bench.figures.run_evidence import Evidence
from bench.figures.session_time import split_time
from bench.figures.stream_warnings import event_warnings
from bench.loop.journal import read_journal
from bench.loop.rows import segment_rows, session_rows, task_rows
from bench.measure.attribution import attribute, attribute_summaries
from bench.measure.log_summaries import read_summaries
from bench.measure.matching import match_summaries
from bench.measure.memory import read_samples
from bench.measure.refusals import read_refused
from bench.measure.scrape_lines import iterate_scrapes
from bench.records.schema import CaseResult, EngineSummary, JournalEntry, RequestRecord, Scrape, SessionRow

METRICS_FILE = "metrics.jsonl"
"""Readings of the engine's counters, in a run's folder."""

ENGINE_LOG = "engine.log"
"""In the folder of a launch."""


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
    scrapes, summaries = _scrapes(folder, profile, warn), _summaries(folder, profile, warn)
    gathered = gather_requests(folders, profile, warn=warn)
    if gathered.clock_step is not None:
        warn(gathered.clock_step)
    requests = attribute(gathered.requests, scrapes, profile)
    requests = attribute_summaries(requests, match_summaries(requests, summaries).summaries, profile)
    events = _events(folders, adapter, warn)
    for oddity in _oddities(found.entries, events):
        warn(oddity)
    for odd in event_warnings(events):
        warn(odd)
    asked = any(one.session > 0 for one in requests)
    for gap in source_gaps(profile, scrapes, summaries, asked=asked, logged=bool(_logs(folder))):
        warn(gap)
    return Evidence(
        profile=profile,
        requests=requests,
        usage=tuple(claim for one in events.values() for claim in one.usage),
        journal=found.entries,
        memory=read_samples(folder / "memory.jsonl", warn=warn),
        cases=cases,
        score_group=score_group,
        sessions=_with_counts(session_rows(found.entries), requests, events, simulated=profile.simulated),
        segments=segment_rows(found.entries),
        tasks=task_rows(found.entries),
        tool_calls=sum(one.tool_calls for one in events.values()),
        compactions=_all_told(one.compactions for one in events.values()),
        retries=_all_told(one.retries for one in events.values()),
        checks=last_checks(found.entries),
        scrapes=scrapes,
        summaries=summaries,
        refused=_refused(folders),
        clock_step=gathered.clock_step,
    )


def read_stored_profile(path: Path) -> EngineProfile:
    """The profile that a run was measured with, as it was stored beside its evidence. Raises EvidenceError."""
    from pydantic import TypeAdapter, ValidationError

    try:
        profile: EngineProfile = TypeAdapter(EngineProfile).validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError) as error:
        raise EvidenceError(f"{path}: the engine's stored profile cannot be read ({error})") from error
    return profile


def _all_told(counts: Iterable[int | None]) -> int | None:
    """Their sum; None where one of them is not known."""
    known = list(counts)
    told = [count for count in known if count is not None]
    return sum(told) if len(told) == len(known) else None


def _scrapes(folder: Path, profile: EngineProfile, warn: Callable[[str], None]) -> tuple[Scrape, ...]:
    """Readings of the engine's counters; none where it has no such page, or nobody watched it."""
    if profile.metrics is None:
        return ()
    return tuple(iterate_scrapes(folder / METRICS_FILE, profile.metrics, warn=warn))


def _summaries(folder: Path, profile: EngineProfile, warn: Callable[[str], None]) -> tuple[EngineSummary, ...]:
    """What the logs of all launches say of requests; none where the log tells of none, or was not ours to keep."""
    if profile.log_summary is None:
        return ()
    found: list[EngineSummary] = []
    # One launch has one log of its own: whatever looks like another start in it was printed, not started.
    of_one_process = replace(profile.log_summary, starts=None)
    for number, log in sorted(_logs(folder).items()):
        found += read_summaries(log, of_one_process, engine_process_start=number, warn=warn)
    return tuple(found)


def _logs(folder: Path) -> dict[int, Path]:
    """Logs of the engine's launches by their numbers; that of an attached engine is not ours to keep."""
    found = (launch / ENGINE_LOG for launch in (folder / "engine").glob("launch-*"))
    return {int(log.parent.name.rpartition("-")[2]): log for log in found if log.is_file()}


def source_gaps(
    profile: EngineProfile, scrapes: Sequence[Scrape], summaries: Sequence[EngineSummary], *, asked: bool, logged: bool
) -> list[str]:
    """Sources that the engine's profile names and that gave nothing: a typo in it would else never be told."""
    gaps = []
    if profile.metrics is not None and asked and scrapes:
        seen = {quantity for scrape in scrapes for quantity in scrape.values}
        lost = [scrape.problem for scrape in scrapes if not scrape.values]
        if lost:
            gaps.append(f"{len(lost)} of {len(scrapes)} readings of the metrics page gave nothing: {lost[0]}")
        if lacking := sorted(set(profile.metrics.series) - seen) if seen else []:
            gaps.append(f"the engine's metrics page never had a series of its profile for: {', '.join(lacking)}")
    if profile.log_summary is not None and asked and logged and not summaries:
        gaps.append("no line of the engine's log is a request summary as its profile describes them")
    return gaps


def _refused(folders: Iterable[Path]) -> int:
    """How many requests of the agent sessions the relay let nobody have."""
    try:
        return sum(read_refused(place) for place in folders if int(place.name) > 0)
    except OSError as error:
        raise EvidenceError(f"{error.filename}: cannot be read ({error.strerror})") from error


def _events(folders: list[Path], adapter: Adapter, warn: Callable[[str], None]) -> dict[int, AgentEvents]:
    """Event streams by session; a session that was cut before its agent wrote anything has none."""
    events = {}
    for place in folders:
        if (place / EVENTS_FILE).is_file() and int(place.name) > 0:
            events[int(place.name)] = read_session(place, int(place.name), adapter)
            if damage := events[int(place.name)].damage:
                warn(f"session {place.name}: its event stream is damaged ({damage})")
    return events


def _oddities(journal: Iterable[JournalEntry], events: Mapping[int, AgentEvents]) -> list[str]:
    """What was noted about sessions when they ended and cannot be seen in their event streams."""
    said = []
    for entry in journal:
        told = str(entry.detail.get("stream_damage") or "") if entry.event == "step-finished" else ""
        seen = events[entry.session].damage if entry.session is not None and entry.session in events else None
        if left := "; ".join(part for part in told.replace(seen or "", "").split("; ") if part):
            said.append(f"session {entry.session or 0:03d}: {left}")
    return said


def _with_counts(
    rows: Sequence[SessionRow],
    requests: Sequence[RequestRecord],
    events: Mapping[int, AgentEvents],
    *,
    simulated: bool,
) -> tuple[SessionRow, ...]:
    """Rows with the counts that the evidence has, also of sessions that were cut before the journal could say any.

    The parts of their time are computed here, too; `simulated`: the engine's own times are no part of it.
    """
    counted = []
    for row in rows:
        mine = [request for request in requests if request.session == row.session]
        told = events.get(row.session)
        time = split_time(
            row.seconds, mine, tool_seconds=None if told is None else told.tool_seconds, simulated=simulated
        )
        counted.append(
            replace(
                row,
                requests=len(mine),
                prompt_tokens=_sum(request.prompt_tokens for request in mine),
                output_tokens=_sum(request.output_tokens for request in mine),
                tool_calls=row.tool_calls if told is None else told.tool_calls,
                engine_seconds=time.engine,
                tool_seconds=time.tool,
                waiting_seconds=time.waiting,
                agent_seconds=time.agent,
            )
        )
    return tuple(counted)


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def last_checks(journal: tuple[JournalEntry, ...]) -> tuple[CheckLine, ...] | None:
    """The checks of the last `verify --all` that the harness ran on kept work; None where it ran none."""
    for entry in reversed(journal):
        if entry.event == "step-finished" and entry.step == "verify" and entry.outcome != "interrupted":
            first = entry.detail["runs"][0]
            return tuple(CheckLine(**check) for check in first["checks"])
    return None
