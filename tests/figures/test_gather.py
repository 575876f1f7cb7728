from __future__ import annotations

import pytest

from bench.contracts import SessionLabel
from bench.figures.gather import gather_requests
from bench.measure.exchange_line import Exchange, encode_line


def line(session: int, index: int) -> bytes:
    label = SessionLabel(run_id="r", session=session, role="builder", task=None, attempt=1, retry=0)
    return encode_line(
        Exchange(
            label=label,
            index=index,
            engine_process=2,
            method="POST",
            path="/v1/chat/completions",
            status=None,
            streamed=False,
            started_at=1.0,
            sent_at=1.0,
            first_byte_at=None,
            ended_at=2.0,
            fault="refused: no",
            request=b"",
            response=b"",
            response_bytes=0,
            redacted=False,
            arrivals=(),
        ),
        before=b"",
    )


def test_requests_of_all_sessions_in_order(tmp_path, profile):
    folders = [tmp_path / name for name in ("002", "001", "empty")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "exchanges.jsonl").write_bytes(line(2, 0))
    (folders[1] / "exchanges.jsonl").write_bytes(line(1, 1) + line(1, 0) + b"{")
    said: list[str] = []
    records = gather_requests(folders, profile, warn=said.append).requests
    assert [(record.session, record.index) for record in records] == [(1, 0), (1, 1), (2, 0)]
    assert {(record.engine_process, record.error) for record in records} == {(2, "refused: no")}
    assert len(said) == 1
    assert gather_requests([tmp_path / "missing"], profile, warn=pytest.fail).requests == ()
