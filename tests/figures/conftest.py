from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.engine_profile import EngineProfile
from bench.figures.compute import compute
from bench.figures.run_evidence import Evidence
from bench.records.schema import Figure, RequestRecord, SegmentRow, SessionRow, UsageRecord


@pytest.fixture
def profile() -> EngineProfile:
    return EngineProfile(
        name="played",
        title="Played engine",
        simulated=False,
        response_fields={},
        includes={"ttft_seconds": "queueing excluded"},
        unavailable={},
        memory_errors=(),
        context_errors=(),
    )


@pytest.fixture(scope="session")
def request_of() -> Callable[..., RequestRecord]:
    def make(**changes: object) -> RequestRecord:
        values = {
            **dict.fromkeys(RequestRecord.__dataclass_fields__),
            "session": 1,
            "role": "builder",
            "index": 0,
            "path": "/v1/chat/completions",
            "streamed": True,
            "status": 200,
            "sent_at": 0.0,
            "ended_at": 1.0,
            "purpose": "turn",
            "source": "engine-response",
            "draft_source": "engine-response",
        }
        return RequestRecord(**{**values, **changes})

    return make


@pytest.fixture(scope="session")
def claim_of() -> Callable[..., UsageRecord]:
    def make(**changes: object) -> UsageRecord:
        return UsageRecord(**{**dict.fromkeys(UsageRecord.__dataclass_fields__), "session": 1, "index": 0, **changes})

    return make


@pytest.fixture(scope="session")
def session_of() -> Callable[..., SessionRow]:
    def make(**changes: object) -> SessionRow:
        values = {
            **dict.fromkeys(SessionRow.__dataclass_fields__),
            "session": 1,
            "role": "builder",
            "outcome": "done",
            "segment": 1,
        }
        return SessionRow(**{**values, **changes})

    return make


@pytest.fixture(scope="session")
def segment_of() -> Callable[..., SegmentRow]:
    def make(number: int, started_at: float, seconds: float) -> SegmentRow:
        return SegmentRow(
            segment=number, started_at=started_at, ended_at=started_at + seconds, end="complete", seconds=seconds
        )

    return make


@pytest.fixture
def figures(profile: EngineProfile, segment_of: Callable[..., SegmentRow]) -> Callable[..., dict[str, Figure]]:
    """Computes the figures of evidence given by keyword, as one whole segment unless told otherwise; by id."""

    def run(**parts: object) -> dict[str, Figure]:
        evidence = Evidence(**{"profile": profile, "segments": (segment_of(1, 0.0, 60.0),), **parts})
        return {figure.id: figure for figure in compute(evidence) if figure.scope is None}

    return run
