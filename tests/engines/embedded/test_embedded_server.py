"""The server as others meet it: errors, limits, caches across launches, many clients, clients that leave."""

from __future__ import annotations

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

USER = {"role": "user", "content": "Build the totals program. " * 40}


def error_of(response, status):
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def metrics_of(engine):
    page = engine.client.get("/metrics").text
    values = {}
    for family in text_string_to_metric_families(page):
        assert family.documentation
        assert family.type in ("counter", "gauge")
        for sample in family.samples:
            assert sample.name.startswith("runcard_embedded:")
            values[(sample.name.partition(":")[2], *sample.labels.values())] = sample.value
    return values


def total(lines, field):
    return sum(line[field] or 0 for line in lines if line["error"] is None)


def agrees_with_truth(engine):
    values, lines = metrics_of(engine), engine.truth()
    for name, field in {
        "prompt_tokens_total": "prompt_tokens",
        "prompt_tokens_cached_total": "cached_tokens",
        "output_tokens_total": "output_tokens",
        "drafted_tokens_total": "drafted_tokens",
        "accepted_tokens_total": "accepted_tokens",
    }.items():
        assert values[(name,)] == total(lines, field)
    for name in ("prefill_seconds", "decode_seconds", "ttft_seconds", "queue_seconds"):
        assert values[(f"{name}_total",)] == pytest.approx(total(lines, name), abs=1e-9)
    for reason in ("stop", "length", "tool_calls"):
        assert values["requests_finished_total", reason] == sum(line["finish_reason"] == reason for line in lines)
    assert values["requests_finished_total", "abort"] == sum(line["aborted"] for line in lines)
    refused = sum(value for key, value in values.items() if key[0] == "requests_refused_total")
    assert refused == sum(line["error"] is not None for line in lines)
    assert values[("requests_running",)] == values[("reserved_bytes",)] == 0


def test_models_name_the_window(launch):
    engine = launch("--name", "small-model", "--context-window", "5000")
    (model,) = engine.client.get("/v1/models").json()["data"]
    assert (model["id"], model["meta"]["n_ctx"], model["max_model_len"]) == ("small-model", 5000, 5000)
    assert engine.ask([USER]).body["model"] == "small-model"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        ([], "must be a JSON object"),
        ({}, "'messages' must be a list with at least one message."),
        ({"messages": "hello"}, "'messages' must be a list."),
        ({"messages": ["hello"]}, "'messages[0]' must be an object."),
        ({"messages": [{"role": "oracle"}]}, "'messages[0].role' must be one of system"),
        ({"messages": [{"role": "user", "content": 7}]}, "'messages[0].content' must be a string or a list"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "'messages[0].content' must be a string or a list of text parts",
        ),
        ({"messages": [USER], "stream": "yes"}, "'stream' must be true or false."),
        ({"messages": [USER], "stream_options": {"include_usage": 1}}, "'include_usage' must be true or false."),
        ({"messages": [USER], "max_tokens": True}, "'max_tokens' must be a whole number."),
        ({"messages": [USER], "max_tokens": 0}, "'max_tokens' must be at least 1."),
        ({"messages": [USER], "max_completion_tokens": 1.5}, "'max_completion_tokens' must be a whole number."),
        ({"messages": [USER], "n": 2}, "'n' must be 1."),
        ({"messages": [USER], "model": 3}, "'model' must be a string."),
        ({"messages": [USER], "tools": [{"type": "function"}]}, "'tools[0]' must be an object with a 'function'."),
        ({"messages": [USER], "tools": [{"function": {}}]}, "'tools[0].function.name' must have 1 to 128 characters."),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "x", "arguments": {}}}]}]},
            "'messages[0].tool_calls[0].arguments' must be a string.",
        ),
    ],
)
def test_wrong_bodies_are_refused_with_a_sentence(used_engine, body, problem):
    error = error_of(used_engine.post(body), 400)
    assert problem in error["message"]
    assert error["type"] == "invalid_request_error"
    told = {"status": 400, "type": error["type"], "code": None, "message": error["message"]}
    assert used_engine.truth()[-1]["error"] == told
    agrees_with_truth(used_engine)


