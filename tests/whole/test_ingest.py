"""`runcard ingest`: a record of a run that was started elsewhere, whatever the state of its files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from bench.cli import main
from bench.records import store
from tests.whole.running import REPOSITORY, bench

RECORDINGS = REPOSITORY / "fixtures" / "recordings"
STARTED = "2026-11-30 07:34:00.000 Sushi 1.2.2 starting on 127.0.0.1:8080\n"
RESPONSES = ((1000, 0, 50), (1200, 992, 51), (1400, 1192, 52))
"""Prompt, cached and output of the recorded sessions `ok`."""


def log_of(*responses):
    lines = [
        f"07:35 request done: prompt={prompt} cached={cached} output={output} drafted=40 accepted=30\n"
        for prompt, cached, output in responses
    ]
    return STARTED + "".join(lines)


@pytest.fixture
def left(tmp_path):
    """Two sessions that ran one after the other, and the engine's log."""
    sessions = tmp_path / "left" / "sessions"
    sessions.mkdir(parents=True)
    shutil.copy(RECORDINGS / "pi-0.73" / "ok.session.jsonl", sessions / "T001-build-2.jsonl")
    shutil.copy(RECORDINGS / "pi-1.6" / "ok.session.jsonl", sessions / "T001-review-1.jsonl")
    (tmp_path / "left" / "engine.log").write_text(log_of((12, 0, 1), *RESPONSES, *RESPONSES))
    return tmp_path / "left"


@pytest.fixture
def ingest(left, tmp_path, capsys):
    """Runs the command on what is left, with further arguments; gives exit code, both outputs and the record."""

    def run(*arguments, log="engine.log"):
        given = ["ingest", "--agent-sessions", str(left / "sessions"), "--engine-log", str(left / log)]
        run.code = main([*given, "--results", str(tmp_path / "results"), *map(str, arguments)])
        run.out, run.err = capsys.readouterr()
        run.record = store.read_record(Path(run.out.rstrip().splitlines()[-1]).parent) if run.code == 0 else None
        return run

    return run


def values(record):
    return {one.id: one.value for one in record.figures if one.scope is None}


def test_sessions_and_a_log_are_enough_for_a_record(ingest):
    done = ingest()
    assert done.code == 0, done.err
    figures = values(done.record)
    assert (figures["matched_requests"], figures["model_responses"], figures["agent_sessions"]) == (6, 6, 2)
    assert (figures["fresh_input_tokens"], figures["cached_input_tokens"]) == (2832, 4368)
    assert figures["prompt_cache_share"] == 4368 / 7200
    assert figures["draft_acceptance"] == 0.75
    assert figures["max_prompt_tokens"] == 1400
    assert figures["tool_calls"] == 4
    for nothing in ("ttft_median", "decode_tps", "tasks_done", "hidden_cases_passed", "swapped_in_bytes"):
        assert figures[nothing] is None
        assert next(one.reason for one in done.record.figures if one.id == nothing)
    rows = [(row.session, row.role, row.task, row.attempt, row.outcome, row.requests) for row in done.record.sessions]
    assert rows == [(1, "builder", "T001", 2, "done", 3), (2, "reviewer", "T001", 1, "done", 3)]
    assert "6 of 6 responses are matched to the engine's log; 3 keys occur more than once" in done.out
    assert "1 summaries of the engine's log stand alone: 1 before the first request" in done.out
    assert done.record.run_id == "2026-11-30-fake-model-sushi-pi-ingested"
    assert main(["audit", str(Path(done.out.rstrip().splitlines()[-1]).parent)]) == 0


def test_evidence_is_copied_with_digests_and_the_originals_stay(ingest, left):
    before = {place: place.read_bytes() for place in left.rglob("*") if place.is_file()}
    done = ingest("--name", "my-run", "--engine", "sushi")
    assert done.record.run_id == "my-run"
    assert {
        "agent-sessions/T001-build-2.jsonl",
        "agent-sessions/T001-review-1.jsonl",
        "engine/engine.log",
        "engine/profile.json",
        "ingested.json",
        "requests.jsonl",
        "run.json",
    } <= {one.path for one in done.record.evidence}
    assert before == {place: place.read_bytes() for place in left.rglob("*") if place.is_file()}
    assert ingest("--name", "my-run").record.run_id == "my-run-r2"


