"""Each fault of a script as it comes over the wire, what the truth says of it, and that the engine goes on well."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .conftest import HEADER, TOOLS, make_script, start_engine

USER = {"role": "user", "content": "Build the totals program. " * 20}
SAID = "One two three four five six seven eight nine ten."
FAULTS = {
    "refuse": "{fault: {kind: refuse, status: 429, message: Slow down, code: busy, retry_after_seconds: 1.5}}",
    "oom": "{fault: {kind: refuse, status: 400, message: CUDA out of memory. Tried to allocate 2 GiB, type: oom}}",
    "reset": "{say: SAID, fault: {kind: reset, after_tokens: 3}}",
    "reset-0": "{fault: {kind: reset, after_tokens: 0}}",
    "cut": "{say: SAID, fault: {kind: cut, after_tokens: 3}}",
    "cut-0": "{fault: {kind: cut, after_tokens: 0}}",
    "error-event": "{say: SAID, fault: {kind: error-event, after_tokens: 3, message: The backend failed}}",
    "stall": "{say: SAID, fault: {kind: stall, after_tokens: 3}}",
    "stall-0": "{fault: {kind: stall, after_tokens: 0}}",
    "keep-alive": "{say: SAID, fault: {kind: keep-alive, after_tokens: 3}}",
    "no-usage": "{say: SAID, fault: {kind: no-usage}}",
    "length": "{say: SAID, fault: {kind: length, after_tokens: 3}}",
    "empty": "{fault: {kind: empty}}",
    "cut-call": "{do: [{read: a.txt}, {run: echo hi}], fault: {kind: cut-call}}",
    "unknown-tool": "{say: SAID, fault: {kind: unknown-tool, name: teleport}}",
    "exit": "{say: SAID, fault: {kind: exit}}",
    "exit-3": "{say: SAID, fault: {kind: exit, after_tokens: 3}}",
}


def faulty_script(root):
    folder = make_script(root)
    sessions = [
        f"  - role: builder\n    task: {name}\n    retry: 0\n    turns:\n      - {text.replace('SAID', json.dumps(SAID))}\n"
        for name, text in FAULTS.items()
    ]
    well = f"  - role: builder\n    turns:\n      - say: {json.dumps(SAID)}\n"
    (folder / "script.yaml").write_text("about: Faults.\nsessions:\n" + "".join(sessions) + well)
    return folder


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    root = tmp_path_factory.mktemp("faulty")
    engine = start_engine(root, faulty_script(root), "--parallel", "1")
    yield engine
    engine.stop()


class Raw:
    """One request on a socket of its own."""

    def __init__(self, engine, task, *, stream, path="/v1/chat/completions", body=None):
        data = json.dumps(body or engine.body([USER], stream=stream)).encode()
        place = HEADER.format(role="builder", task=task, attempt=1, retry=0)
        address = urlsplit(engine.url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=10)
        head = f"POST {path} HTTP/1.1\r\nX-Runcard-Session: {place}\r\nContent-Length: {len(data)}\r\n\r\n"
        self.socket.sendall(head.encode() + data)
        self.got = b""

    def read_until(self, mark):
        while mark not in self.got:
            more = self.socket.recv(65536)
            assert more, self.got
            self.got += more

    def read_to_the_end(self):
        """`eof`, or `reset`."""
        try:
            while more := self.socket.recv(65536):
                self.got += more
        except ConnectionResetError:
            return "reset"
        return "eof"

    def leave(self):
        self.socket.close()

    @property
    def events(self):
        lines = self.got.replace(b"\r\n", b"\n").split(b"\n")
        return [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]

    @property
    def text(self):
        deltas = [choice["delta"] for event in self.events for choice in event.get("choices", [])]
        return "".join(delta.get("content") or "" for delta in deltas)


def next_line(engine, before):
    """The truth of the request that came after so many lines."""
    while len(engine.truth()) == before:
        time.sleep(0.005)
    (line,) = engine.truth()[before:]
    return line


def goes_on_well(engine):
    """The one slot and all memory are free again, and what the page counts is what the truth says."""
    reply = engine.ask([USER], task="well")
    assert reply.content == SAID
    lines = engine.truth()
    values = {}
    for family in text_string_to_metric_families(engine.client.get("/metrics").text):
        for sample in family.samples:
            values[(sample.name.partition(":")[2], *sample.labels.values())] = sample.value
    assert values[("requests_running",)] == values[("reserved_bytes",)] == 0
    assert values[("output_tokens_total",)] == sum(line["output_tokens"] or 0 for line in lines)
    refused = sum(value for key, value in values.items() if key[0] == "requests_refused_total")
    finished = sum(value for key, value in values.items() if key[0] == "requests_finished_total")
    assert refused == sum(line["output_tokens"] is None for line in lines)
    assert refused + finished == len(lines)
    assert values["requests_finished_total", "error"] == sum(line["fault"] == "error-event" for line in lines)
    assert values["requests_finished_total", "abort"] == sum(line["aborted"] for line in lines)


def broken(line, kind, *, tokens):
    assert (line["fault"], line["aborted"], line["finish_reason"], line["error"]) == (kind, True, None, None)
    assert line["output_tokens"] == tokens
    assert (line["ttft_seconds"] is None) == (tokens == 0)


@pytest.fixture
def ask():
    """Sends a request on a socket of its own; all are closed at the end."""
    raws = []

    def send(*request, **options):
        raws.append(Raw(*request, **options))
        return raws[-1]

    yield send
    for raw in raws:
        raw.leave()


@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_has_the_status_and_the_words_of_the_script(faulty, stream):
    before = len(faulty.truth())
    response = faulty.post(faulty.body([USER], stream=stream), task="refuse")
    assert (response.status_code, response.headers["retry-after"]) == (429, "1.5")
    told = {"message": "Slow down", "type": "invalid_request_error", "param": None, "code": "busy"}
    assert response.json() == {"error": told}
    line = next_line(faulty, before)
    assert line["error"] == {"status": 429, "type": told["type"], "code": "busy", "message": "Slow down"}
    assert (line["fault"], line["output_tokens"], line["aborted"]) == ("refuse", None, False)
    assert faulty.post(faulty.body([USER]), task="oom").json()["error"]["type"] == "oom"
    goes_on_well(faulty)


@pytest.mark.parametrize(("task", "tokens"), [("reset", 3), ("reset-0", 0)])
@pytest.mark.parametrize("stream", [True, False])
def test_a_reset_is_one(faulty, stream, task, tokens, ask):
    before = len(faulty.truth())
    raw = ask(faulty, task, stream=stream)
    assert raw.read_to_the_end() == "reset"
    assert raw.text == ("One two three" if tokens and stream else "")
    assert bool(raw.got) == bool(tokens and stream)
    broken(next_line(faulty, before), "reset", tokens=tokens)
    goes_on_well(faulty)


@pytest.mark.parametrize(("task", "tokens"), [("cut", 3), ("cut-0", 0)])
def test_a_cut_stream_ends_in_good_order_and_says_nothing(faulty, task, tokens, ask):
    before = len(faulty.truth())
    raw = ask(faulty, task, stream=True)
    raw.read_until(b"\r\n0\r\n\r\n")
    assert raw.text == ("One two three" if tokens else "")
    assert not any(event.get("usage") or event["choices"][0]["finish_reason"] for event in raw.events)
    assert b"[DONE]" not in raw.got
    line = next_line(faulty, before)
    broken(line, "cut", tokens=tokens)
    assert line["chunks"] == len(raw.events)
    goes_on_well(faulty)


def test_a_cut_body_is_half_of_one(faulty):
    response = faulty.post(faulty.body([USER], stream=False), task="cut")
    assert response.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        response.json()
    broken(faulty.truth()[-1], "cut", tokens=3)
    goes_on_well(faulty)


def test_an_error_inside_a_stream_that_began_well(faulty, ask):
    before = len(faulty.truth())
    raw = ask(faulty, "error-event", stream=True)
    raw.read_until(b"\r\n0\r\n\r\n")
    assert raw.got.startswith(b"HTTP/1.1 200 ")
    assert raw.text == "One two three"
    told = {"message": "The backend failed", "type": "server_error", "param": None, "code": None}
    assert raw.events[-1] == {"error": told}
    assert b"[DONE]" not in raw.got
    line = next_line(faulty, before)
    assert line["error"] == {"status": 200, "type": "server_error", "code": None, "message": "The backend failed"}
    assert (line["output_tokens"], line["finish_reason"], line["aborted"]) == (3, None, False)
    assert line["chunks"] == len(raw.events)
    assert "finish=- error=server_error" in faulty.log().splitlines()[-1]
    plain = faulty.post(faulty.body([USER], stream=False), task="error-event")
    assert (plain.status_code, plain.json()) == (500, {"error": told})
    assert faulty.truth()[-1]["error"]["status"] == 500
    goes_on_well(faulty)


@pytest.mark.parametrize(
    ("task", "stream", "shown"),
    [
        ("stall", True, b" three"),
        ("stall", False, b""),
        ("stall-0", True, b""),
        ("keep-alive", True, b": keep-alive\n\n"),
        ("keep-alive", False, b""),
    ],
)
def test_a_stall_lasts_until_the_client_is_gone(faulty, ask, task, stream, shown):
    before = len(faulty.truth())
    raw = ask(faulty, task, stream=stream)
    raw.read_until(shown)
    if not shown:
        raw.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            raw.socket.recv(1)
    assert len(faulty.truth()) == before, "it is still served"
    assert "requests_running 1" in faulty.client.get("/metrics").text
    raw.leave()
    broken(next_line(faulty, before), task.removesuffix("-0"), tokens=0 if task == "stall-0" else 3)
    goes_on_well(faulty)


def test_keep_alive_comments_go_on(faulty, ask):
    before = len(faulty.truth())
    raw = ask(faulty, "keep-alive", stream=True)
    while raw.got.count(b": keep-alive\n\n") < 3:
        raw.got += raw.socket.recv(65536)
    assert raw.text == "One two three"
    raw.leave()
    broken(next_line(faulty, before), "keep-alive", tokens=3)


def test_an_answer_without_usage(faulty, ask):
    before = len(faulty.truth())
    raw = ask(faulty, "no-usage", stream=True)
    raw.read_until(b"[DONE]")
    assert raw.text == SAID
    assert raw.events[-1]["choices"][0]["finish_reason"] == "stop"
    assert not any({"usage", "timings"} & set(event) for event in raw.events)
    line = next_line(faulty, before)
    assert (line["fault"], line["finish_reason"], line["aborted"]) == ("no-usage", "stop", False)
    assert line["chunks"] == len(raw.events)
    body = faulty.post(faulty.body([USER], stream=False), task="no-usage").json()
    assert body["choices"][0]["message"]["content"] == SAID
    assert not {"usage", "timings"} & set(body)
    goes_on_well(faulty)


@pytest.mark.parametrize("stream", [True, False])
def test_answers_that_end_early_but_in_good_order(faulty, stream):
    short = faulty.ask([USER], task="length", stream=stream)
    assert (short.content, short.finish_reason) == ("One two three", "length")
    assert short.usage["completion_tokens"] == faulty.truth()[-1]["output_tokens"] == 3
    empty = faulty.ask([USER], task="empty", stream=stream)
    assert (empty.content, empty.reasoning, empty.calls, empty.finish_reason) == ("", "", [], "stop")
    assert empty.usage["completion_tokens"] == faulty.truth()[-1]["output_tokens"] == 0
    assert empty.timings["ttft_ms"] > 0
    assert not faulty.truth()[-1]["aborted"]
    goes_on_well(faulty)


@pytest.mark.parametrize("stream", [True, False])
def test_calls_that_cannot_be_made(faulty, stream):
    cut = faulty.ask([USER], task="cut-call", stream=stream)
    assert cut.finish_reason == "tool_calls"
    whole, last = (call["function"] for call in cut.calls)
    assert json.loads(whole["arguments"]) == {"path": "a.txt"}
    assert '{"command":"echo hi"}'.startswith(last["arguments"])
    with pytest.raises(json.JSONDecodeError):
        json.loads(last["arguments"])
    unknown = faulty.ask([USER], task="unknown-tool", stream=stream)
    assert [call["function"] for call in unknown.calls] == [{"name": "teleport", "arguments": "{}"}]
    assert (unknown.content, unknown.finish_reason) == (SAID, "tool_calls")
    assert "teleport" not in {tool["function"]["name"] for tool in TOOLS}
    goes_on_well(faulty)


@pytest.mark.parametrize(("task", "stream", "tokens"), [("exit", True, 0), ("exit-3", True, 3), ("exit-3", False, 3)])
def test_an_engine_that_ends_tells_the_truth_first(tmp_path, task, stream, tokens, ask):
    engine = start_engine(tmp_path, faulty_script(tmp_path))
    raw = ask(engine, task, stream=stream)
    raw.read_to_the_end()
    assert raw.text == ("One two three" if tokens and stream else "")
    assert engine.process.wait(10) == 1
    (line,) = engine.truth()
    broken(line, "exit", tokens=tokens)
    with pytest.raises(ConnectionRefusedError):
        ask(engine, task, stream=stream)
    engine.client.close()


def test_a_stopped_engine_ends_a_stall(tmp_path, ask):
    engine = start_engine(tmp_path, faulty_script(tmp_path))
    raw = ask(engine, "stall", stream=True)
    raw.read_until(b" three")
    assert engine.stop() == 0
    (line,) = engine.truth()
    broken(line, "stall", tokens=3)


def test_a_fault_of_the_first_try_alone(faulty):
    assert faulty.post(faulty.body([USER]), task="oom").status_code == 400
    assert faulty.ask([USER], task="oom", retry=1).content == SAID
