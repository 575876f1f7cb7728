"""`runcard audit`: what a record says is what its evidence gives; whoever changed one digit of either is caught."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys

import pytest

from tests.whole.running import REPOSITORY, begin, bench, environment, wait_for

pytestmark = pytest.mark.slow


def runcard(*arguments):
    """The command as a person calls it."""
    return subprocess.run(
        [sys.executable, "-m", "bench.cli", *arguments],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def audit(run, *, code):
    done = runcard("audit", str(run))
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A finished run of the small workload."""
    results = tmp_path_factory.mktemp("audited")
    done = bench("--workload", "csv-totals", "--model", "float-sums", "--results", str(results))
    assert done.code == 0, done.out
    return results / done.record["run_id"]


@pytest.fixture
def run(whole, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copytree(whole, tmp_path / whole.name)


def edit(run, change, *, both=True):
    """Changes the record, and its segment's copy alike, as somebody would who wants not to be found out."""
    record = json.loads((run / "record.json").read_text())
    change(record)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (run / "record.json").write_text(text)
    if both:
        (run / "record.1.json").write_text(text)


def figure(record, name):
    return next(one for one in record["figures"] if one["id"] == name and one["scope"] is None)


def test_an_untouched_run_agrees_wherever_it_lies(run):
    out = audit(run, code=0)
    assert out.splitlines()[-1] == "the record is what its evidence gives"
    assert "compared: " in out
    assert "8 cases" in out
    assert "only a new scoring can say" in out


def test_a_run_agrees_when_it_was_stopped_and_when_it_went_on(tmp_path):
    """In two segments, with reviews and an engine error."""
    arguments = ("--workload", "prefix-cache", "--model", "hasty", "--results", str(tmp_path / "r"))
    process = begin(*arguments, log=tmp_path / "log")
    try:
        wait_for(lambda: list((tmp_path / "r").glob("*/sessions/004")), 120, "the fourth session")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 2
    finally:
        process.kill()
        process.wait()
    run = next((tmp_path / "r").iterdir())
    audit(run, code=0)
    done = bench(*arguments, "--resume", "last")
    assert done.code == 0, done.out
    out = audit(run, code=0)
    assert "2 segments" in out
    assert f"{len(done.record['tasks'])} tasks" in out


def test_a_scored_project_agrees(tmp_path):
    project = REPOSITORY / "fixtures" / "scripts" / "csv-totals" / "sound" / "files"
    done = bench("--workload", "csv-totals", "--project", str(project), "--results", str(tmp_path))
    assert done.code == 0, done.out
    audit(tmp_path / done.record["run_id"], code=0)
    shown = runcard("show", str(tmp_path / done.record["run_id"]), "--requests")
    assert (shown.returncode, shown.stdout) == (4, "")


def test_one_edited_figure_is_one_line(run):
    def change(record):
        figure(record, "decode_tps")["value"] += 0.01

    edit(run, change)
    lines = [line for line in audit(run, code=1).splitlines() if line.startswith("DIFFERS")]
    assert len(lines) == 1
    assert lines[0].startswith("DIFFERS figure decode_tps: the record says value ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda record: record["figures"].pop(), "figure "),
        (lambda record: record["figures"].append(dict(record["figures"][0])), "figure ttft_median"),
        (lambda record: record["figures"][-1].update(value=0.99), "prompt:"),
        (lambda record: figure(record, "ttft_median").update(n=7), "figure ttft_median: the record says n 7"),
        (lambda record: figure(record, "ttft_p90").update(value=1.0, reason=None), "figure ttft_p90"),
        (lambda record: record["sessions"][0].update(output_tokens=1), "session 1: the record says output_tokens 1"),
        (lambda record: record["sessions"].clear(), "session 1"),
        (lambda record: record["segments"][0].update(seconds=1.0), "segment 1"),
        (lambda record: record["tasks"].append(TASK), "task T009"),
        (lambda record: record.update(simulated=False), "simulated"),
        (lambda record: record.update(end="limited"), "end"),
        (lambda record: record["identity"].update(model="better"), "identity model"),
        (lambda record: record["identity"].update(isolation="none"), "identity isolation"),
        (lambda record: record["configuration"]["engine"].update(version="9"), "configuration"),
        (lambda record: record["configuration"]["limits"].update(sessions=9), "configuration"),
        (lambda record: record.update(valid=False), "valid"),
        (lambda record: record.update(created_at="2020-01-01T00:00:00Z"), "created_at"),
        (lambda record: record["evidence"].pop(0), "file "),
        (lambda record: record.update(praise="fast"), "record.json praise"),
        (lambda record: record.update(valid="yes"), "record.json valid"),
    ],
)
def test_what_the_record_says_otherwise_is_named(run, change, words):
    edit(run, change)
    assert words in audit(run, code=1)


TASK = {"id": "T009", "title": "more", "status": "done", "attempts": 1, "changes": 0}


def test_one_edited_case_is_found(run):
    missed = next(case["id"] for case in json.loads((run / "cases.json").read_text())["cases"] if case["reason"])

    def change(record):
        next(case for case in record["cases"] if case["id"] == missed).update(outcome="passed", reason=None)

    edit(run, change)
    assert f'case {missed}: the record says outcome "passed"' in audit(run, code=1)


