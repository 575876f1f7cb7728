"""A torn last line is cut, however long it is, and nothing else is."""

from __future__ import annotations

import pytest

from bench.measure.line_file import drop_torn_line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b"whole\n", b"whole\n"),
        (b"whole\ntorn", b"whole\n"),
        (b"torn", b""),
        (b"whole\n" + b"x" * 300_000, b"whole\n"),
        (b"x" * 300_000, b""),
        (b"x" * 65_535 + b"\n" + b"y" * 65_536, b"x" * 65_535 + b"\n"),
    ],
)
def test_the_rest_stays(tmp_path, before, after):
    path = tmp_path / "lines"
    path.write_bytes(before)
    drop_torn_line(path)
    assert path.read_bytes() == after


def test_a_missing_file_is_made(tmp_path):
    drop_torn_line(tmp_path / "new")
    assert (tmp_path / "new").read_bytes() == b""
