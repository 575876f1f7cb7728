"""The Responses API on the wire: its events, its plain bodies, its faults; the truth is that of the chat API."""

from __future__ import annotations

import json
import os
import time

import httpx
import pytest

from bench.measure.stream import AnswerReader

from .conftest import HEADER, TOOLS, Reply, make_script, start_engine

FUNCTIONS = [{"type": "function", **tool["function"]} for tool in TOOLS]
ASKED = "Build the totals program. " * 20
SAME = ("prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "drafted_tokens", "accepted_tokens")
SAME += ("decode_steps", "ttft_seconds", "prefill_seconds", "decode_seconds", "turn", "finish_reason", "error", "fault")
FAULTS = """\
  - role: reviewer
    turns:
      - {say: One two three four five., fault: {kind: FAULT}}
"""


def message(text, role="user"):
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


class Answer:
    """A whole answer and its events."""

    def __init__(self, response, *, stream):
        assert response.status_code == 200, response.text
        self.events = events_of(response.text) if stream else []
        self.body = self.events[-1]["response"] if stream else response.json()
        self.timings = (self.events[-1] if stream else self.body).get("timings")
        reader = AnswerReader()
        if stream:
            reader.feed(response.content)
            reader.end()
        else:
            reader.read_body(response.content)
        self.read = reader

    @property
    def items(self):
        return self.body["output"]


def events_of(text):
    """Each event's name is its type, and they are numbered."""
    events = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def ask(engine, items, *, stream=True, role="builder", task="T001", **options):
    header = HEADER.format(role=role, task=task, attempt=1, retry=0)
    body = {"model": "demo", "input": items, "tools": FUNCTIONS, "stream": stream, "store": False, **options}
    return engine.client.post("/v1/responses", json=body, headers={"X-Runcard-Session": header})


def answered(engine, items, *, stream=True, **options):
    return Answer(ask(engine, items, stream=stream, **options), stream=stream)


def results(items):
    calls = [item for item in items if item["type"] == "function_call"]
    return [{"type": "function_call_output", "call_id": call["call_id"], "output": "fine"} for call in calls]


def chat_history(reply: Reply):
    return [reply.message(), *({"role": "tool", "content": "fine"} for _ in reply.calls)]


@pytest.mark.parametrize("stream", [True, False])
def test_a_session_is_the_same_in_both_apis(launch, stream):
    one, other = launch(), launch()
    items, messages = [message(ASKED)], [{"role": "user", "content": ASKED}]
    for _ in range(3):
        answer = answered(one, items, stream=stream)
        reply = other.ask(messages, stream=stream)
        texts = {item["type"]: "".join(part["text"] for part in item.get("content", ())) for item in answer.items}
        assert (texts.get("reasoning", ""), texts.get("message", "")) == (reply.reasoning, reply.content)
        calls = [item for item in answer.items if item["type"] == "function_call"]
        functions = [{"name": call["name"], "arguments": call["arguments"]} for call in calls]
        assert functions == [call["function"] for call in reply.calls]
        truth, expected = one.truth()[-1], other.truth()[-1]
        assert {key: truth[key] for key in SAME} == {key: expected[key] for key in SAME}
        assert answer.timings == reply.timings
        items += [*answer.items, *results(answer.items)]
        messages += chat_history(reply)
    assert one.truth()[-1]["cached_tokens"] > 0
    assert [line["turn"] for line in one.truth()] == [0, 1, 2]
    assert strip(one) == strip(other), "the counters"


def strip(engine):
    lines = engine.client.get("/metrics").text.splitlines()
    return [line for line in lines if "queue_seconds" not in line]


@pytest.mark.parametrize("stream", [True, False])
def test_what_the_harness_reads_is_the_truth(engine, stream):
    answer = answered(engine, [message(ASKED)], stream=stream)
    (line,) = engine.truth()
    usage = answer.body["usage"]
    assert usage == answer.read.usage
    assert usage["input_tokens"] == line["prompt_tokens"]
    assert usage["input_tokens_details"] == {"cached_tokens": line["cached_tokens"]}
    assert usage["output_tokens"] == line["output_tokens"]
    assert usage["output_tokens_details"] == {"reasoning_tokens": line["reasoning_tokens"]}
    assert usage["total_tokens"] == line["prompt_tokens"] + line["output_tokens"]
    assert (answer.read.response_id, answer.read.complete, answer.read.damage) == (line["response_id"], True, None)
    assert answer.read.values["timings"][1] == answer.timings
    assert answer.timings["ttft_ms"] == round(line["ttft_seconds"] * 1e3, 3)
    assert line["chunks"] == len(answer.events)
    assert line["response_id"].startswith("resp_")


def test_a_stream_tells_each_item_from_its_opening_to_its_end(engine):
    answer = answered(engine, [message(ASKED)])
    kinds = [event["type"].removeprefix("response.") for event in answer.events]
    assert kinds[:3] == ["created", "in_progress", "output_item.added"]
    assert kinds[-1] == "completed"
    order = [kind for at, kind in enumerate(kinds) if kind != kinds[at - 1]]
    call = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"]
    assert order[2:-1] == [
        *("output_item.added", "reasoning_text.delta", "reasoning_text.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done"),
        *("output_item.done", *call, *call),
    ]
    done = [event for event in answer.events if event["type"] == "response.output_item.done"]
    assert [event["item"] for event in done] == answer.items
    assert [event["output_index"] for event in done] == [0, 1, 2, 3]
    for event in done:
        deltas = [
            other["delta"]
            for other in answer.events
            if other["type"].endswith(".delta") and other["output_index"] == event["output_index"]
        ]
        item = event["item"]
        assert "".join(deltas) == (item["arguments"] if "arguments" in item else item["content"][0]["text"])
    assert all(event["response"]["usage"] is None for event in answer.events[:2])
    assert [event for event in answer.events if "timings" in event] == answer.events[-1:]


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_meets_its_limit_is_incomplete(engine, stream):
    answer = answered(engine, [message(ASKED)], stream=stream, max_output_tokens=3)
    assert (answer.body["status"], answer.body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert answer.body["usage"]["output_tokens"] == 3
    assert answer.read.finish_reason == "incomplete"
    if stream:
        assert answer.events[-1]["type"] == "response.incomplete"


def test_calls_that_may_run_at_the_same_time_become_one_that_keeps_their_order(engine, tmp_path):
    answer = answered(engine, [message(ASKED)], parallel_tool_calls=True)
    (call,) = (item for item in answer.items if item["type"] == "function_call")
    assert call["name"] == "bash"
    command = json.loads(call["arguments"])["command"]
    assert command.index("src/total.py") < command.index("python3 src/total.py")
    assert os.system(f"cd {tmp_path} && {{ {command}\n}} > out") == 0
    assert (tmp_path / "out").read_text() == "6\n"


def test_what_the_api_does_not_take(used_engine):
    response = ask(used_engine, [])
    assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
    assert used_engine.client.get("/v1/responses").status_code == 405


@pytest.fixture
def faulty(tmp_path):
    """Starts an engine whose reviewer has a fault."""
    engines = []

    def start(fault):
        folder = make_script(tmp_path)
        (folder / "script.yaml").write_text("about: x\nsessions:\n" + FAULTS.replace("FAULT", fault))
        engines.append(start_engine(tmp_path, folder))
        return engines[-1]

    yield start
    for engine in engines:
        engine.stop()


def test_an_error_in_the_stream(faulty):
    engine = faulty("error-event, after_tokens: 2, message: The backend failed, code: broken")
    events = events_of(ask(engine, [message(ASKED)], role="reviewer").text)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"] == {"code": "broken", "message": "The backend failed"}
    assert engine.truth()[0]["error"]["status"] == 200
    assert engine.truth()[0]["chunks"] == len(events)
    plain = ask(engine, [message(ASKED)], role="reviewer", stream=False)
    assert (plain.status_code, plain.json()["error"]["message"]) == (500, "The backend failed")


def test_a_cut(faulty):
    engine = faulty("cut, after_tokens: 2")
    events = events_of(ask(engine, [message(ASKED)], role="reviewer").text)
    assert events[-1]["type"] == "response.output_text.delta"
    assert engine.truth()[0]["aborted"]
    with pytest.raises(json.JSONDecodeError):
        ask(engine, [message(ASKED)], role="reviewer", stream=False).json()


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_without_usage(faulty, stream):
    answer = answered(faulty("no-usage"), [message(ASKED)], role="reviewer", stream=stream)
    assert (answer.body["status"], answer.body["usage"], answer.timings) == ("completed", None, None)
    assert answer.items[0]["content"][0]["text"] == "One two three four five."


def test_a_reset(faulty):
    engine = faulty("reset, after_tokens: 2")
    with pytest.raises(httpx.ReadError):
        ask(engine, [message(ASKED)], role="reviewer")
    assert engine.truth()[0]["output_tokens"] == 2


def test_a_stall_with_keep_alives(faulty):
    engine = faulty("keep-alive, after_tokens: 2")
    header = {"X-Runcard-Session": HEADER.format(role="reviewer", task="-", attempt=1, retry=0)}
    with engine.client.stream(
        "POST", "/v1/responses", json={"input": ASKED, "stream": True}, headers=header
    ) as response:
        lines = response.iter_lines()
        while not next(lines).startswith(": "):
            """Events."""
    while not engine.truth():
        time.sleep(0.005)
    assert (engine.truth()[0]["fault"], engine.truth()[0]["aborted"]) == ("keep-alive", True)
