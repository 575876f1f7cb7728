from __future__ import annotations

import json

import pytest

from bench.contracts import SessionLabel
from bench.figures.gather import gather_requests
from bench.measure.exchange_line import Exchange, encode_line


def line(
    session: int, index: int, *, request: bytes = b"", before: bytes = b"", response: bytes | None = None
) -> bytes:
    label = SessionLabel(run_id="r", session=session, role="builder", task=None, attempt=1, retry=0)
    return encode_line(
        Exchange(
            label=label,
            index=index,
            engine_process=2,
            method="POST",
            path="/v1/chat/completions",
            status=None if response is None else 200,
            streamed=False,
            started_at=1.0,
            sent_at=1.0,
            first_byte_at=None,
            ended_at=2.0,
            fault="refused: no" if response is None else None,
            request=request,
            response=response or b"",
            response_bytes=len(response or b""),
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


def whole(finish: str, **message: object) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}).encode()


CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("first", "purpose"),
    [
        (whole("stop", content=""), "retry"),
        (whole("stop", content=None), "retry"),
        (whole("stop", content="", reasoning_content="Hm."), "retry"),
        (whole("length", content="So"), "retry"),
        (whole("stop", content="Done."), "turn"),
        (whole("stop", content=None, tool_calls=[CALL]), "turn"),
        (whole("tool_calls", content=None, tool_calls=[CALL]), "turn"),
    ],
)
def test_the_same_again_after_an_answer_that_said_nothing_is_a_retry(tmp_path, profile, first, purpose):
    """Some engines count the token that ends an empty answer, so its words decide, not its count."""
    body = b'{"messages":[{"role":"user","content":"Build it."}],"tools":[{}]}'
    lines = line(1, 0, request=body, response=first)
    lines += line(1, 1, request=body, before=body, response=whole("stop", content="Done."))
    (tmp_path / "exchanges.jsonl").write_bytes(lines)
    records = gather_requests([tmp_path], profile, warn=pytest.fail).requests
    assert [(one.error, one.purpose) for one in records] == [(None, "turn"), (None, purpose)]
