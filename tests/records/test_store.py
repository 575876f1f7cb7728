"""Runs are kept whole: ids, locks, records, digests."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace

import jsonschema
import pytest

from bench.errors import BusyError, EvidenceError, UsageError
from bench.records import store
from bench.records.json_schema import PUBLISHED, record_schema
from bench.spec import REPOSITORY


def test_a_taken_id_gets_the_next_number(tmp_path):
    def begun():
        folder = store.new_run(tmp_path, "2026-11-30-a")
        (folder / "run.json").write_text("{}")
        return folder.name

    assert [begun() for _ in range(3)] == ["2026-11-30-a", "2026-11-30-a-r2", "2026-11-30-a-r3"]


def test_what_a_failed_start_left_is_used_again_unless_somebody_holds_it(tmp_path):
    folder = store.new_run(tmp_path, "a")
    (folder / "engine").mkdir()
    (folder / "engine" / "engine.log").write_text("died")
    with store.locked(folder):
        assert store.new_run(tmp_path, "a").name == "a-r2"
    assert store.new_run(tmp_path, "a") == folder
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_run_names_are_lower_case_with_dashes():
    assert (
        store.run_name("2026-11-30", "SmolLM2-135M.Q4_1", "llama-server", "x")
        == "2026-11-30-smollm2-135m-q4-1-llama-server-x"
    )


def test_a_record_is_read_back_as_it_was_written(tmp_path, small_record):
    store.write_record(tmp_path, small_record, 1)
    assert store.read_record(tmp_path) == small_record
    assert (tmp_path / "record.1.json").read_bytes() == (tmp_path / "record.json").read_bytes()


def test_a_record_obeys_the_published_schema(tmp_path, small_record):
    published = json.loads((REPOSITORY / PUBLISHED).read_text())
    assert published == record_schema(), "the published schema is old: run `make schemas`"
    store.write_record(tmp_path, small_record, 1)
    jsonschema.validate(json.loads((tmp_path / "record.json").read_text()), published)
    wrong = asdict(small_record)
    wrong["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(json.dumps(wrong)), published)


def test_a_number_that_json_has_no_word_for_is_never_written(tmp_path, small_record):
    bad = replace(small_record, figures=(replace(small_record.figures[0], value=float("nan")),))
    with pytest.raises(ValueError, match="JSON"):
        store.write_record(tmp_path, bad, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema_version": 99}', '{"schema_version": 1}', '{"schema_version": 1, "cases": 3}']
)
def test_a_damaged_record_is_refused(tmp_path, text):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(EvidenceError):
        store.read_record(tmp_path)


def test_the_manifest_lists_every_file_but_record_and_lock(tmp_path):
    for name in ("record.json", "record.1.json", "lock", "journal.jsonl", ".x.part"):
        (tmp_path / name).write_text("x")
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "a").write_text("abc")
    (tmp_path / "link").symlink_to("/etc/hostname")
    listed = {file.path: file.bytes for file in store.manifest(tmp_path)}
    assert listed == {"journal.jsonl": 1, "sessions/a": 3}


def test_two_processes_never_hold_one_run(tmp_path):
    code = (
        f"from pathlib import Path; from bench.records.store import locked\nwith locked(Path({str(tmp_path)!r})): pass"
    )
    with store.locked(tmp_path):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "BusyError" in done.stderr
        assert "another process (id " in done.stderr
        with pytest.raises(BusyError), store.locked(tmp_path):
            pass
    with store.locked(tmp_path):
        pass


def test_an_unknown_run_lists_what_exists(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "run.json").write_text("{}")
    assert store.find_run(tmp_path, "last").name == store.find_run(tmp_path, "one").name == "one"
    with pytest.raises(UsageError, match="one"):
        store.find_run(tmp_path, "two")


def test_results_that_cannot_be_written_are_told_before_anything_starts(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="--results"):
        store.prepare(tmp_path / "file" / "results")
