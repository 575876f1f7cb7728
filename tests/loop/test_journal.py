"""journal.jsonl: what is written is read again; a torn end is dropped and said, any other damage refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import EvidenceError
from bench.loop.journal import Journal, last_snapshot, read_journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def filled(path, count=3):
    journal = Journal.open(path)
    for number in range(count):
        journal.append(
            "step-started",
            at=10.5 + number,
            step="builder",
            session=number + 1,
            task="T001",
            detail={"reason": "née \u2028 \ud800", "pairs": [(1, 2)]},
            snapshot=f"digest-{number}",
        )
    return journal


def test_what_is_written_is_read_again(path):
    written = filled(path)
    again = Journal.open(path)
    assert again.entries == written.entries
    assert [entry.seq for entry in again.entries] == [1, 2, 3]
    assert again.entries[0].detail == {"reason": "n\u00e9e \u2028 ?", "pairs": [[1, 2]]}
    assert again.torn is None
    again.append("segment-ended", at=20, outcome="complete")
    assert [entry.seq for entry in read_journal(path).entries] == [1, 2, 3, 4]
    assert last_snapshot(again.entries) == "digest-2"


def test_no_file_is_an_empty_journal(path):
    assert Journal.open(path).entries == []
    assert last_snapshot([]) is None
    assert not path.exists()


def test_a_torn_last_line_is_dropped_and_said_wherever_it_was_cut(path):
    filled(path)
    content = path.read_bytes()
    begin = content.rstrip(b"\n").rindex(b"\n") + 1
    for cut in range(begin + 1, len(content)):
        path.write_bytes(content[:cut])
        found = read_journal(path)
        assert len(found.entries) == 2
        assert f"cut off after {cut - begin:,} bytes" in found.torn
        assert path.read_bytes() == content[:cut], "reading changes nothing"
    journal = Journal.open(path)
    assert journal.torn
    assert path.read_bytes() == content[:begin]
    journal.append("segment-started", at=1.0)
    assert [entry.seq for entry in Journal.open(path).entries] == [1, 2, 3]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (b"not json\n", "not JSON"),
        (b"[1]\n", "not a JSON object"),
        (b"\n", "not JSON"),
        (b"\x00\x00\x00\n", "not JSON"),
        (b'{"seq":2,"event":"step-started"}\n', "at: "),
        (b'{"seq":2,"event":"step-began","at":1}\n', "event: "),
        (b'{"seq":2,"event":"step-started","at":NaN}\n', "NaN"),
        (b'{"seq":2,"event":"step-started","at":"1"}\n', "at: "),
        (b'{"seq":2,"event":"step-started","at":1,"surprise":1}\n', "unknown key 'surprise'"),
        (b'{"seq":7,"event":"step-started","at":1}\n', "entry 7 where entry 2 was expected"),
        (b'{"seq":1,"event":"step-started","at":1}\n', "entry 1 where entry 2 was expected"),
        (b"[" * 100_000 + b"\n", "not JSON"),
    ],
)
def test_a_damaged_middle_is_refused_with_its_line(path, damage, said):
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + damage + lines[2])
    with pytest.raises(EvidenceError) as caught:
        Journal.open(path)
    assert f"{path}:2: the journal is damaged" in str(caught.value)
    assert said in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_one_changed_byte_is_refused_or_changes_what_is_read_but_nothing_else(tmp_path_factory, place, byte):
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    filled(path)
    content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content)
    try:
        found = read_journal(path)
    except EvidenceError:
        return
    assert [entry.seq for entry in found.entries] == list(range(1, len(found.entries) + 1))


def test_a_journal_that_cannot_be_written_says_so(tmp_path):
    journal = Journal.open(tmp_path / "gone" / "journal.jsonl")
    with pytest.raises(EvidenceError, match="cannot be written"):
        journal.append("segment-started", at=1.0)
    assert journal.entries == []


def test_an_entry_is_one_line(path):
    filled(path)
    for line in path.read_bytes().split(b"\n")[:-1]:
        assert json.loads(line)["step"] == "builder"
