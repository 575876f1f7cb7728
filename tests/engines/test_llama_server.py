"""A real llama.cpp with the 135M model: what the profile says of its answers is true of its answers."""

from __future__ import annotations

import json
import math
import re

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.engines.attached import attach
from bench.engines.cache_state import prove_cold
from bench.engines.engine import launch
from bench.engines.profile import value_at
from bench.engines.served_model import engine_spec

pytestmark = [pytest.mark.real_engine, pytest.mark.slow]

SCALE = {"s": 1.0, "ms": 1e-3, "tokens": 1.0}


def launched(model, folder, *args):
    spec = engine_spec(
        engine="llama-server", model=str(model), args=("-t", "1", "-tb", "1", "-c", "4096", *args), workload_id="any"
    )
    return launch(spec, workload_id="any", folder=folder, progress=lambda _: None)


@pytest.fixture(scope="module")
def engine(real_model, tmp_path_factory):
    handle = launched(real_model, tmp_path_factory.mktemp("engine"))
    yield handle
    handle.stop()


def ask(engine, **body):
    url = f"http://{engine.host}:{engine.port}/v1/chat/completions"
    messages = body.pop("messages", [{"role": "user", "content": "Count from one to twenty in words."}])
    return httpx.post(url, json={"messages": messages, "temperature": 0, **body}, timeout=120)


def events_of(response):
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def figures_of(engine, last):
    """What the profile reads from the last object of an answer: seconds and tokens, None where it is absent."""
    found = {key: (value_at(last, field.path), field.unit) for key, field in engine.profile.response_fields.items()}
    return {key: None if value is None else value * SCALE[unit] for key, (value, unit) in found.items()}


def test_the_handle_says_what_was_launched(engine, real_model):
    assert engine.dead() is None
    assert engine.context_window == 4096
    assert engine.model == "SmolLM2-135M-Instruct.Q4_1"
    assert engine.model_sha256.startswith("b179c952")
    assert re.match(r"(llama-server|xllamacpp) \S+", engine.version)
    assert str(real_model) in engine.argv
    assert len(engine.binary_sha256) == 64
    assert engine.granted["slots"] == "1"
    assert engine.not_known == {}


def test_a_stream_ends_with_usage_and_the_timings_that_the_profile_names(engine):
    events = events_of(ask(engine, stream=True, stream_options={"include_usage": True}, max_tokens=16))
    last = events[-1]
    assert last["choices"] == []
    usage = last["usage"]
    figures = figures_of(engine, last)
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert usage["completion_tokens"] == last["timings"]["predicted_n"] == 16
    assert figures["computed_prompt_tokens"] == usage["prompt_tokens"] - cached
    assert 0 < figures["prefill_seconds"] < 60
    assert figures["ttft_seconds"] == figures["prefill_seconds"]
    assert 0 < figures["decode_seconds"] < 60
    # The first token is free: the engine itself divides by one less than it generated.
    per_token = last["timings"]["predicted_per_token_ms"]
    assert math.isclose(last["timings"]["predicted_ms"] / 15, per_token) or "llama-server" in engine.version
    assert figures["drafted_tokens"] is None
    assert figures["accepted_tokens"] is None
    assert "reasoning_tokens" in engine.profile.unavailable


def test_an_identical_prompt_is_cached_but_for_one_token(engine):
    messages = [{"role": "user", "content": "Name three colours of the rainbow, please."}]
    ask(engine, messages=messages, max_tokens=2)
    again = ask(engine, messages=messages, max_tokens=2).json()
    assert again["timings"]["prompt_n"] == 1
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == again["usage"]["prompt_tokens"] - 1


def counters_of(engine):
    page = engine.profile.metrics
    text = httpx.get(f"http://{engine.host}:{engine.port}{page.path}").text
    samples = {sample.name: sample.value for one in text_string_to_metric_families(text) for sample in one.samples}
    return {quantity: samples.get(series.names[0], 0.0) for quantity, series in page.series.items()}


def test_counters_and_log_tell_what_the_answer_reports(engine):
    before, logged = counters_of(engine), engine.log.stat().st_size
    last = ask(engine, messages=[{"role": "user", "content": "Name five birds that can swim."}], max_tokens=8).json()
    after, figures = counters_of(engine), figures_of(engine, last)
    moved = {quantity: after[quantity] - before[quantity] for quantity in after}
    assert moved["computed_prompt_tokens"] == figures["computed_prompt_tokens"]
    assert moved["output_tokens"] == last["usage"]["completion_tokens"]
    for quantity in ("ttft_seconds", "prefill_seconds", "decode_seconds"):
        assert math.isclose(moved[quantity], figures[quantity], abs_tol=0.002)
    found = {}
    for line in engine.log.read_text(errors="replace")[logged:].splitlines():
        for pattern in engine.profile.log_summary.lines:
            found |= match.groupdict() if (match := re.search(pattern, line)) else {}
    assert int(found["prompt_tokens"]) == last["usage"]["prompt_tokens"]
    assert int(found["cached_tokens"]) == last["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert int(found["output_tokens"]) == last["usage"]["completion_tokens"]
    assert math.isclose(float(found["decode_ms"]) / 1e3, figures["decode_seconds"], abs_tol=1e-4)


def test_it_can_be_attached_and_salted(engine):
    url = f"http://{engine.host}:{engine.port}/v1"
    attached = attach(url, profile_name="llama-server", model=None, api_key=None, progress=lambda _: None)
    assert (attached.model, attached.context_window) == (engine.model, engine.context_window)
    assert attached.granted["slots"] == "1"
    assert "version" not in attached.not_known
    state = prove_cold(attached, segment=1, earlier_salt=None, progress=lambda _: None)
    assert state.kind == "salted"
    assert str(prove_cold(engine, segment=1, earlier_salt=None, progress=lambda _: None)).startswith("cold: a fresh")


def test_a_prompt_over_the_window_is_known_as_a_context_error(engine):
    answer = ask(engine, messages=[{"role": "user", "content": "word " * 5000}], max_tokens=2)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert any(re.search(pattern, message) for pattern in engine.profile.context_errors)
    assert not any(re.search(pattern, message) for pattern in engine.profile.memory_errors)


def test_drafts_are_counted_and_the_engine_is_gone_after_its_end(real_model, tmp_path):
    draft = ("-md", str(real_model), "--spec-type", "draft-simple", "--spec-draft-n-max", "4", "-td", "1")
    engine = launched(real_model, tmp_path, *draft)
    try:
        pid = engine.pid
        last = ask(engine, max_tokens=24).json()
        figures = figures_of(engine, last)
        assert 0 < figures["accepted_tokens"] <= figures["drafted_tokens"]
    finally:
        engine.stop()
    assert not psutil.pid_exists(pid)
    assert "listening" in engine.log.read_text(errors="replace")
