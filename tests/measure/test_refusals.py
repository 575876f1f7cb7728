"""Requests that do not pass the relay are counted to the last one, and the count is evidence."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bench.measure.refusals import NAME, Refusals, read_refused


def test_no_file_no_refusal(tmp_path):
    refusals = Refusals(tmp_path)
    refusals.close()
    assert read_refused(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_each_one_is_kept_with_its_reason(tmp_path):
    refusals = Refusals(tmp_path)
    refusals.add(wall=1e9, status=404, why="GET /metrics does not exist here")
    refusals.add(wall=1e9 + 1, status=None, why="the client left before its request was whole")
    refusals.close()
    lines = [json.loads(line) for line in (tmp_path / NAME).read_text().splitlines()]
    assert [(line["count"], line["status"]) for line in lines] == [(1, 404), (2, None)]
    assert read_refused(tmp_path) == 2


def test_a_flood_is_counted_but_not_kept(tmp_path):
    refusals = Refusals(tmp_path)
    for _ in range(12_345):
        refusals.add(wall=1e9, status=404, why="GET / does not exist here")
    refusals.close()
    assert read_refused(tmp_path) == 12_345
    assert len((tmp_path / NAME).read_bytes().splitlines()) == 1000 + 11 + 1


def test_counting_goes_on_behind_a_torn_line(tmp_path):
    first = Refusals(tmp_path)
    first.add(wall=1e9, status=404, why="GET / does not exist here")
    with (tmp_path / NAME).open("ab") as stream:
        stream.write(b'{"count": 2, "at": 1')
    assert read_refused(tmp_path) == 1
    second = Refusals(tmp_path)
    second.add(wall=1e9, status=404, why="GET / does not exist here")
    assert read_refused(tmp_path) == 2


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("refused")
    (folder / NAME).write_bytes(data)
    assert read_refused(folder) >= 0


def test_through_the_relay(relayed, play, tmp_path):
    _, relay, address = relayed(play.json_answer({"ok": 1}))
    assert play.ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 404 ")
    assert play.ask(address, b"get /v1/models HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    with play.connect(address) as connection:
        connection.sendall(play.post(b"x" * 100)[:-1])
    relay.close_session(play.label())
    assert read_refused(tmp_path) == 3
    said = [json.loads(line)["why"] for line in (tmp_path / NAME).read_text().splitlines()]
    assert said[0] == "GET /metrics does not exist here"
    assert said[1].startswith("malformed request: ")
    assert said[2] == "the client left before its request was whole"