def test_a_mapping_says_what_each_session_was(ingest, left):
    (left / "sessions" / "sessions.yaml").write_text(
        "sessions:\n"
        "  T001-build-2.jsonl: {role: bootstrap, session: 4, segment: 1}\n"
        "  T001-review-1.jsonl: {role: replan, task: T009, attempt: 3, retry: 1, segment: 2, session: 9}\n"
    )
    record = ingest().record
    assert [(row.session, row.role, row.task, row.attempt, row.retry, row.segment) for row in record.sessions] == [
        (4, "bootstrap", None, 1, 0, 1),
        (9, "replan", "T009", 3, 1, 2),
    ]
    assert [row.segment for row in record.segments] == [1, 2]


def test_timings_come_from_readings_of_the_counters(ingest, left):
    from bench.measure.scrape_lines import Reading, ReadingLines

    (left / "engine.log").write_text(log_of(*RESPONSES, *RESPONSES))
    ends = [
        json.loads(line)["message"]
        for name in ("T001-build-2", "T001-review-1")
        for line in (left / "sessions" / f"{name}.jsonl").read_text().splitlines()
        if '"role":"assistant"' in line
    ]
    lines, sums, out = ReadingLines(), [0, 0, 0, 0], []
    for place in range(len(ends) + 1):
        names = (
            "requests_finished_total",
            "prompt_tokens_total",
            "prompt_tokens_cached_total",
            "generation_tokens_total",
        )
        page = [f"sushi:{name} {value}" for name, value in zip(names, sums, strict=True)]
        page += [
            f"sushi:time_to_first_token_seconds_sum {place * 0.003:.7f}",
            f"sushi:decode_seconds_total {place * 0.005:.7f}",
        ]
        at = ends[place]["timestamp"] / 1000 - 0.001 if place < len(ends) else ends[-1]["timestamp"] / 1000 + 5
        reading = Reading(engine_process=7, asked_at=at, answered_at=at + 0.0005, lines=tuple(page), lost=None)
        out.append(lines.encode(reading))
        if place < len(ends):
            prompt, cached, output = RESPONSES[place % 3]
            sums = [one + more for one, more in zip(sums, (1, prompt, cached, output), strict=True)]
    (left / "metrics.jsonl").write_bytes(b"".join(out))
    record = ingest("--metrics", left / "metrics.jsonl").record
    ttft = next(one for one in record.figures if one.id == "ttft_median")
    assert (round(ttft.value, 6), ttft.n, ttft.source) == (0.003, 6, "engine-counter")
    decode = next(one for one in record.figures if one.id == "decode_tps")
    assert decode.value == pytest.approx(306 / 0.03)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "nope"], ("unknown engine 'nope'", "sushi")),
        (["--engine", "ollama"], ("--engine ollama", "log_summary")),
        (["--agent", "nope"], ("unknown agent 'nope'", "builtin, mini-swe-agent, pi")),
        (["--name", "../up"], ("--name ../up", "lower-case letters")),
        (["--metrics", "/nope"], ("--metrics /nope", "cannot be read")),
        (["--journal", "."], ("--journal .", "expected a file")),
        (["--agent", "mini-swe-agent"], ("no session of mini-swe-agent", "*.json")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_is_one_line_and_leaves_nothing(ingest, tmp_path, arguments, words):
    done = ingest(*arguments)
    assert (done.code, done.out) == (4, "")
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err
    assert not [place for place in (tmp_path / "results").glob("*") if place.is_dir()]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("engine.log", "nothing of interest\n", ("requests are found in it by no profile", "--engine")),
        (
            "sessions/sessions.yaml",
            "sessions:\n  T001-build-2.jsonl: {rol: builder}\n",
            ("sessions.yaml:2", "unknown key", "rol", "role"),
        ),
        ("sessions/sessions.yaml", "sessions:\n  T001-build-2.jsonl: {}\n", ("says nothing of T001-review-1.jsonl",)),
        ("sessions/sessions.yaml", "sessions: {x: {}}\n", ("says nothing of",)),
        (
            "sessions/sessions.yaml",
            "sessions: {T001-build-2.jsonl: {session: 1}, T001-review-1.jsonl: {session: 1}}\n",
            ("the same session number",),
        ),
    ],
)
def test_a_wrong_file_of_the_user_is_one_line(ingest, left, *, name, content, words):
    (left / name).write_text(content)
    done = ingest()
    assert done.code == 4
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err
    assert not [place for place in (left.parent / "results").glob("*") if place.is_dir()]


