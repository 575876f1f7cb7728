"""Where do the request records come from? From the relay's evidence in the folders of a run's sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.engine_profile import EngineProfile
from bench.measure.endpoints import MODELS_PATH
from bench.measure.exchange import DAMAGED, iterate_in_order, request_record
from bench.measure.purpose import LENGTH_STOPS, PurposeReader, says_nothing
from bench.measure.wall_clock import WallClock
from bench.records.schema import RequestRecord


@dataclass(frozen=True, kw_only=True)
class Gathered:
    requests: tuple[RequestRecord, ...]
    """Ordered by session and request."""

    clock_step: str | None
    """What the machine's clock did, where it was set meanwhile."""


def gather_requests(
    session_folders: Iterable[Path], profile: EngineProfile, *, warn: Callable[[str], None]
) -> Gathered:
    """Every exchange of every session as a record; a few exchanges in memory at a time.

    A session without requests may have no file. Raises EvidenceError on damage that is no torn last line.
    """
    clock = WallClock()
    records: list[RequestRecord] = []
    for folder in session_folders:
        purposes, first = PurposeReader(), len(records)
        for exchange in iterate_in_order(folder / "exchanges.jsonl", warn=warn):
            clock.look(exchange)
            record = request_record(exchange, profile)
            records.append(record)
            if record.session > 0 and record.path != MODELS_PATH:
                finish = record.finish_reason
                failed = record.error is not None or finish in LENGTH_STOPS or says_nothing(exchange, finish)
                purposes.take(exchange, failed=failed, finish_reason=finish)
            if record.reason is not None and DAMAGED in record.reason:
                said = record.reason.partition(DAMAGED)[2].partition("; ")[0]
                warn(f"session {record.session:03d}, request {record.index}: {DAMAGED}{said}")
        found = purposes.purposes()
        records[first:] = [
            replace(one, purpose=found[one.index]) if one.index in found else one for one in records[first:]
        ]
    ordered = sorted(records, key=lambda record: (record.session, record.index))
    return Gathered(requests=tuple(ordered), clock_step=clock.step())
