"""What profiles say of real engines, held against what those engines really said."""

from __future__ import annotations

import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.engines.engine_http import Endpoint
from bench.engines.granted import Facts
from bench.engines.profile import TIMED, read_profile, value_at
from bench.engines.profile_parts import quantity_of

SCALE = {"s": 1.0, "ms": 1e-3, "tokens": 1}

PAGES = {
    "llama-server-b10068": ("llama-server", "metrics.txt", {"cached_tokens", "drafted_tokens", "accepted_tokens"}),
    "llama-server-b11549": ("llama-server", "metrics.txt", set()),
    "vllm-0.32.0": ("vllm", "metrics_drafts.txt", set()),
}
"""Recording -> its profile, a page, and the quantities that this generation does not count."""


def contract(name):
    return read_profile(name).contract(name)


def samples_of(text):
    """Sample name -> (kind of its family, its values)."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, (family.type, []))[1].append(sample.value)
    return found


@pytest.mark.parametrize("recording", PAGES)
def test_series_are_counters_of_the_real_page(recorded, recording):
    name, page, absent = PAGES[recording]
    samples = samples_of(recorded(f"{recording}/{page}"))
    for quantity, series in contract(name).metrics.series.items():
        there = [sample for sample in series.names if sample in samples]
        assert bool(there) == (quantity not in absent), quantity
        for sample in there:
            kind, values = samples[sample]
            assert kind == "counter" or (kind == "histogram" and sample.endswith("_sum"))
            assert all(value >= 0 for value in values)


def test_series_of_vllm_count_what_its_answer_reports(recorded):
    """One request on a fresh server: the page holds that request and nothing else."""
    samples = samples_of(recorded("vllm-0.32.0/metrics_drafts.txt"))
    last = json.loads(recorded("vllm-0.32.0/last_drafts.json"))
    profile = contract("vllm")
    counted = {q: sum(samples[series.names[0]][1]) for q, series in profile.metrics.series.items()}
    reported = {q: value_at(last, place.path) * SCALE[place.unit] for q, place in profile.response_fields.items()}
    for quantity in ("prefill_seconds", "decode_seconds", "queue_seconds", "drafted_tokens", "accepted_tokens"):
        assert counted[quantity] == pytest.approx(reported[quantity])
    assert counted["prompt_tokens"] == last["usage"]["prompt_tokens"] == counted["computed_prompt_tokens"]
    assert counted["output_tokens"] == last["usage"]["completion_tokens"]
    assert counted["finished_requests"] == 1
    # The histogram begins when the request arrives, the answer's own time when it is scheduled.
    assert counted["ttft_seconds"] > reported["ttft_seconds"]
    assert "queueing" in profile.metrics.series["ttft_seconds"].includes


@pytest.mark.parametrize("generation", ["b10068", "b11549"])
def test_answers_of_llama_server_hold_the_fields(recorded, generation):
    fields = contract("llama-server").response_fields
    plain = json.loads(recorded(f"llama-server-{generation}/last.json"))
    drafts = json.loads(recorded(f"llama-server-{generation}/last_drafts.json"))
    assert {q for q, place in fields.items() if value_at(plain, place.path) is None} == {
        "drafted_tokens",
        "accepted_tokens",
    }
    assert all(value_at(drafts, place.path) is not None for place in fields.values())
    assert value_at(plain, fields["computed_prompt_tokens"].path) == plain["usage"]["prompt_tokens"]


def summaries_of(profile, text):
    """Every named group of every matching line, by key, in the plain unit; the reader proper is the measuring room's."""
    found, done = {}, []
    for line in text.splitlines():
        for number, pattern in enumerate(profile.log_summary.lines, 1):
            if match := re.search(pattern, line):
                groups = match.groupdict()
                one = found.setdefault(groups.pop("key", ""), {})
                one |= {group: value for group, value in groups.items() if value is not None}
                if number == len(profile.log_summary.lines):
                    done.append(one)
                    found.clear()
    return done


