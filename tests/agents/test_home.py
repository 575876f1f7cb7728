"""An agent's own folder: made anew for every session, and taken from without following or trusting anything."""

from __future__ import annotations

import os

import pytest

from bench.agents.home import KEPT_BYTES, keep, make_home
from bench.errors import EvidenceError

WANTED = {"kept.jsonl": "sessions/*_s7.jsonl"}


@pytest.fixture
def home(tmp_path):
    place = tmp_path / "home"
    make_home(place, {"sessions/.keep": b"", "config/models.json": b"{}"})
    return place


@pytest.fixture
def evidence(tmp_path):
    place = tmp_path / "evidence"
    place.mkdir()
    return place


def test_it_holds_its_files_and_nothing_of_an_earlier_session(home):
    (home / "sessions" / "old.jsonl").touch()
    (home / "link").symlink_to("/etc")
    make_home(home, {"config/settings.json": b"[]"})
    assert sorted(path.relative_to(home).as_posix() for path in home.rglob("*")) == ["config", "config/settings.json"]


def test_a_folder_that_the_agent_closed_is_made_anew(home):
    (home / "sessions").chmod(0)
    make_home(home, {})
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_stands_in_its_place_is_told(tmp_path, kind):
    place = tmp_path / "home"
    if kind == "file":
        place.write_bytes(b"mine")
    else:
        place.symlink_to("/etc")
    with pytest.raises(EvidenceError, match=r"home: the agent's folder cannot be written \(File exists\); set TMPDIR"):
        make_home(place, {"a": b""})


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path):
    """Nothing is closed to root, for whom a file stands in the way instead."""
    closed = tmp_path / "closed"
    if os.geteuid() == 0:
        closed.touch()
    else:
        closed.mkdir(mode=0o555)
    with pytest.raises(
        EvidenceError, match=r"closed/home: the agent's folder cannot be written \(.*\); set TMPDIR to a"
    ):
        make_home(closed / "home", {})


def test_the_wanted_file_is_kept_and_others_are_not(home, evidence):
    (home / "sessions" / "t_s7.jsonl").write_bytes(b"one")
    (home / "sessions" / "t_s8.jsonl").write_bytes(b"other")
    assert keep(home, WANTED, evidence) == ()
    assert [(path.name, path.read_bytes()) for path in evidence.iterdir()] == [("kept.jsonl", b"one")]


def test_nothing_is_kept_where_nothing_is(home, evidence):
    assert keep(home, WANTED, evidence) == ()
    assert list(evidence.iterdir()) == []


def test_of_several_the_last_is_kept_and_it_is_told(home, evidence):
    for name in ("b_s7.jsonl", "a_s7.jsonl"):
        (home / "sessions" / name).write_text(name, encoding="utf-8")
    assert keep(home, WANTED, evidence) == ("2 files are sessions/*_s7.jsonl in the agent's folder; the last is kept",)
    assert (evidence / "kept.jsonl").read_text() == "b_s7.jsonl"


@pytest.mark.parametrize(
    ("kind", "said"),
    [("link", "cannot be read"), ("fifo", "is no regular file"), ("folder link", "cannot be read"), ("folder", None)],
)
def test_links_pipes_and_folders_are_not_followed_or_waited_for(home, evidence, tmp_path, kind, said):
    place = home / "sessions" / "t_s7.jsonl"
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "t_s7.jsonl").write_bytes(b"secret")
    match kind:
        case "link":
            place.symlink_to(tmp_path / "secrets" / "t_s7.jsonl")
        case "fifo":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case "folder link":
            (home / "sessions" / ".keep").unlink()
            (home / "sessions").rmdir()
            (home / "sessions").symlink_to(tmp_path / "secrets")
    found = keep(home, WANTED, evidence)
    assert (found == ()) if said is None else (said in found[0])
    assert list(evidence.iterdir()) == []


def test_a_file_that_is_too_long_is_cut_and_it_is_told(home, evidence):
    with (home / "sessions" / "t_s7.jsonl").open("wb") as file:
        file.truncate(200_000_000)
    assert keep(home, WANTED, evidence) == ("sessions/*_s7.jsonl: was cut at 64,000,000 bytes",)
    assert (evidence / "kept.jsonl").stat().st_size == KEPT_BYTES


def test_a_full_or_closed_evidence_folder_is_our_fault(home, evidence):
    (home / "sessions" / "t_s7.jsonl").touch()
    (evidence / "kept.jsonl").touch()
    with pytest.raises(EvidenceError, match="cannot be written"):
        keep(home, WANTED, evidence)


def test_a_home_that_is_full_elsewhere_hides_nothing(home, evidence):
    """An agent that installs packages in its home: what is wanted is looked for where it is said to be."""
    (home / "sessions" / "t_s7.jsonl").write_bytes(b"one")
    (home / "named.txt").write_bytes(b"two")
    many = home / "aaa"
    many.mkdir()
    for number in range(10_050):
        (many / f"{number}").touch()
    assert keep(home, {**WANTED, "named.txt": "named.txt", "none.txt": "none.txt"}, evidence) == ()
    assert {path.name: path.read_bytes() for path in evidence.iterdir()} == {"kept.jsonl": b"one", "named.txt": b"two"}
    assert keep(home, {"kept": "no such*"}, evidence) == (
        "no such*: only the first 10,000 entries of the agent's folder were looked at",
    )


def test_folders_within_folders_are_followed_only_so_far(home, evidence):
    deep = home / "sessions" / "/".join("d" * 40)
    deep.mkdir(parents=True)
    (deep / "t_s7.jsonl").touch()
    (said,) = keep(home, WANTED, evidence)
    assert said == "sessions/*_s7.jsonl: folders deeper than 32 in the agent's folder were not looked at"
    assert list(evidence.iterdir()) == []


def test_a_wanted_path_that_is_a_link_is_not_followed(home, evidence, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (home / "named.txt").symlink_to(tmp_path / "secret")
    (said,) = keep(home, {"kept.txt": "named.txt"}, evidence)
    assert said.startswith("named.txt: cannot be read")
    assert list(evidence.iterdir()) == []
