"""The embedded engine as its profile launches it: every figure that the profile promises is in its answers."""

from __future__ import annotations

import re

import httpx
import pytest

from bench.engines.engine import launch
from bench.engines.profile import value_at
from bench.engines.served_model import SCRIPTS, engine_spec, folder_sha256, list_scripts
from bench.errors import UsageError

WORKLOAD = "csv-totals"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    spec = engine_spec(engine="embedded", model=None, args=("--time-scale", "0"), workload_id=WORKLOAD)
    handle = launch(spec, workload_id=WORKLOAD, folder=tmp_path_factory.mktemp("engine"), progress=lambda _: None)
    yield handle
    handle.stop()


def ask(engine, text):
    body = {"model": engine.model, "messages": [{"role": "user", "content": text}]}
    return httpx.post(f"http://{engine.host}:{engine.port}/v1/chat/completions", json=body, timeout=60)


def test_the_default_script_is_served_and_identified(engine):
    assert engine.model in list_scripts(WORKLOAD)
    assert engine.model_sha256 == folder_sha256(SCRIPTS / WORKLOAD / engine.model)
    assert engine.context_window == 131_072
    assert engine.version.startswith("runcard ")
    assert engine.profile.simulated


def test_every_promised_figure_is_in_an_answer(engine):
    answer = ask(engine, "What is to be done?").json()
    found = {key: value_at(answer, field.path) for key, field in engine.profile.response_fields.items()}
    assert all(value is not None and value >= 0 for value in found.values()), found


def test_a_prompt_over_the_window_is_known_as_a_context_error(engine):
    answer = ask(engine, "word " * 140_000)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert any(re.search(pattern, message) for pattern in engine.profile.context_errors)
    assert not any(re.search(pattern, message) for pattern in engine.profile.memory_errors)


def test_an_unknown_script_is_refused_before_a_start():
    with pytest.raises(UsageError, match=f"unknown script 'nope' for workload '{WORKLOAD}'; there are: "):
        engine_spec(engine="embedded", model="nope", args=(), workload_id=WORKLOAD)