def test_a_pipe_is_not_waited_for(ingest, left):
    os.mkfifo(left / "pipe")
    assert "expected a file that can be read" in ingest(log="pipe").err


@pytest.mark.parametrize("name", ["metrics", "journal", "memory"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe" * 4_000,
        b'{"format":99}\n{}\n',
        b'{"seq":1,"event":"segment-st',
        b"[1]\n" * 9,
        b"x" * 200_000,
    ],
    ids=["empty", "binary", "other format", "torn", "other shape", "huge line"],
)
def test_damaged_files_are_notes_and_never_a_crash(ingest, left, name, content):
    (left / f"{name}.jsonl").write_bytes(content)
    done = ingest(f"--{name}", left / f"{name}.jsonl")
    assert done.code == 0, done.err
    assert values(done.record)["matched_requests"] == 6
    assert values(done.record)["ttft_median"] is None
    assert values(done.record)["swapped_in_bytes"] is None
    assert (f"{name}.jsonl" in done.out) == bool(content)


def test_damaged_sessions_and_logs_give_what_they_can(ingest, left):
    review = left / "sessions" / "T001-review-1.jsonl"
    review.write_bytes(review.read_bytes()[:-300] + b"\n\xff\x00 garbage\n")
    (left / "sessions" / "other.jsonl").write_text('{"type":"session","version":9}\n')
    log = (left / "engine.log").read_bytes()
    (left / "engine.log").write_bytes(b"\x00" * 50_000 + b"\n" + log[:-20])
    done = ingest()
    assert done.code == 0, done.err
    assert values(done.record)["matched_requests"] == 5
    for words in (
        "T001-review-1.jsonl: 2 x no JSON object",
        "format 9 is not format 3",
        "line over 16,384 bytes",
        "last line without an end",
    ):
        assert words in done.out


def test_links_in_the_folder_are_not_sessions(ingest, left):
    (left / "sessions" / "link.jsonl").symlink_to(left / "sessions" / "T001-build-2.jsonl")
    assert len(ingest().record.sessions) == 2


def test_a_session_file_with_an_earlier_ones_history_counts_each_response_once(ingest, left):
    build = left / "sessions" / "T001-build-2.jsonl"
    (left / "sessions" / "T001-build-3.jsonl").write_bytes(build.read_bytes())
    done = ingest()
    assert values(done.record)["model_responses"] == 6
    assert "3 responses stand in a later session's file too" in done.out


@pytest.mark.slow
def test_an_ingested_run_has_the_figures_that_it_had_when_we_ran_it(tmp_path, capsys):
    ran = bench("--workload", "csv-totals", "--results", str(tmp_path / "ran"))
    assert ran.code == 0, ran.out
    folder = Path(ran.last_line).parent
    code = main(
        [
            *("ingest", "--agent", "builtin", "--agent-sessions", str(folder / "sessions")),
            *("--engine-log", str(folder / "engine" / "launch-1" / "engine.log")),
            *("--journal", str(folder / "journal.jsonl"), "--memory", str(folder / "memory.jsonl")),
            *("--results", str(tmp_path / "ingested")),
        ]
    )
    out, err = capsys.readouterr()
    assert code == 0, err
    ours, theirs = store.read_record(folder), store.read_record(Path(out.rstrip().splitlines()[-1]).parent)
    asked = ("ttft_median", "decode_tps", "draft_acceptance", "prompt_cache_share", "max_prompt_tokens", "run_elapsed")
    asked += (
        "fresh_input_tokens",
        "output_tokens",
        "matched_requests",
        "agent_sessions",
        "tool_calls",
        "swapped_in_bytes",
    )
    assert {name: values(theirs)[name] for name in asked} == pytest.approx({name: values(ours)[name] for name in asked})
    assert theirs.simulated
    assert theirs.identity["engine"] == "embedded"
