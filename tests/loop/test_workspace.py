"""The project folder between steps: always equal to a snapshot, whatever a session left in it."""

from __future__ import annotations

import os

import pytest

from bench.errors import EvidenceError, HarnessError, UsageError
from bench.loop.workspace import Workspace


@pytest.fixture
def make(tmp_path):
    return lambda: Workspace(project=tmp_path / "project", blobs=tmp_path / "blobs", snapshots=tmp_path / "snapshots")


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_it_begins_with_the_starter_files(make, tmp_path):
    starter = tmp_path / "starter"
    (starter / "src").mkdir(parents=True)
    (starter / "src" / "a.txt").write_text("a")
    (starter / "run").write_text("#!/bin/sh\n")
    (starter / "run").chmod(0o755)
    workspace = make()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "left-over").write_text("of a begin that was killed")
    digest = workspace.begin(starter)
    assert tree(workspace.project) == tree(starter)
    assert workspace.current.digest == digest
    assert workspace.read("src/a.txt", at_most_bytes=10) == b"a"


def test_without_starter_files_it_begins_empty(make):
    workspace = make()
    workspace.begin(None)
    assert list(workspace.project.iterdir()) == []
    assert workspace.read("plan.json", at_most_bytes=10) is None


def test_a_starter_with_a_link_is_refused(make, tmp_path):
    starter = tmp_path / "starter"
    starter.mkdir()
    (starter / "link").symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match="link cannot be copied: a symbolic link"):
        make().begin(starter)


@pytest.mark.parametrize(
    "path", [".git/HEAD", "deep/.git/objects/ab/cd", ".git", ".GIT/config", "old.git/HEAD", ".hg/store/a"]
)
def test_a_starter_with_the_history_of_a_repository_is_refused(make, tmp_path, path):
    place = tmp_path / "starter" / path
    place.parent.mkdir(parents=True)
    place.write_text("ref: refs/heads/answers")
    (tmp_path / "starter" / "brief.md").write_text("x")
    workspace = make()
    with pytest.raises(UsageError, match=f"{path} is history of a repository"):
        workspace.begin(tmp_path / "starter")
    assert not workspace.project.exists()


def test_files_that_only_speak_of_git_are_no_history(make, tmp_path):
    for name in (".gitignore", ".gitattributes", "git", "notes.git", ".github/workflows/a.yaml"):
        (tmp_path / "starter" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "starter" / name).write_text("x")
    workspace = make()
    workspace.begin(tmp_path / "starter")
    assert tree(workspace.project) == tree(tmp_path / "starter")


def test_history_that_an_agent_makes_is_its_own(make):
    workspace = make()
    workspace.begin(None)
    (workspace.project / ".git").mkdir()
    (workspace.project / ".git" / "HEAD").write_text("ref: refs/heads/main")
    assert workspace.settle(keep=True).changed == (".git/HEAD",)
    assert (workspace.project / ".git" / "HEAD").exists()


def test_what_a_step_left_is_kept_or_thrown_away(make):
    workspace = make()
    first = workspace.begin(None)
    (workspace.project / "a.txt").write_text("1")
    kept = workspace.settle(keep=True)
    assert (kept.changed, kept.rejected) == (("a.txt",), ())
    assert kept.digest == workspace.current.digest != first
    (workspace.project / "a.txt").write_text("2")
    (workspace.project / "b" / "c").mkdir(parents=True)
    (workspace.project / "b" / "c" / "d.txt").write_text("x")
    thrown = workspace.settle(keep=False)
    assert (thrown.digest, thrown.changed) == (kept.digest, ("a.txt", "b/c/d.txt"))
    assert tree(workspace.project) == {"a.txt": (b"1", False)}
    untouched = workspace.settle(keep=False)
    assert (untouched.digest, untouched.changed) == (kept.digest, ())
    (workspace.project / "a.txt").chmod(0o755)
    assert workspace.settle(keep=True).changed == ("a.txt",)
    make_again = make()
    make_again.go_back(kept.digest)
    assert tree(workspace.project) == {"a.txt": (b"1", False)}
    assert make_again.read("a.txt", at_most_bytes=0) == b"1", "one byte more than asked for shows that it is longer"


def test_links_and_pipes_do_not_outlive_the_step(make, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    workspace = make()
    workspace.begin(None)
    (workspace.project / "a.txt").write_text("1")
    (workspace.project / "link").symlink_to(secret)
    (workspace.project / "folder").symlink_to(tmp_path)
    os.link(secret, workspace.project / "hard")
    os.mkfifo(workspace.project / "pipe")
    settled = workspace.settle(keep=True)
    assert [line.split(":")[0] for line in settled.rejected] == ["folder", "hard", "link", "pipe"]
    assert {path.name for path in workspace.project.iterdir()} == {"a.txt"}
    assert secret.read_text() == "secret"


def test_closed_folders_are_opened_and_restored(make):
    workspace = make()
    workspace.begin(None)
    (workspace.project / "deep").mkdir()
    (workspace.project / "deep" / "a.txt").write_text("1")
    workspace.settle(keep=True)
    (workspace.project / "deep").chmod(0)
    workspace.project.chmod(0)
    workspace.settle(keep=False)
    workspace.go_back(workspace.current.digest)
    assert tree(workspace.project) == {"deep/a.txt": (b"1", False)}


def test_a_snapshot_that_is_missing_or_damaged_is_said(make, tmp_path):
    workspace = make()
    workspace.begin(None)
    (workspace.project / "a.txt").write_text("1")
    digest = workspace.settle(keep=True).digest
    with pytest.raises(EvidenceError):
        make().go_back("0" * 64)
    for blob in (tmp_path / "blobs").rglob("*"):
        if blob.is_file():
            blob.write_bytes(b"junk")
    with pytest.raises(EvidenceError):
        make().go_back(digest)


def test_a_folder_that_cannot_be_read_is_the_harness_s_trouble(make):
    workspace = make()
    with pytest.raises(HarnessError, match="before it was opened"):
        workspace.settle(keep=True)
    workspace.begin(None)
    workspace.project.rmdir()
    with pytest.raises(EvidenceError, match="go on with --resume"):
        workspace.settle(keep=True)
