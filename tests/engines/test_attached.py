"""Attaching to engines that somebody else started: the right kind, the right model, a key that leaves no trace."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engines.attached import attach, read_url
from bench.engines.engine import launch
from bench.engines.served_model import engine_spec
from bench.errors import EngineStartError, UsageError
from bench.spec import ENGINE_KEY, EngineSpec, engine_key

KEY = "sk-a-secret-that-must-not-show"


def attached(url, name, *, model=None, key=None):
    return attach(url, profile_name=name, model=model, api_key=key, progress=lambda _: None)


@pytest.fixture
def embedded(tmp_path):
    spec = EngineSpec(name="embedded", model="sound")
    engine = launch(spec, workload_id="csv-totals", folder=tmp_path / "engine", progress=lambda _: None)
    yield engine
    engine.stop()


def test_a_running_engine_is_attached_and_never_stopped(embedded):
    said = []
    url = f"http://{embedded.host}:{embedded.port}"
    engine = attach(f"{url}/v1/", profile_name="embedded", model=None, api_key=None, progress=said.append)
    assert engine.owned is False
    assert engine.url == url
    assert (engine.host, engine.port, engine.model) == (embedded.host, embedded.port, "sound")
    assert engine.context_window == embedded.context_window == 131_072
    assert engine.log is engine.binary_sha256 is engine.pid is None
    assert {"binary_sha256", "log", "argv", "pid", "version"} <= set(engine.not_known)
    assert "attached at" in said[-1].text
    assert engine.dead() is None
    engine.stop()
    assert embedded.dead() is None
    assert psutil.pid_exists(embedded.pid)


def test_an_engine_that_goes_is_seen_dead(serve, embedded):
    engine = attached(f"http://{embedded.host}:{embedded.port}", "embedded")
    assert engine.dead() is None
    embedded.stop()
    while (why := engine.dead()) is None:
        time.sleep(0.05)
    assert f"nothing takes connections at {engine.host}:{engine.port} any more" in why


def test_another_kind_of_engine_is_refused_with_what_it_looks_like(serve, recorded, embedded):
    with pytest.raises(UsageError, match=r"is not llama\.cpp llama-server; it looks like --engine embedded"):
        attached(f"http://{embedded.host}:{embedded.port}", "llama-server")
    vllm = serve({"GET /health": [(200, "")], "GET /v1/models": [(200, recorded("vllm-0.32.0/models.json"))]})
    with pytest.raises(UsageError, match="is not SGLang; it looks like --engine vllm"):
        attached(vllm, "sglang")
    with pytest.raises(UsageError, match=r"is not Ollama$"):
        attached(serve({"GET /": [(200, "It works!")]}), "ollama")


@pytest.mark.parametrize(
    ("recording", "name", "window"),
    [
        ("llama-server-b10068", "llama-server", 4096),
        ("llama-server-b11549", "llama-server", 2048),
        ("vllm-0.32.0", "vllm", 4096),
    ],
)
def test_real_answers_are_recognised(serve, recorded, recording, name, window):
    models = recorded(f"{recording}/models.json")
    engine = attached(serve({"GET /health": [(200, "{}")], "GET /v1/models": [(200, models)]}), name)
    assert engine.model == "smollm2-135m"
    assert engine.context_window == window
    assert engine.version == "not told"


def test_an_engine_whose_list_of_models_breaks_needs_a_name(serve, recorded):
    routes = {"GET /health": [(200, recorded("mlx-lm-0.32.2/health.json").strip())], "GET /v1/models": [(200, None)]}
    url = serve(routes)
    with pytest.raises(UsageError, match="does not tell which model it serves; name it with --model"):
        attached(url, "mlx-lm")
    engine = attached(url, "mlx-lm", model="smollm2")
    assert engine.model == "smollm2"
    assert "context_window" in engine.not_known


def test_the_model_must_be_one_that_is_served(serve):
    models = json.dumps({"data": [{"id": "a", "owned_by": "vllm"}, {"id": "b"}, "odd", {"id": 7}]})
    url = serve({"GET /health": [(200, "")], "GET /v1/models": [(200, models)]})
    assert attached(url, "vllm", model="b").model == "b"
    with pytest.raises(UsageError, match=r"does not serve the model 'c'; it serves: a, b$"):
        attached(url, "vllm", model="c")
    with pytest.raises(UsageError, match=r"serves several models; choose one with --model: a, b$"):
        attached(url, "vllm")


def test_nothing_there_still_loading_and_wrong_answers_are_told(serve):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(EngineStartError, match=rf"nothing answers at http://127\.0\.0\.1:{port}: start vLLM first"):
        attached(f"http://127.0.0.1:{port}", "vllm")
    with pytest.raises(EngineStartError, match=r"is still loading \(HTTP 503\)"):
        attached(serve({"GET /health": [(503, "{}")]}), "llama-server")
    with pytest.raises(UsageError, match="answers HTTP 404 to GET /health, which TensorRT-LLM"):
        attached(serve({}), "tensorrt-llm", model="m")


def test_a_key_is_asked_for_sent_and_leaves_no_trace(serve, tmp_path):
    models = json.dumps({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]})
    url = serve({"GET /health": [(200, "")], "GET /v1/models": [(200, models)]}, key=KEY)
    with pytest.raises(UsageError, match=rf"wants a key: put it into {ENGINE_KEY} \(HTTP 401\)"):
        attached(url, "vllm")
    with pytest.raises(UsageError, match=f"refuses the key of {ENGINE_KEY}") as caught:
        attached(url, "vllm", key="sk-another")
    assert "sk-another" not in str(caught.value)
    said = []
    engine = attach(url, profile_name="vllm", model=None, api_key=KEY, progress=said.append)
    assert engine.context_window == 4096
    assert engine.ask("GET", "/v1/models").status == 200
    shown = f"{vars(engine)} {engine._endpoint!r} {asdict(engine.profile)} {said}"
    assert KEY not in shown


SPEC = """
import json, sys
from dataclasses import asdict
from bench.engines.attached import attach
from bench.engines.served_model import engine_spec
from bench.spec import engine_key
spec = engine_spec(engine="vllm", model=None, args=(), workload_id="csv-totals", url=sys.argv[1])
engine = attach(spec.url, profile_name=spec.name, model=spec.model, api_key=engine_key(spec), progress=print)
print(asdict(spec), vars(engine), open("/proc/self/cmdline").read() if sys.platform == "linux" else "")
"""


def test_a_key_from_the_environment_is_in_no_output(serve):
    models = json.dumps({"data": [{"id": "m", "owned_by": "vllm"}]})
    url = serve({"GET /health": [(200, "")], "GET /v1/models": [(200, models)]}, key=KEY)
    environment = {**os.environ, ENGINE_KEY: KEY}
    done = subprocess.run(
        [sys.executable, "-c", SPEC, url], env=environment, capture_output=True, text=True, check=True
    )
    assert f"'api_key_env': '{ENGINE_KEY}'" in done.stdout
    assert KEY not in done.stdout + done.stderr


def test_a_key_that_cannot_stand_in_a_header_is_refused_unseen(monkeypatch):
    monkeypatch.setenv(ENGINE_KEY, "sk-two\nlines")
    with pytest.raises(UsageError, match=f"{ENGINE_KEY} holds characters") as caught:
        engine_key(EngineSpec(name="vllm", model="m", url="http://x:1", api_key_env=ENGINE_KEY))
    assert "sk-two" not in str(caught.value)
    assert engine_key(EngineSpec(name="embedded", model="sound")) is None


def test_the_spec_of_an_attached_engine_asks_for_its_model(embedded):
    url = f"http://{embedded.host}:{embedded.port}"
    spec = engine_spec(engine="embedded", model=None, args=(), workload_id="csv-totals", url=f"{url}/")
    assert spec == EngineSpec(name="embedded", model="sound", url=url)
    with pytest.raises(UsageError, match="--engine-arg has no place with --engine-url"):
        engine_spec(engine="embedded", model=None, args=("-c", "1"), workload_id="csv-totals", url=url)
    with pytest.raises(UsageError, match="needs the name of a model: --model NAME"):
        engine_spec(engine="vllm", model=None, args=(), workload_id="csv-totals")


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("http://localhost:1234/v1", ("localhost", 1234)),
        ("http://box.lan", ("box.lan", 80)),
        ("http://[::1]:9/v1/", ("::1", 9)),
    ],
)
def test_urls_that_are_understood(url, place):
    assert read_url(url) == place


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("127.0.0.1:8080", "expected http://HOST:PORT"),
        ("http://", "expected http://HOST:PORT"),
        ("http://host:99999", "expected http://HOST:PORT"),
        ("http://host:8080/api", "expected http://HOST:PORT"),
        ("http://host:1/?key=secret", "expected http://HOST:PORT"),
        ("http://" + "a" * 70 + ":1", "expected http://HOST:PORT"),
        ("https://host:8080", "https is not spoken here"),
        ("http://user:secret@host:1", "a key or password has no place in it"),
        ("http://[::1", "expected http://HOST:PORT"),
    ],
)
def test_urls_that_are_refused_unseen(url, says):
    with pytest.raises(UsageError, match=says) as caught:
        read_url(url)
    assert "secret" not in str(caught.value)


@given(st.text(max_size=30) | st.text(max_size=20).map(lambda text: f"http://{text}"))
def test_no_url_breaks_the_reader(url):
    try:
        host, port = read_url(url)
    except UsageError:
        return
    assert host
    assert 0 <= port <= 65_535