def test_a_case_that_was_left_out_of_all_lists_is_found(run):
    kept = json.loads((run / "cases.json").read_text())
    gone = kept["cases"].pop(0)["id"]
    (run / "cases.json").write_text(json.dumps(kept))
    edit(run, lambda record: record["cases"].pop(0))
    out = audit(run, code=1)
    assert gone in next(line for line in out.splitlines() if "case list" in line)


def test_the_copy_that_was_forgotten_is_found(run):
    edit(run, lambda record: record.update(reason="none"), both=False)
    assert "record.1.json" in audit(run, code=1)


def test_one_digit_of_evidence_is_found_twice(run):
    place = run / "sessions" / "001" / "exchanges.jsonl"
    lines = place.read_text().splitlines(keepends=True)
    held = json.loads(lines[1])
    held["sent_at"] += 0.001
    lines[1] = json.dumps(held, separators=(",", ":")) + "\n"
    place.write_text("".join(lines))
    out = audit(run, code=1)
    assert "file sessions/001/exchanges.jsonl: the record says sha256" in out
    assert "request 1/1: the record says sent_at" in out


def test_a_torn_byte_within_a_body_is_no_crash(run):
    place = run / "sessions" / "001" / "exchanges.jsonl"
    data = bytearray(place.read_bytes())
    data[data.index(b'"packed":"') + 40] ^= 1
    place.write_bytes(data)
    out = audit(run, code=1)
    assert "figures: the record says" in out
    assert "line 1 is damaged" in out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sessions/001/exchanges.jsonl", "figure served_requests"),
        ("sessions/001/events.jsonl", "figure output_tokens"),
        ("memory.jsonl", "figure memory_pressure_warning"),
        ("journal.jsonl", "figure run_elapsed"),
        ("requests.jsonl", "requests.jsonl"),
        ("engine/profile.json", "figures"),
        ("cases.json", "figures"),
        ("run.json", "identity"),
    ],
)
def test_a_deleted_file_is_named_with_what_rested_on_it(run, name, words):
    (run / name).unlink()
    if name == "run.json":
        assert runcard("audit", str(run)).returncode == 4  # without it there is no run there
        return
    out = audit(run, code=1)
    assert f"file {name}: the record says" in out
    assert words in out


def test_added_files_and_links_are_named(run):
    (run / "sessions" / "002").mkdir()
    (run / "sessions" / "002" / "exchanges.jsonl").write_text("")
    (run / "notes").symlink_to("/etc/hostname")
    out = audit(run, code=1)
    assert "file sessions/002/exchanges.jsonl: the record says nothing of it" in out
    assert "file notes: the record says nothing of it, the evidence gives a link" in out


def test_a_snapshots_lost_content_is_named(run):
    place = next(place for place in sorted((run / "blobs").rglob("*")) if place.is_file())
    place.write_bytes(b"other")
    out = audit(run, code=1)
    assert "snapshot " in out
    assert f"file {place.relative_to(run).as_posix()}" in out


def test_an_event_stream_that_claims_more_is_found(run):
    place = run / "sessions" / "001" / "events.jsonl"
    place.write_text(place.read_text().replace('"completion_tokens":', '"completion_tokens":1', 1))
    out = audit(run, code=1)
    assert "figure output_tokens" in out
    assert "figure residual_agent_relay_tokens" in out


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 1}'])
def test_a_record_that_is_none_differs(run, text):
    (run / "record.json").write_text(text)
    assert "DIFFERS record.json" in audit(run, code=1)


def test_a_persons_mistakes_are_one_line(run, tmp_path):
    (run / "record.json").unlink()
    cases = {
        ("audit", "nope"): "no run 'nope'",
        ("audit", str(run)): "no record yet",
        ("show", str(run), "--session", "x1"): "'x1' is no number of a session; sessions: 000 to 001",
        ("show", str(run), "--session", "38"): "there is no session 038; sessions: 000 to 001",
        ("show", str(run), "--full"): "give --session N",
        ("show", str(run), "--requests", "--session", "9"): "session 9 made no request; sessions: 0, 1",
    }
    for arguments, words in cases.items():
        done = runcard(*arguments)
        assert (done.returncode, done.stdout) == (4, "")
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_requests_are_listed_and_told_apart_by_session(whole):
    record = json.loads((whole / "record.json").read_text())
    asked = figure(record, "served_requests")["value"]
    listed = runcard("show", str(whole), "--requests").stdout.splitlines()
    alone = runcard("show", str(whole), "--requests", "--session", "1").stdout.splitlines()
    assert len(alone) == asked + 3, "what is simulated, two lines of heading, and the rows"
    assert len(listed) == asked + 4, "the preflight stands among all"
    assert sum("tool_calls" in line for line in alone) == asked - 1
    assert "session" in listed[1].split()


def test_tables_show_the_parts(whole):
    out = runcard("show", str(whole)).stdout
    assert "By role" in out
    assert "By prompt length" in out


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda record: record.update(deviations=["limit sessions set to 3"]), "deviations"),
        (lambda record: record.update(reason="because"), "reason"),
        (lambda record: record.update(run_id="another"), "run_id"),
    ],
    ids=["deviations", "reason", "run_id"],
)
def test_the_words_of_a_record_are_compared_too(run, change, what):
    edit(run, change)
    assert f"DIFFERS {what}" in audit(run, code=1)


def test_an_audit_says_what_it_cannot_find_out(run):
    assert "nothing is signed" in audit(run, code=0)
