from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.http_wire import (
    AnswerHeadReader,
    Body,
    WireError,
    end_to_end,
    read_answer_head,
    read_request_head,
    request_framing,
    write_head,
)


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%X\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6), st.lists(st.integers(0, 5000), max_size=12))
def test_a_chunked_body_comes_out_the_same_however_it_is_split(pieces, cuts):
    body = Body("chunked")
    out = b"".join(body.feed(part) for part in split(chunked(pieces) + b"GET /next", cuts))
    assert out == b"".join(pieces)
    assert body.finished


@given(st.binary(max_size=300), st.binary(max_size=50), st.lists(st.integers(0, 400), max_size=6))
def test_a_body_of_known_length_ends_there(payload, extra, cuts):
    body = Body(len(payload))
    assert b"".join(body.feed(part) for part in split(payload + extra, cuts)) == payload
    assert body.finished


@given(st.binary(max_size=400))
def test_any_bytes_are_a_head_or_a_wire_error(data):
    for read in (read_request_head, read_answer_head, AnswerHeadReader().feed, Body("chunked").feed):
        with contextlib.suppress(WireError):
            read(data + b"\r\n\r\n")


def test_a_written_head_is_read_back():
    head = read_request_head(write_head("POST /x?y HTTP/1.1", [("A", "b c"), ("Content-Length", "12")]))
    assert (head.method, head.target) == ("POST", "/x?y")
    assert head.headers == (("A", "b c"), ("Content-Length", "12"))
    assert request_framing(head) == 12


def test_headers_of_the_connection_are_not_passed_on():
    headers = (
        ("Connection", "X-Secret, close"),
        ("x-secret", "1"),
        ("TE", "trailers"),
        ("Auth_Key", "2"),
        ("Kept", "3"),
    )
    assert end_to_end(headers, without=("auth-key",)) == (("Kept", "3"),)


@pytest.mark.parametrize("status", [b"HTTP/1.1 200", b"HTTP/1.1 200 ", b"HTTP/1.0 200 fine\xff"])
def test_status_lines(status):
    assert read_answer_head(status + b"\r\nA:b\r\n\r\n").status == 200


def test_no_http_is_said_before_a_line_ends():
    with pytest.raises(WireError, match="does not begin"):
        AnswerHeadReader().feed(b"SSH")
    assert AnswerHeadReader().feed(b"HT") is None
