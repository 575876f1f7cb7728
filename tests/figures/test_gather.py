from __future__ import annotations

import pytest

from bench.contracts import SessionLabel
from bench.figures.gather import gather_requests
from bench.measure.exchange_line import Exchange, encode_line


def line(session: int, index: int, *, request: bytes = b"", before: bytes = b"") -> bytes:
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
            request=request,
            response=b"",
            response_bytes=0,
            redacted=False,
            arrivals=(),
        ),
        before=before,
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


def test_what_requests_were_for_is_found_session_by_session(tmp_path, profile):
    """All of these exchanges failed; the preflight asks the same before every segment, and that is no retry."""
    body = b'{"messages":[{"role":"user","content":"Build it."}],"tools":[{}]}'
    folders = [tmp_path / name for name in ("000", "001", "002")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        lines = line(number, 0, request=body) + line(number, 1, request=body, before=body)
        (folder / "exchanges.jsonl").write_bytes(lines)
    records = gather_requests(folders, profile, warn=pytest.fail).requests
    assert [(one.session, one.index, one.purpose) for one in records] == [
        (0, 0, "turn"),
        (0, 1, "turn"),
        (1, 0, "turn"),
        (1, 1, "retry"),
        (2, 0, "turn"),
        (2, 1, "retry"),
    ]