@pytest.mark.parametrize("generation", ["b10068", "b11549"])
def test_the_log_of_llama_server_tells_what_its_answers_report(recorded, generation):
    profile = contract("llama-server")
    for log, answer in (("server.log", "last.json"), ("drafts.log", "last_drafts.json")):
        text = recorded(f"llama-server-{generation}/{log}")
        first = summaries_of(profile, text)[0]
        last = json.loads(recorded(f"llama-server-{generation}/{answer}"))
        usage, timings = last["usage"], last["timings"]
        assert int(first["computed_prompt_tokens"]) == timings["prompt_n"]
        assert int(first["output_tokens"]) == usage["completion_tokens"] == timings["predicted_n"]
        assert float(first["prefill_ms"]) == float(first["ttft_ms"]) == pytest.approx(timings["prompt_ms"], abs=0.01)
        assert float(first["decode_ms"]) == pytest.approx(timings["predicted_ms"], abs=0.01)
        assert int(first["prompt_tokens"]) == usage["prompt_tokens"]
        assert int(first["cached_tokens"]) == timings["cache_n"]
        assert first.get("drafted_tokens") == (str(timings["draft_n"]) if "draft_n" in timings else None)
        assert first.get("accepted_tokens") == (str(timings["draft_n_accepted"]) if "draft_n" in timings else None)
        assert len(re.findall(profile.log_summary.starts, text)) == 1


def test_a_cancelled_request_leaves_a_summary_without_output(recorded):
    summaries = summaries_of(contract("llama-server"), recorded("llama-server-b11549/server.log"))
    assert [("output_tokens" in one) for one in summaries] == [True, True, True, False, False]
    assert [int(one["prompt_tokens"]) for one in summaries] == [38, 38, 34, 34, 3031]


