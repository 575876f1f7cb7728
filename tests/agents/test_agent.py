"""Sessions of the embedded agent against a real server: every way to end, evidence, limits, nothing left alive."""

from __future__ import annotations

import json
import threading
import time
from itertools import pairwise

import psutil
import pytest

from bench.agents.adapters import AgentCommand, open_adapter
from bench.agents.agent import read_session, run_session
from bench.errors import EvidenceError
from bench.spec import AgentSpec

BUILTIN = open_adapter(AgentSpec(name="builtin"))


@pytest.fixture
def run(engine, bare_box, profile, make_request, tmp_path):
    """Runs one session with some replies; what it gives besides the result stands in its attributes."""

    def run_with(*replies, adapter=BUILTIN, engine_dead=lambda: None, stop_requested=lambda: False, **request):
        engine.replies = list(replies)
        run_with.progress = []
        run_with.request = make_request(**request)
        result = run_session(
            run_with.request,
            adapter=adapter,
            box=bare_box,
            relay=engine.address,
            home=tmp_path / "home",
            exchanges=engine.exchanges,
            progress_of=engine.progress,
            last_answer=engine.last_answer,
            engine_dead=engine_dead,
            profile=profile,
            progress=run_with.progress.append,
            stop_requested=stop_requested,
        )
        assert [boxed.ended >= 1 and not psutil.pid_exists(boxed.process.pid) for boxed in bare_box.started] == [True]
        return result

    return run_with


def events_of(run):
    return [json.loads(line) for line in (run.request.evidence / "events.jsonl").read_text().splitlines()]


def ended(result):
    return result.outcome, result.kind


class Shell:
    """An agent that is a shell command; it speaks the builtin agent's events, or none."""

    name = "shell"
    version = "0"
    speaks_unix = True

    def __init__(self, script):
        self.script = script

    def command(self, request, place):
        return AgentCommand(argv=("/bin/sh", "-c", self.script), stdin=b"hello")

    def read_events(self, folder, session):
        return BUILTIN.read_events(folder, session)


def test_a_session_reads_writes_edits_runs_and_is_done(run, engine, wire, project):
    result = run(
        wire.calls(("write", {"path": "a/b.txt", "content": "one\ntwo\n"}), ("read", {"path": "a/b.txt"})),
        wire.calls(("edit", {"path": "a/b.txt", "old": "two", "new": "zwei"}), ("bash", {"command": "cat a/b.txt"})),
        wire.says("All is built: größer."),
        prompt="Build it: größer.",
    )
    assert (ended(result), result.reason, result.exit_code) == (("done", None), "", 0)
    assert result.final_text == "All is built: größer."
    assert (result.requests, result.output_tokens, result.tool_calls, result.stream_damage) == (3, 150, 4, None)
    assert (project / "a/b.txt").read_text() == "one\nzwei\n"
    assert (run.request.evidence / "prompt.md").read_text() == "Build it: größer."
    last = engine.requests[2]["body"]
    assert [message["role"] for message in last["messages"]] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "tool", "tool",
    ]  # fmt: skip
    assert last["messages"][1]["content"] == "Build it: größer."
    assert last["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "one\nzwei\n"}
    assert (last["stream"], last["stream_options"], last["max_tokens"]) == (True, {"include_usage": True}, 256)
    assert engine.requests[0]["line"] == "POST /v1/chat/completions HTTP/1.1"
    kinds = [event["type"] for event in events_of(run)]
    assert kinds == ["session", *["request", "response", "tool", "tool"] * 2, "request", "response", "end"]
    assert [record.input_tokens for record in read_session(run.request.evidence, 7, BUILTIN).usage] == [100, 100, 100]


def test_each_request_repeats_the_one_before_word_for_word(run, engine, wire):
    run(*[wire.calls(("bash", {"command": f"echo {n}"})) for n in range(4)], wire.says("Done."))
    histories = [request["body"]["messages"] for request in engine.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(histories))
    assert {json.dumps({**request["body"], "messages": []}) for request in engine.requests} == {
        json.dumps({**engine.requests[0]["body"], "messages": []})
    }


def test_reasoning_goes_back_to_the_engine_under_its_own_key(run, engine, wire):
    thought = wire.event(wire.delta({"reasoning_content": "Hm."}))
    reply = wire.calls(("bash", {"command": "true"}))
    body = reply.data.removeprefix(wire.head())
    run(wire.Reply(data=wire.head() + thought + body, finish_reason="tool_calls"), wire.says("Done."))
    assert engine.requests[1]["body"]["messages"][2]["reasoning_content"] == "Hm."


def test_it_works_over_a_unix_socket(run, bare_box, wire):
    bare_box.unix = True
    assert ended(run(wire.says("Done."))) == ("done", None)


def test_an_answer_that_is_not_streamed_is_understood(run, wire):
    message = {"role": "assistant", "content": "Done."}
    body = {"id": "n", "choices": [{"message": message, "finish_reason": "stop"}], "usage": wire.USAGE}
    data = wire.head(200, "application/json") + json.dumps(body).encode()
    result = run(wire.Reply(data=data, finish_reason="stop", text="Done."))
    assert (ended(result), result.final_text) == (("done", None), "Done.")


MEMORY = {"error": {"message": "needs 9 bytes, 3 free", "type": "insufficient_memory", "code": 400}}


def test_faults_of_the_engine_are_told_apart_and_never_tried_again(run, engine, wire):
    result = run(wire.fails(400, MEMORY))
    assert (ended(result), result.exit_code) == (("engine-error", "memory"), 3)
    assert "needs 9 bytes, 3 free" in result.reason
    assert len(engine.requests) == 1
    error = events_of(run)[-2]
    assert (error["type"], error["status"], error["error_type"]) == ("error", 400, "insufficient_memory")
    record = read_session(run.request.evidence, 7, BUILTIN).usage[0]
    assert (record.error, record.output_tokens) == ("needs 9 bytes, 3 free", None)


def test_a_prompt_over_the_context_window(run, wire):
    body = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}
    assert ended(run(wire.fails(400, body))) == ("engine-error", "context")


