"""A run's folder as evidence: what the answers do not tell comes from counters, then from the engine's log."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from bench.contracts import SessionLabel
from bench.engines.profile import read_profile
from bench.errors import EvidenceError
from bench.figures.run_figures import figures_of_run
from bench.figures.run_folder import ENGINE_LOG, METRICS_FILE, read_stored_profile
from bench.measure.exchange_line import Exchange, encode_line
from bench.measure.scrape_lines import Reading, ReadingLines
from bench.spec import AgentSpec

PROMPT, CACHED, OUTPUT = 100, 60, 10


def exchange(index):
    """An answer with its usage, sent at 10 s, 20 s ... and whole 2 s later."""
    label = SessionLabel(run_id="r", session=1, role="builder", task=None, attempt=1, retry=0)
    usage = {
        "prompt_tokens": PROMPT,
        "completion_tokens": OUTPUT,
        "prompt_tokens_details": {"cached_tokens": CACHED},
    }
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
    body = json.dumps({"id": f"c{index}", "choices": [choice], "usage": usage}).encode()
    at = 10.0 * (index + 1)
    return Exchange(
        label=label,
        index=index,
        engine_process=1,
        method="POST",
        path="/v1/chat/completions",
        status=200,
        streamed=False,
        started_at=at,
        sent_at=at,
        first_byte_at=at + 1,
        ended_at=at + 2,
        fault=None,
        request=b"{}",
        response=body,
        response_bytes=len(body),
        redacted=False,
        arrivals=(),
    )


def reading(at, finished):
    """The counters of the embedded engine after so many requests, each of 0.25 s to the first token and 0.5 s after."""
    a_request = {
        "finished_requests": 1,
        "prompt_tokens": PROMPT,
        "cached_tokens": CACHED,
        "output_tokens": OUTPUT,
        "drafted_tokens": 4,
        "accepted_tokens": 3,
        "ttft_seconds": 0.25,
        "prefill_seconds": 0.125,
        "decode_seconds": 0.5,
        "queue_seconds": 0.0,
    }
    series = read_profile("embedded").contract("embedded").metrics.series
    lines = tuple(f"{series[name].names[0]} {finished * one}" for name, one in a_request.items())
    return Reading(engine_process=1, asked_at=at, answered_at=at + 0.01, lines=lines, lost=None)


@pytest.fixture
def run(tmp_path):
    """A folder of one session with three requests whose answers carry usage and nothing else."""
    profile = replace(read_profile("embedded").contract("embedded"), response_fields={}, simulated=False)
    session = tmp_path / "sessions" / "001"
    session.mkdir(parents=True)
    (session / "exchanges.jsonl").write_bytes(
        b"".join(encode_line(exchange(n), before=b"{}" * bool(n)) for n in range(3))
    )
    (tmp_path / "engine" / "launch-1").mkdir(parents=True)
    (tmp_path / "engine" / "profile.json").write_text(json.dumps(asdict(profile)))
    return tmp_path


def found(run):
    return figures_of_run(run, agent=AgentSpec(name="builtin"), cases=(), score_group="model")


def watch(run, readings):
    lines = ReadingLines()
    (run / METRICS_FILE).write_bytes(b"".join(lines.encode(one) for one in readings))


def log(run, *numbers):
    text = "".join(
        f"2026-11-30T10:33:54Z embedded: request id=c{n} prompt={PROMPT} cached={CACHED} output={OUTPUT} reasoning=0 "
        f"drafted=8 accepted=2 queue_seconds=0.0 ttft_seconds=0.75 prefill_seconds=0.5 decode_seconds=1.0 "
        "finish=stop error=-\n"
        for n in numbers
    )
    (run / "engine" / "launch-1" / ENGINE_LOG).write_text(text)


def test_without_counters_and_log_there_are_no_timings(run):
    requests = found(run).evidence.requests
    assert [(one.source, one.ttft_seconds, one.output_tokens) for one in requests] == [(None, None, OUTPUT)] * 3


def test_the_log_tells_what_neither_answer_nor_counters_do(run):
    log(run, 0, 1, 2)
    evidence = found(run).evidence
    assert [(one.source, one.ttft_seconds) for one in evidence.requests] == [("engine-log", 0.75)] * 3
    assert len(evidence.summaries) == 3


def test_counters_come_before_the_log(run):
    watch(run, [reading(1.0, 0), reading(13.0, 1), reading(23.0, 2)])
    log(run, 0, 1, 2)
    requests = found(run).evidence.requests
    assert [(one.source, one.draft_source) for one in requests] == [
        ("engine-counter", "engine-counter"),
        ("engine-counter", "engine-counter"),
        ("engine-log", "engine-log"),
    ]
    assert [(one.ttft_seconds, one.accepted_tokens) for one in requests] == [(0.25, 3), (0.25, 3), (0.75, 2)]


def test_damage_that_can_be_done_without_is_a_warning_that_names_no_place_of_this_machine(run):
    watch(run, [reading(1.0, 0), reading(13.0, 1)])
    with (run / METRICS_FILE).open("ab") as stream:
        stream.write(b'{"format":1')
    log(run, 0, 1, 2)
    assert found(run).warnings == (f"{METRICS_FILE}: line 3 is torn; that reading is lost",)


def test_a_source_that_the_profile_names_and_that_gave_nothing_is_a_warning(run):
    watch(run, [replace(reading(1.0, 0), lines=("other_total 3",))])
    log(run)
    page, missing = found(run).warnings
    assert page.startswith("1 of 1 readings of the metrics page gave nothing: ")
    assert missing == "no line of the engine's log is a request summary as its profile describes them"


def test_an_engine_whose_log_is_not_ours_is_not_said_to_lack_lines_in_it(run):
    watch(run, [reading(1.0, 0), reading(13.0, 1)])
    assert not (run / "engine" / "launch-1" / ENGINE_LOG).exists()
    assert found(run).warnings == ()


def test_a_series_that_never_stands_on_the_page_is_a_warning(run):
    whole = reading(1.0, 0)
    watch(run, [replace(whole, lines=tuple(line for line in whole.lines if "ttft" not in line))])
    log(run, 0, 1, 2)
    assert found(run).warnings == ("the engine's metrics page never had a series of its profile for: ttft_seconds",)


def test_a_clock_that_was_set_takes_the_elapsed_time_away_and_says_so(run):
    lines = [
        encode_line(
            replace(
                exchange(n), started_at=1_000.0 + 10 * n + 3_600 * (n == 2), sent_at=10.0 * n, ended_at=10.0 * n + 5
            ),
            before=b"{}" * bool(n),
        )
        for n in range(3)
    ]
    (run / "sessions" / "001" / "exchanges.jsonl").write_bytes(b"".join(lines))
    log(run, 0, 1, 2)
    result = found(run)
    assert "clock was set, or it slept: 3,600 s" in result.warnings[0]
    assert result.evidence.clock_step == result.warnings[0]


def test_refused_requests_of_agent_sessions_are_summed_up(run):
    for name, count in (("000", 9), ("001", 2)):
        (run / "sessions" / name).mkdir(exist_ok=True)
        line = {"count": count, "at": 1.0, "status": 404, "why": "path"}
        (run / "sessions" / name / "refused.jsonl").write_text(json.dumps(line) + "\n")
    assert found(run).evidence.refused == 2


@pytest.mark.parametrize("text", ["", "{}", '{"name": 1}', "[]"])
def test_a_stored_profile_that_is_none_is_said(tmp_path, text):
    (tmp_path / "profile.json").write_text(text)
    with pytest.raises(EvidenceError, match="stored profile cannot be read"):
        read_stored_profile(tmp_path / "profile.json")


@pytest.mark.parametrize("name", ["embedded", "llama-server", "vllm", "sushi", "ollama"])
def test_every_kind_of_profile_comes_back_as_it_was(tmp_path, name):
    profile = read_profile(name).contract(name)
    (tmp_path / "profile.json").write_text(json.dumps(asdict(profile)))
    assert read_stored_profile(tmp_path / "profile.json") == profile
