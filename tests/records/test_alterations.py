"""What was changed behind a run's back is found before the run is gone on with."""

from __future__ import annotations

from dataclasses import replace

from bench.records import store
from bench.records.alterations import altered_since_record


def test_only_what_changed_is_named(tmp_path, small_record):
    for name in ("journal.jsonl", "sessions/001/events.jsonl", "blobs/ab/c", "cases.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\n")
    assert altered_since_record(tmp_path) == ()
    store.write_record(tmp_path, replace(small_record, evidence=store.manifest(tmp_path)), 1)
    assert altered_since_record(tmp_path) == ()
    with (tmp_path / "journal.jsonl").open("a") as stream:
        stream.write("a further line is what a run adds\n")
    (tmp_path / "cases.json").write_text("judged again")
    assert altered_since_record(tmp_path) == ()
    (tmp_path / "sessions/001/events.jsonl").write_text("two\n")
    (tmp_path / "blobs/ab/c").unlink()
    (tmp_path / "blobs/ab/c").symlink_to(tmp_path / "journal.jsonl")
    assert altered_since_record(tmp_path) == ("blobs/ab/c", "sessions/001/events.jsonl")
    (tmp_path / "journal.jsonl").write_text("x")
    assert "journal.jsonl" in altered_since_record(tmp_path)
    (tmp_path / "record.json").write_text("{")
    assert altered_since_record(tmp_path) == ("record.json",)
