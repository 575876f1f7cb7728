"""Exchanges are read in the order in which they were asked, whatever order their connections ended in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.contracts import SessionLabel
from bench.errors import EvidenceError
from bench.measure.exchange import iterate_in_order
from bench.measure.exchange_line import Exchange, encode_line

PLAIN = Exchange(
    label=SessionLabel(run_id="r", session=3, role="builder", task=None, attempt=1, retry=0),
    index=0,
    engine_process=1,
    method="POST",
    path="/v1/chat/completions",
    status=200,
    streamed=False,
    started_at=1e9,
    sent_at=100.0,
    first_byte_at=100.5,
    ended_at=110.0,
    fault=None,
    request=b"{}",
    response=b"{}",
    response_bytes=2,
    redacted=False,
    arrivals=(),
)


def written(folder, indices, tail=b""):
    path = folder / "exchanges.jsonl"
    before = b""
    lines = []
    for index in indices:
        one = replace(PLAIN, index=index, request=b'{"n":%d}' % index)
        lines.append(encode_line(one, before=before))
        before = one.request
    path.write_bytes(b"".join(lines) + tail)
    return path


def read(path):
    return [one.index for one in iterate_in_order(path, warn=pytest.fail)]


@given(st.lists(st.integers(0, 6), max_size=40))
def test_what_ends_a_little_late_comes_in_its_place(tmp_path_factory, delays):
    """Each ends some places after the one that began with it."""
    ended = sorted(range(len(delays)), key=lambda index: (index + delays[index], index))
    assert read(written(tmp_path_factory.mktemp("order"), ended)) == list(range(len(delays)))


def test_what_ends_very_late_comes_when_it_ends(tmp_path):
    assert read(written(tmp_path, [*range(1, 40), 0])) == [*range(1, 40), 0]


def test_a_preflight_of_the_next_segment_counts_anew(tmp_path):
    assert read(written(tmp_path, [0, 1, 0, 1])) == [0, 1, 0, 1]


def test_none_is_lost_where_two_count_the_same(tmp_path):
    assert sorted(read(written(tmp_path, [1, 2, 1, 2]))) == [1, 1, 2, 2]


def test_damage_comes_after_all_that_could_be_read(tmp_path):
    order = iterate_in_order(written(tmp_path, [2, 1], b"{}\n"), warn=pytest.fail)
    assert [next(order).index, next(order).index] == [1, 2]
    with pytest.raises(EvidenceError, match="line 3 is damaged"):
        next(order)
