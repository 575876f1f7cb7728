"""Is the cache cold, and how is that known? Against engines that obey, are busy, lie, or cannot."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from bench.engines.attached import attach
from bench.engines.cache_state import prove_cold
from bench.engines.engine import launch
from bench.spec import EngineSpec


def nothing(_progress):
    pass


def answer(cached):
    usage = {"prompt_tokens": 700, "completion_tokens": 1}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return (200, json.dumps({"choices": [], "usage": usage}))


@pytest.fixture
def vllm(serve, recorded):
    """An attached vLLM whose reset and whose three probes answer as told."""

    def make(resets, probes):
        routes = {
            "GET /health": [(200, "")],
            "GET /v1/models": [(200, recorded("vllm-0.32.0/models.json"))],
            "POST /reset_prefix_cache": resets,
            "POST /v1/chat/completions": [probe if isinstance(probe, tuple) else answer(probe) for probe in probes],
        }
        return attach(serve(routes), profile_name="vllm", model=None, api_key=None, progress=nothing)

    return make


DONE, BUSY, OFF = (200, '{"success": true}'), (200, '{"success": false}'), (404, '{"detail": "Not Found"}')


def test_a_reset_is_proved_by_what_is_cached_before_and_after(vllm):
    said = []
    state = prove_cold(vllm([DONE], [0, 512, 0]), segment=1, earlier_salt=None, progress=said.append)
    assert (state.kind, state.salt) == ("cold", None)
    assert state.how == "reset by POST /reset_prefix_cache, proved: a prompt with 512 cached tokens had 0 afterwards"
    assert str(state) == f"cold: {state.how}"
    assert "emptying its prefix cache" in said[0].text


def test_a_busy_engine_is_asked_again(vllm):
    engine = vllm([BUSY, (400, "busy"), (503, ""), DONE], [0, 512, 0])
    assert prove_cold(engine, segment=1, earlier_salt=None, progress=nothing).kind == "cold"


def test_an_engine_that_is_attached_again_is_cold_only_by_a_reset(vllm):
    state = prove_cold(vllm([DONE], [0, 512, 0]), segment=2, earlier_salt="Run x.", progress=nothing)
    assert (state.kind, state.salt) == ("cold", "Run x.")
    state = prove_cold(vllm([OFF], [0, 512, 512]), segment=2, earlier_salt="Run x.", progress=nothing)
    assert (state.kind, state.salt) == ("warm", "Run x.")
    assert "POST /reset_prefix_cache answers HTTP 404" in state.how
    assert "earlier segments of this run may be in it" in state.how


def test_without_counts_the_reset_rests_on_the_engines_word(vllm):
    for probes in ([None, None, None], [0, 0, 0], [(500, "{}")]):
        state = prove_cold(vllm([DONE], probes), segment=1, earlier_salt=None, progress=nothing)
        assert state.kind == "cold"
        assert "on the engine's word" in state.how


@pytest.mark.parametrize(
    ("resets", "probes", "says"),
    [
        ([DONE], [0, 512, 512], "left 512 of 512 cached tokens"),
        ([DONE], [0, 512, None], "no longer tells its cached tokens"),
        ([OFF], [0, 512, 512], "answers HTTP 404"),
        ([(200, None)], [0, 512, 512], "does not answer"),
    ],
)
def test_a_reset_that_fails_leaves_a_salt(vllm, resets, probes, says):
    state = prove_cold(vllm(resets, probes), segment=1, earlier_salt=None, progress=nothing)
    assert state.kind == "salted"
    assert says in state.how
    assert re.fullmatch(r"Run [0-9a-f]{16}\.", state.salt)


def test_a_busy_engine_is_given_up_in_the_end(vllm, monkeypatch):
    monkeypatch.setattr("bench.engines.cache_state._RESET_SECONDS", 0.3)
    state = prove_cold(vllm([BUSY], [0, 512, 512]), segment=1, earlier_salt=None, progress=nothing)
    assert state.kind == "salted"
    assert "still answers HTTP 200 after 0 s: the engine is busy" in state.how


def test_two_runs_never_share_a_salt(serve):
    url = serve({"GET /": [(200, "Ollama is running")]})
    engine = attach(url, profile_name="ollama", model="m", api_key=None, progress=nothing)
    states = [prove_cold(engine, segment=1, earlier_salt=None, progress=nothing) for _ in range(2)]
    assert [state.kind for state in states] == ["salted", "salted"]
    assert states[0].salt != states[1].salt
    assert "its cache cannot be emptied over HTTP" in states[0].how


def test_a_fresh_process_is_cold_when_its_disk_cache_is_empty(tmp_path):
    def started(folder, *args):
        spec = EngineSpec(name="embedded", model="sound", args=args)
        return launch(spec, workload_id="csv-totals", folder=folder, progress=nothing)

    engine = started(tmp_path / "launch-1")
    try:
        state = prove_cold(engine, segment=1, earlier_salt=None, progress=nothing)
        assert str(state) == "cold: a fresh process, its disk cache seen empty"
        assert state.salt is None
        again = prove_cold(engine, segment=2, earlier_salt="Run x.", progress=nothing)
        assert (again.kind, again.salt) == ("cold", "Run x.")
        (engine.disk_cache / "left").mkdir()
        assert prove_cold(engine, segment=1, earlier_salt=None, progress=nothing).kind == "cold"
        (engine.disk_cache / "left" / "over.block").write_bytes(b"x")
        state = prove_cold(engine, segment=1, earlier_salt=None, progress=nothing)
        assert state.kind == "salted"
        assert "its disk cache was not empty at the start: 1 files" in state.how
        assert prove_cold(engine, segment=2, earlier_salt=None, progress=nothing).kind == "warm"
    finally:
        engine.stop()
    engine = started(tmp_path / "launch-2", "--ssd-keep")
    try:
        state = prove_cold(engine, segment=1, earlier_salt=None, progress=nothing)
        assert state.kind == "salted"
        assert "'--ssd-keep' lets a new process use an old cache" in state.how
    finally:
        engine.stop()


def test_a_fresh_process_that_keeps_nothing_on_disk_is_cold(make_profile, plan):
    from bench.engines.engine import start

    profile = make_profile()
    engine = start(replace(plan(profile), disk_cache=None), profile, progress=nothing)
    try:
        state = prove_cold(engine, segment=3, earlier_salt=None, progress=nothing)
        assert str(state) == "cold: a fresh process without a cache on disk"
    finally:
        engine.stop()
