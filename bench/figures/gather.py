"""Where do the request records come from? From the relay's evidence in the folders of a run's sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from bench.engine_profile import EngineProfile
from bench.measure.exchange import iterate_exchanges, request_record
from bench.records.schema import RequestRecord


def gather_requests(
    session_folders: Iterable[Path], profile: EngineProfile, *, warn: Callable[[str], None]
) -> tuple[RequestRecord, ...]:
    """Every exchange of every session as a record, ordered by session and request; one exchange in memory at a time.

    A session without requests may have no file. Raises EvidenceError on damage that is no torn last line.
    """
    records = [
        request_record(exchange, profile)
        for folder in session_folders
        for exchange in iterate_exchanges(folder / "exchanges.jsonl", warn=warn)
    ]
    return tuple(sorted(records, key=lambda record: (record.session, record.index)))