def test_paths_methods_and_bodies_that_are_not_there(used_engine):
    client = used_engine.client
    assert "/v1/chat/completions" in error_of(client.get("/v2/nothing"), 404)["message"]
    assert error_of(client.get("/v1/chat/completions"), 405)["message"].endswith("wants POST, not GET.")
    error_of(client.request("BREW", "/health"), 501)
    error_of(client.post("/v1/chat/completions", content=iter([b"{}"])), 411)
    bad_place = client.post("/v1/chat/completions", json={}, headers={"X-Runcard-Session": "builder"})
    assert "expected the form" in error_of(bad_place, 400)["message"]
    assert client.get("/health?probe=1").status_code == 200
    for length, status in ((b"99999999999", b"413"), (b"-5", b"413"), (b"5", b"")):
        head = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: " + length + b"\r\n\r\n"
        assert raw_answer(used_engine, head, done=True)[9:12] == status


def raw_answer(engine, request, *, done=False):
    address = urlsplit(engine.url)
    with socket.create_connection((address.hostname, address.port)) as raw:
        raw.sendall(request)
        if done:
            raw.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: raw.recv(65536), b""))


def test_a_prompt_over_the_window(launch):
    engine = launch("--context-window", "150")
    error = error_of(engine.post({"messages": [USER]}), 400)
    (line,) = engine.truth()
    assert error["code"] == "context_length_exceeded"
    assert f"This prompt has {line['prompt_tokens']} tokens" in error["message"]
    assert "holds 150 tokens" in error["message"]
    agrees_with_truth(engine)


def test_an_answer_ends_where_the_window_ends(launch):
    prompt = launch().ask([USER]).usage["prompt_tokens"]
    engine = launch("--context-window", str(prompt + 10))
    reply = engine.ask([USER])
    assert (reply.finish_reason, reply.usage["completion_tokens"]) == ("length", 10)
    full = launch("--context-window", str(prompt))
    assert error_of(full.post(full.body([USER])), 400)["code"] == "context_length_exceeded"


def test_a_prompt_that_needs_more_memory_than_there_is(launch):
    engine = launch("--memory-bytes", "20000000", "--ram-cache-bytes", "10000000")
    error = error_of(engine.post({"messages": [USER]}), 400)
    needed = engine.truth()[0]["prompt_tokens"] * 80_000
    assert error["type"] == "insufficient_memory"
    assert f"needs {needed} bytes more, 20000000 bytes are free" in error["message"]
    agrees_with_truth(engine)


def test_a_session_whose_script_leaves_too_little_memory(engine):
    first = engine.ask([USER], task="T003")
    history = [USER, first.message(), {"role": "tool", "content": "a " * 200}]
    refused = error_of(engine.post({"messages": history, "stream": True}, task="T003"), 400)
    assert "80000 bytes are free" in refused["message"]
    again = engine.ask(history, task="T003", retry=1)
    assert again.content == "Now it fits."
    agrees_with_truth(engine)


def test_eight_at_once_are_all_exact(launch):
    engine = launch("--parallel", "3")
    alone = {task: launch().ask([USER], task=task) for task in ("T001", "T002")}
    with ThreadPoolExecutor(8) as pool:
        tasks = ["T001", "T002"] * 12
        replies = list(pool.map(lambda task: engine.ask([USER], task=task, stream=task == "T001"), tasks))
    lines = {line["response_id"]: line for line in engine.truth()}
    assert len(lines) == len(tasks)
    for task, reply in zip(tasks, replies, strict=True):
        line = lines[reply.body["id"]]
        usage = {**reply.usage, "prompt_tokens_details": None}
        assert usage == {**alone[task].usage, "prompt_tokens_details": None}
        assert reply.content == alone[task].content
        assert reply.usage["prompt_tokens_details"]["cached_tokens"] == line["cached_tokens"]
        assert reply.timings["draft_n_accepted"] == line["accepted_tokens"]
    agrees_with_truth(engine)