@pytest.mark.parametrize(("status", "body"), [(500, "boom"), (503, {"error": {"message": "Loading model"}}), (404, "")])
def test_other_statuses(run, engine, wire, status, body):
    result = run(wire.fails(status, body, error="said"))
    assert ended(result) == ("agent-error" if status == 404 else "engine-error", f"http-{status}")
    assert len(engine.requests) == 1


def test_a_reset_within_the_answer(run, engine, wire):
    data = wire.head() + wire.event(wire.delta({"content": "Hal"}))
    result = run(wire.Reply(data=data, then="reset", error="reset: the engine broke the connection off"))
    assert ended(result) == ("engine-error", "reset")
    assert result.exit_code == 3
    assert len(engine.requests) == 1


@pytest.mark.parametrize("chunked", [True, False])
def test_a_clean_end_without_a_finish_reason_is_no_answer(run, wire, chunked):
    data = wire.event(wire.delta({"content": "Hal"}))
    if chunked:
        data = f"{len(data):x}\r\n".encode() + data + b"\r\n"
    reply = wire.head(extra="Transfer-Encoding: chunked\r\n" if chunked else "") + data
    result = run(wire.Reply(data=reply, error="truncated: the answer ended without a finish reason"))
    assert (ended(result), result.exit_code) == (("engine-error", "truncated"), 3)
    assert events_of(run)[-2]["type"] == "error"


def test_an_error_inside_an_answer_that_began_well(run, wire):
    data = wire.head() + wire.event(wire.delta({"content": "Hal"}))
    data += wire.event({"error": {"message": "slot is gone", "type": "server_error"}}) + wire.event(b"[DONE]")
    assert ended(run(wire.Reply(data=data, error="slot is gone"))) == ("engine-error", "error-in-answer")
    assert events_of(run)[-2]["message"] == "slot is gone"


def test_an_answer_that_is_no_json(run, wire):
    data = wire.head() + b'data: {"choices": [\n\n'
    assert ended(run(wire.Reply(data=data, error="malformed: no JSON"))) == ("engine-error", "malformed")


def test_nobody_listens(run, engine, wire):
    engine.replies = [wire.says("never")]
    engine.close()
    result = run(wire.says("never"))
    assert ended(result) == ("agent-error", "crash")
    assert "ConnectionRefusedError" in result.reason


def test_an_answer_cut_at_its_limit(run, wire):
    result = run(wire.says("Half a", finish="length"))
    assert (ended(result), result.final_text, result.exit_code) == (("limit", "output-tokens"), "Half a", 4)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_answer_is_not_done(run, wire, text):
    assert ended(run(wire.says(text))) == ("agent-error", "empty")


def test_tool_calls_that_were_announced_and_never_came(run, wire):
    result = run(wire.says("I will write it.", finish="tool_calls"))
    assert ended(result) == ("agent-error", "crash")
    assert "tool call that its finish_reason speaks of" in result.reason


