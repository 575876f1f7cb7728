"""A project that fills the disk is seen, whatever it does to its own tree."""

from __future__ import annotations

from bench.agents import project_weight


def test_size_and_count_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(project_weight, "PROJECT_BYTES", 3_000_000)
    monkeypatch.setattr(project_weight, "PROJECT_FILES", 50)
    assert not project_weight.outgrown(tmp_path)
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    assert not project_weight.outgrown(tmp_path), "a hole takes no room"
    (tmp_path / "big").write_bytes(b"x" * 4_000_000)
    assert project_weight.outgrown(tmp_path)
    (tmp_path / "big").unlink()
    for number in range(60):
        (tmp_path / f"{number}").touch()
    assert project_weight.outgrown(tmp_path)


def test_the_agent_s_own_folder_is_weighed_too(tmp_path, monkeypatch):
    monkeypatch.setattr(project_weight, "PROJECT_BYTES", 3_000_000)
    for name in ("project", "home"):
        (tmp_path / name).mkdir()
    assert not project_weight.outgrown(tmp_path / "project", tmp_path / "home")
    (tmp_path / "home" / "big").write_bytes(b"x" * 4_000_000)
    assert project_weight.outgrown(tmp_path / "project", tmp_path / "home")


def test_a_tree_that_is_gone_weighs_nothing(tmp_path):
    assert not project_weight.outgrown(tmp_path / "gone")
