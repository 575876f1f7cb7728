"""Copying pipes into files: every byte up to a limit, and none of the lines that are not kept, however it is cut."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.agents.pipe_copy import PipeCopies, _LineFilter
from bench.errors import EvidenceError

NOISE = (b"ab", b"abcd", b"x")


def naive(data, beginnings):
    """Lines that begin so are left out, a last one without an end as well."""
    *lines, last = data.split(b"\n")
    return b"".join(line for line in (*(line + b"\n" for line in lines), last) if not line.startswith(beginnings))


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=4) | st.text("abcdx\n", max_size=6).map(str.encode), max_size=30))
def test_it_keeps_what_a_simple_filter_keeps_however_the_stream_is_cut(pieces):
    lines = _LineFilter(NOISE)
    assert b"".join(map(lines.feed, pieces)) + lines.end() == naive(b"".join(pieces), NOISE)


def test_it_holds_back_no_more_than_the_longest_beginning():
    lines = _LineFilter((b'{"type":"message_update"',))
    assert lines.feed(b'{"type":"message_up') == b""
    assert lines.feed(b"_end" + b"x" * 1000) == b'{"type":"message_up_end' + b"x" * 1000
    assert lines.feed(b"y\n") == b"y\n"


@pytest.fixture
def pipe():
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb", buffering=0) as sink:
        yield source, sink


def copied(pipe, path, data, *, limit, noise=()):
    source, sink = pipe
    with PipeCopies() as copies:
        copies.add(source, path, limit, noise)
        for piece in data:
            sink.write(piece)
            assert copies.pump(1)
        sink.close()
        while copies.open:
            copies.pump(1)
        return path.read_bytes(), copies.dropped


def test_a_stream_is_cut_at_its_limit_and_says_so(pipe, tmp_path):
    kept, dropped = copied(pipe, tmp_path / "out", [b"12345", b"67890"], limit=7)
    assert (kept, dropped) == (b"1234567", "out was cut at 7 bytes")


def test_lines_that_are_not_kept_do_not_count(pipe, tmp_path):
    data = [b"noise 1\nto", b" be kept\nnoi", b"se 2\nno", b"thing\n", b"nois"]
    kept, dropped = copied(pipe, tmp_path / "out", data, limit=16, noise=(b"noise",))
    assert (kept, dropped) == (b"to be kept\nnothi", "out was cut at 16 bytes")


def test_an_end_without_a_line_end_is_kept(pipe, tmp_path):
    kept, dropped = copied(pipe, tmp_path / "out", [b"nois"], limit=100, noise=(b"noise",))
    assert (kept, dropped) == (b"nois", None)


def test_evidence_is_never_overwritten(pipe, tmp_path):
    (tmp_path / "out").write_bytes(b"old")
    with PipeCopies() as copies, pytest.raises(EvidenceError, match="cannot be written"):
        copies.add(pipe[0], tmp_path / "out", 10)
    assert (tmp_path / "out").read_bytes() == b"old"