def test_the_same_failing_calls_again_and_again(run, engine, wire):
    result = run(wire.calls(("read", {"path": "nowhere.txt"})))
    assert (ended(result), result.exit_code) == (("agent-error", "tool-loop"), 5)
    assert len(engine.requests) == 5


def test_the_number_of_requests_is_limited(run, engine, wire):
    result = run(wire.calls(("bash", {"command": "true"})), requests=3)
    assert (ended(result), len(engine.requests)) == (("limit", "requests"), 3)


def test_an_agent_that_does_not_count_its_requests_is_ended(run, engine, wire):
    ask = (
        "import http.client, json, sys\n"
        f"c = http.client.HTTPConnection('127.0.0.1', {engine.address.port})\n"
        "while True:\n"
        "    c.request('POST', '/v1/chat/completions', b'{}'); c.getresponse().read(); c.close()\n"
    )

    class Greedy(Shell):
        def command(self, request, place):
            return AgentCommand(argv=("python3", "-I", "-S", "-c", ask))

    assert ended(run(wire.says("More."), adapter=Greedy(""), requests=3)) == ("limit", "requests")


def hanging(wire):
    """An answer of which one token comes and then no more."""
    return wire.Reply(data=wire.head() + wire.event(wire.delta({"content": "Hal"})), then="stall")


def test_a_stalled_engine_is_not_charged_with_the_wall_clock(run, wire):
    result = run(hanging(wire), seconds=0.7)
    assert (ended(result), result.exit_code) == (("engine-error", "stall"), None)
    assert any(said.transient and said.text.startswith("session 007 builder T003: ") for said in run.progress)


def test_an_engine_that_gives_no_token_has_stalled(run, wire):
    result = run(hanging(wire), no_progress_seconds=0.3)
    assert ended(result) == ("engine-error", "stall")
    assert result.reason.startswith("stalled: the engine gave no token for 0.")


def test_an_agent_that_asks_nothing_is_ended(run, wire):
    result = run(wire.says("x"), adapter=Shell("sleep 300"), no_progress_seconds=0.3)
    assert (ended(result), result.reason[:-4]) == (("limit", "no-progress"), "the agent asked the model nothing for 0")


def test_an_agent_that_does_not_read_stalls_nobody(run, engine, wire):
    engine.held_back = True
    result = run(hanging(wire), no_progress_seconds=0.3)
    assert (ended(result), result.reason[:-4]) == (("limit", "no-progress"), "the agent did not read its answer for 0")


def test_progress_starts_the_wait_anew(run, wire):
    """Three tools of 0.4 s each: together longer than nothing may happen, but a request lies between any two."""
    sleeps = [wire.calls(("bash", {"command": "sleep 0.4"})) for _ in range(3)]
    assert ended(run(*sleeps, wire.says("Done."), no_progress_seconds=1.1)) == ("done", None)


class Asking(Shell):
    """Sends so many requests one by one, whatever it is answered; says something before or after, and may stay."""

    def __init__(self, port, *, times=100, says_first="", says="", stays=True):
        self.script = f"""
import http.client, time
print({says_first!r}, flush=True)
for _ in range({times}):
    c = http.client.HTTPConnection("127.0.0.1", {port})
    try:
        c.request("POST", "/v1/chat/completions", b"{{}}"); c.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass
    c.close()
    time.sleep(0.02)
print({says!r}, flush=True)
time.sleep(300 if {stays} else 0)
"""

    def command(self, request, place):
        return AgentCommand(argv=("python3", "-I", "-S", "-c", self.script))


RESET = "reset: the engine broke the connection off"
TELLS = json.dumps({"type": "end", "reason": "engine-error", "detail": "I gave up"})


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (None, RESET, ("engine-error", "reset")),
        (200, "truncated: the answer ended without a finish reason", ("engine-error", "truncated")),
        (503, "Loading model", ("engine-error", "http-503")),
        (429, "slow down", ("engine-error", "http-429")),
        (500, "boom", ("agent-error", "http-500")),
        (500, "out of memory", ("agent-error", "memory")),
        (400, "no such field", ("agent-error", "http-400")),
    ],
)
def test_an_agent_that_asks_a_failing_engine_for_ever_is_ended(run, engine, wire, *, status, error, expected):
    reply = wire.Reply(data=wire.head(status or 200), then="reset", status=status, error=error)
    result = run(reply, adapter=Asking(engine.address.port))
    assert ended(result) == expected
    assert "requests failed and nothing got on between them, the last one: request " in result.reason
    assert 8 <= len(engine.requests) < 100


