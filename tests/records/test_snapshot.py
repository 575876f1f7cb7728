"""A project is taken without following anything and put back exactly."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import EvidenceError
from bench.records.snapshot import BlobStore, Quota, load, restore, save, take


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    return place


def reasons(snapshot):
    return {item.path: item.reason for item in snapshot.rejected}


def test_regular_files_are_taken_with_their_digests_and_modes(tmp_path, project):
    (project / "sub").mkdir()
    (project / "sub" / "a.txt").write_text("one")
    (project / "verify").write_text("#!/bin/sh\n")
    (project / "verify").chmod(0o755)
    snapshot = take(project, BlobStore(tmp_path / "blobs"))
    assert [(file.path, file.bytes, file.executable) for file in snapshot.files] == [
        ("sub/a.txt", 3, False),
        ("verify", 10, True),
    ]
    assert snapshot.rejected == ()


def test_nothing_is_followed(tmp_path, project):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "answer").write_text("42")
    (project / "link").symlink_to(secret / "answer")
    (project / "folder").symlink_to(secret)
    os.mkfifo(project / "pipe")
    (project / "one").write_text("x")
    (project / "two").hardlink_to(project / "one")
    with (project / "sparse").open("wb") as stream:
        stream.truncate(50_000_000_000)
    os.close(os.open(os.fsencode(project) + b"/bad\xff", os.O_CREAT | os.O_WRONLY))
    (project / "line\nbreak").write_text("x")
    snapshot = take(project, BlobStore(tmp_path / "blobs"))
    assert snapshot.files == ()
    told = reasons(snapshot)
    assert told["link"] == told["folder"] == "a symbolic link"
    assert told["pipe"] == "not a regular file"
    assert "hard link" in told["one"]
    assert "quota" in told["sparse"]
    assert len(told) == 8


def test_quotas_hold(tmp_path, project):
    for number in range(5):
        (project / f"{number}").write_bytes(b"x" * 10)
    blobs = BlobStore(tmp_path / "blobs")
    assert len(take(project, blobs, quota=Quota(files=3)).files) == 3
    assert len(take(project, blobs, quota=Quota(total_bytes=25)).files) == 2
    deep = project
    for _ in range(30):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert any("folders deep" in item.reason for item in take(project, blobs).rejected)


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,6}(/[a-z]{1,6})?", fullmatch=True),
        st.tuples(st.binary(max_size=200), st.booleans()),
        max_size=6,
    )
)
def test_restoring_gives_the_same_digest(tmp_path_factory, tree):
    base = tmp_path_factory.mktemp("tree")
    project = base / "project"
    project.mkdir()
    for path, (content, executable) in tree.items():
        place = project / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            continue
        place.chmod(0o755 if executable else 0o644)
    blobs = BlobStore(base / "blobs")
    first = take(project, blobs)
    (project / "zz-new").mkdir(mode=0o700)
    (project / "zz-new" / "x").write_text("changed")
    (project / "zz-new").chmod(0o000)
    (project / "zz-link").symlink_to("/")
    restore(first, blobs, project)
    assert take(project, blobs) == first


def test_a_stored_snapshot_that_was_changed_is_refused(tmp_path, project):
    (project / "a").write_text("one")
    blobs = BlobStore(tmp_path / "blobs")
    snapshot = take(project, blobs)
    save(snapshot, tmp_path / "snapshots")
    assert load(tmp_path / "snapshots", snapshot.digest) == snapshot
    place = tmp_path / "snapshots" / f"{snapshot.digest}.json"
    data = json.loads(place.read_text())
    data["files"][0]["path"] = "../../outside"
    place.write_text(json.dumps(data))
    with pytest.raises(EvidenceError):
        load(tmp_path / "snapshots", snapshot.digest)
    blob = next(path for path in (tmp_path / "blobs").rglob("*") if path.is_file())
    blob.write_bytes(b"junk")
    with pytest.raises(EvidenceError):
        restore(snapshot, blobs, project)