def test_a_client_that_goes_away_is_noticed(launch):
    engine = launch("--time-scale", "0.2")
    address = urlsplit(engine.url)
    body = {"messages": [USER], "stream": True}
    connection = http.client.HTTPConnection(address.hostname, address.port)
    place = "run=demo; session=1; role=builder; task=T001; attempt=1; retry=0"
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"X-Runcard-Session": place})
    response = connection.getresponse()
    while b"reasoning_content" not in response.readline():
        """The first token is not there yet."""
    response.close()
    connection.close()
    while not engine.truth():
        time.sleep(0.01)
    (line,) = engine.truth()
    assert line["aborted"]
    assert line["finish_reason"] is None
    assert 0 < line["output_tokens"] == 1 + line["decode_steps"] + line["accepted_tokens"]
    agrees_with_truth(engine)
    again = engine.post({"messages": [USER], "max_tokens": 1}).json()
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, "what it computed is kept"


def test_a_stopped_engine_writes_down_what_it_was_doing(launch):
    engine = launch("--time-scale", "1")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.post, f"{engine.url}/v1/chat/completions", json={"messages": [USER]}, timeout=20)
        while metrics_of(engine)[("requests_running",)] == 0:
            time.sleep(0.005)
        assert engine.stop() == 0
        with pytest.raises(httpx.HTTPError):
            asked.result()
    (line,) = engine.truth()
    assert line["aborted"]


def test_time_scale_makes_a_client_wait(launch):
    engine = launch("--time-scale", "0.1")
    engine.ask([USER])
    (line,) = engine.truth()
    assert line["first_token_at"] - line["received_at"] >= line["ttft_seconds"] * 0.1
    assert line["ended_at"] - line["received_at"] >= (line["ttft_seconds"] + line["decode_seconds"]) * 0.1


def test_state_that_left_ram_comes_back_from_ssd(launch, tmp_path):
    block = 64 * 80_000
    folder = tmp_path / "ssd"
    options = ("--ssd-dir", str(folder), "--ram-cache-bytes", str(2 * block))
    engine = launch(*options)
    engine.ask([USER])
    assert len(list(folder.glob("*.block"))) > 0
    engine.ask([USER])
    line = engine.truth()[-1]
    assert line["cached_ram_tokens"] == 128
    assert line["cached_ssd_tokens"] > 0
    assert line["ttft_seconds"] > line["prefill_seconds"]
    values = metrics_of(engine)
    assert values["cache_bytes", "ram"] == 2 * block
    assert values["cache_bytes", "ssd"] == len(list(folder.glob("*.block"))) * block
    engine.stop()

    warm = launch(*options, "--ssd-keep")
    warm.ask([USER])
    assert warm.truth()[0]["cached_tokens"] == 0, "its first blocks were in RAM and are gone"
    assert "warm start" in warm.log()
    warm.stop()

    cold = launch(*options)
    assert "blocks of an earlier launch removed" in cold.log()
    assert list(folder.glob("*.block")) == []


def test_kept_files_warm_the_next_launch(launch, tmp_path):
    options = ("--ssd-dir", str(tmp_path / "ssd"), "--ram-cache-bytes", "0")
    first = launch(*options)
    first.ask([USER])
    first.stop()
    again = launch(*options, "--ssd-keep")
    again.ask([USER])
    line = again.truth()[0]
    assert line["cached_ssd_tokens"] == (line["prompt_tokens"] - 1) // 64 * 64 > 0


def test_one_connection_serves_many_requests(engine):
    address = urlsplit(engine.url)
    connection = http.client.HTTPConnection(address.hostname, address.port)
    for _ in range(3):
        connection.request("POST", "/v1/chat/completions", json.dumps({"messages": [USER], "stream": True}))
        socket_before = connection.sock
        assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")
        assert connection.sock is socket_before
    connection.close()


def test_http_1_0_and_noise(used_engine):
    body = json.dumps({"messages": [USER], "stream": True}).encode()
    head = b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert raw_answer(used_engine, head + body).endswith(b"data: [DONE]\n\n")
    assert b'"invalid_request_error"' in raw_answer(used_engine, b"\x16\x03\x01 nonsense\r\n\r\n")
    assert used_engine.client.get("/health").status_code == 200