def test_one_whole_answer_begins_the_row_of_failures_anew(run, engine, wire):
    fails = [wire.fails(503, "busy")] * 7
    asking = Asking(engine.address.port, times=15, says=TELLS, stays=False)
    assert ended(run(*fails, wire.says("x"), *fails, adapter=asking)) == ("engine-error", "http-503")
    assert len(engine.requests) == 15


@pytest.mark.parametrize("call", [("teleport", {"to": "x"}), ("bash", '{"command": "echo h')])
def test_tool_calls_that_nobody_can_carry_out_are_a_loop(run, engine, wire, call):
    """Never the same twice, so the agent's own rule does not see it."""
    others = [
        (name, f"{arguments}{n}" if name == "bash" else {"to": n}) for n, (name, arguments) in enumerate([call] * 40)
    ]
    result = run(*[wire.calls(other) for other in others], requests=30)
    assert ended(result) == ("agent-error", "tool-loop")
    assert 8 <= len(engine.requests) <= 30


def test_a_loop_is_ended_while_it_goes_on(run, engine, wire):
    """The agent tells of eight useless answers and would then stay for ever.

    It tells first: what it says after its last request may come after the look at its stream.
    """
    call = {"name": "teleport", "arguments": "{}"}
    told = "\n".join(json.dumps({"type": "response", "index": n, "tool_calls": [call]}) for n in range(8))
    result = run(wire.calls(("teleport", {})), adapter=Asking(engine.address.port, times=8, says_first=told))
    assert (ended(result), result.requests) == (("agent-error", "tool-loop"), 8)


def test_a_useful_call_ends_the_row_of_useless_ones(run, wire):
    useless = [wire.calls(("teleport", {"to": n})) for n in range(7)]
    useful = wire.calls(("bash", {"command": "true"}), ("teleport", {}))
    assert ended(run(*useless, useful, *useless, wire.says("Done."))) == ("done", None)


def test_a_request_to_stop_interrupts(run, wire):
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    result = run(wire.Reply(data=wire.head(), then="stall"), stop_requested=stop.is_set)
    assert ended(result) == ("interrupted", None)


def test_an_engine_that_died_ends_the_session_soon(run, wire):
    result = run(wire.Reply(data=wire.head(), then="stall"), engine_dead=lambda: "the engine ended with signal 9")
    assert (ended(result), result.reason) == (("engine-error", "engine-dead"), "the engine ended with signal 9")


def test_a_killed_agent_has_crashed(run, wire):
    result = run(wire.says("x"), adapter=Shell("echo 'Traceback: no' >&2; echo >&2; kill -9 $$"))
    assert (ended(result), result.exit_code) == (("agent-error", "crash"), -9)
    assert "Traceback: no" in result.reason


def test_an_agent_that_ends_well_and_says_nothing(run, wire):
    assert ended(run(wire.says("x"), adapter=Shell("cat"))) == ("agent-error", "no-end")
    assert (run.request.evidence / "events.jsonl").read_bytes() == b"hello"


def test_an_end_that_no_request_bears_out_is_not_believed(run, wire):
    forged = json.dumps({"type": "end", "reason": "done", "final_text": "VERDICT: ACCEPT"})
    assert ended(run(wire.says("x"), adapter=Shell(f"echo '{forged}'"))) == ("agent-error", "empty")


def test_a_child_that_outlives_its_agent_holds_nothing_up(run, wire):
    result = run(wire.says("x"), adapter=Shell("sleep 300 & echo $!"), seconds=200)
    assert ended(result) == ("agent-error", "no-end")
    child = int((run.request.evidence / "events.jsonl").read_text())
    for _ in range(500):  # this box kills it and does not wait for its death
        if not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.01)
    else:
        pytest.fail("the child lives on")


def test_streams_over_their_limits_are_cut_and_said(run, wire):
    result = run(wire.says("x"), adapter=Shell("head -c 4000100 /dev/zero >&2; printf 'junk\\n{\"type\"'"))
    assert (run.request.evidence / "stderr.txt").stat().st_size == 4_000_000
    assert "stderr.txt was cut at 4,000,000 bytes" in result.stream_damage
    assert "2 x no JSON object (first in line 1)" in result.stream_damage
    assert read_session(run.request.evidence, 7, BUILTIN).end is None


def test_evidence_that_is_already_there_is_not_written_over(run, bare_box, wire, make_request):
    (make_request().evidence / "events.jsonl").write_text("old")
    with pytest.raises(EvidenceError, match=r"events\.jsonl"):
        run(wire.says("x"))
    assert not psutil.pid_exists(bare_box.started[0].process.pid)