LINES = {
    "embedded": (
        (
            "2026-11-30T08:10:51Z embedded: request id=chatcmpl-7 prompt=900 cached=64 output=12 reasoning=3 drafted=8 "
            "accepted=5 queue_seconds=0.0 ttft_seconds=1.5 prefill_seconds=1.25 decode_seconds=3e-05 finish=stop error=-"
        ),
        {"response_id": "chatcmpl-7", "prompt_tokens": "900", "cached_tokens": "64", "decode_seconds": "3e-05"},
    ),
    "tabbyapi": (
        (
            "INFO: Metrics (ID: 3f2b): 120 tokens generated in 4.71 seconds (Queue: 0.0 s, Process: 256 cached tokens and "
            "44 new tokens at 310.2 T/s, Generate: 26.33 T/s, Context: 300 tokens, Draft: 60 / 90 tokens accepted (66.7%))"
        ),
        {"response_id": "3f2b", "output_tokens": "120", "prompt_tokens": "300", "drafted_tokens": "90"},
    ),
    "omlx": (
        "Chat completion: 444 tokens in 84.88s (54.5 tok/s), prompt: 100428",
        {"output_tokens": "444", "prompt_tokens": "100428"},
    ),
    "sushi": (
        "12:00:01 request done: prompt=5000 cached=4096 output=930 drafted=640 accepted=403",
        {"prompt_tokens": "5000", "cached_tokens": "4096", "accepted_tokens": "403"},
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_of_the_log_is_a_summary(name):
    line, said = LINES[name]
    [summary] = summaries_of(contract(name), line)
    assert said.items() <= summary.items()
    assert all(quantity_of(group) or group == "response_id" for group in summary)


def test_tabby_without_drafts_is_a_summary_too():
    line = LINES["tabbyapi"][0].partition(", Draft")[0] + ")"
    [summary] = summaries_of(contract("tabbyapi"), line)
    assert "drafted_tokens" not in summary
    assert summary["output_tokens"] == "120"


def test_a_refused_request_of_the_embedded_engine_is_none():
    line = LINES["embedded"][0].replace("output=12", "output=-")
    assert summaries_of(contract("embedded"), line) == []


@pytest.mark.parametrize(
    ("recording", "name"),
    [("llama-server-b10068", "llama-server"), ("llama-server-b11549", "llama-server"), ("vllm-0.32.0", "vllm")],
)
def test_a_prompt_over_the_window_is_known_by_its_text(recorded, recording, name):
    message = json.loads(recorded(f"{recording}/overlong.json"))["error"]["message"]
    profile = contract(name)
    assert any(re.search(pattern, message) for pattern in profile.context_errors)
    assert not any(re.search(pattern, message) for pattern in profile.memory_errors)


def endpoint_of(url):
    host, port = url.removeprefix("http://").split(":")
    return Endpoint(host, int(port))


@pytest.mark.parametrize(("generation", "window"), [("b10068", 4096), ("b11549", 2048)])
def test_window_version_and_slots_of_llama_server(serve, recorded, generation, window, tmp_path):
    place = f"llama-server-{generation}"
    models, props = recorded(f"{place}/models.json"), recorded(f"{place}/props.json")
    (tmp_path / "engine.log").write_text("an earlier launch: offloaded 1/9 layers to GPU\n")
    start = (tmp_path / "engine.log").stat().st_size
    with (tmp_path / "engine.log").open("a") as log:
        log.write(recorded(f"{place}/server.log"))
    url = serve({"GET /v1/models": [(200, models)], "GET /props": [(200, props)]})
    profile = read_profile("llama-server")
    facts = Facts(endpoint_of(url), model="smollm2-135m", log=tmp_path / "engine.log", log_from=start)
    assert facts.context_window(profile) == window
    assert facts.version(profile) == json.loads(props)["build_info"]
    offload = {"offload": "31/31 layers to GPU"} if generation == "b10068" else {}
    assert facts.granted(profile) == {"slots": str(json.loads(props)["total_slots"]), **offload}
    # Another name is served all the same; without /v1/models there is still /props.
    assert Facts(endpoint_of(url), model="other", log=None).context_window(profile) == window
    bare = serve({"GET /props": [(200, props)]})
    assert Facts(endpoint_of(bare), model="other", log=None).context_window(profile) == window


def test_window_and_cache_of_vllm(serve, recorded, tmp_path):
    (tmp_path / "engine.log").write_text(recorded("vllm-0.32.0/server.log"))
    url = serve(
        {
            "GET /v1/models": [(200, recorded("vllm-0.32.0/models.json"))],
            "GET /version": [(200, '{"version": "0.32.0"}')],
        }
    )
    profile = read_profile("vllm")
    facts = Facts(endpoint_of(url), model="smollm2-135m", log=tmp_path / "engine.log")
    assert facts.context_window(profile) == 4096
    assert facts.version(profile) == "0.32.0"
    assert facts.granted(profile) == {"kv_cache_tokens": "46,592"}


def test_windows_of_engines_that_were_only_read_about(serve):
    ollama = serve({"GET /api/ps": [(200, '{"models": [{"name": "qwen3:8b", "context_length": 32768}]}')]})
    assert Facts(endpoint_of(ollama), model="qwen3:8b", log=None).context_window(read_profile("ollama")) == 32768
    assert Facts(endpoint_of(ollama), model="other", log=None).context_window(read_profile("ollama")) is None
    loaded = '{"models": [{"key": "q", "loaded_instances": [{"config": {"context_length": 8192}}]}]}'
    studio = serve({"GET /api/v1/models": [(200, loaded)], "GET /api/v0/models": [(200, '{"data": [{"id": "q"}]}')]})
    assert Facts(endpoint_of(studio), model="q", log=None).context_window(read_profile("lm-studio")) == 8192


@pytest.mark.parametrize("body", ["[]", "no json", '{"data": [{"id": "m", "max_model_len": "many"}]}', "[" * 100_000])
def test_nonsense_gives_no_window(serve, body):
    url = serve({"GET /v1/models": [(200, body)], "GET /version": [(200, body)]})
    facts = Facts(endpoint_of(url), model="m", log=None)
    assert facts.context_window(read_profile("vllm")) is None
    assert facts.version(read_profile("vllm")) is None


def test_mlx_lm_tells_counts_and_nothing_else(recorded):
    last = json.loads(recorded("mlx-lm-0.32.2/last.json"))
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert set(TIMED) <= set(contract("mlx-lm").unavailable)
    assert not {"timings", "metrics"} & set(last)
