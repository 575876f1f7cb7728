"""What a record says of the embedded engine's requests, against what that engine knows it did, for every source.

One engine, one relay, one watch; requests of every shape, one at a time and several at once. From the same evidence
three records are made: from the responses' own timings, from counters only, from log summaries only.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from bench.contracts import RelayAddress, SessionLabel
from bench.engine_profile import EngineProfile
from bench.engines.profile import read_profile
from bench.measure.attribution import attribute, attribute_summaries
from bench.measure.counter_watch import CounterWatch
from bench.measure.exchange import iterate_exchanges, request_record
from bench.measure.log_summaries import read_summaries
from bench.measure.matching import match_summaries
from bench.measure.relay import Relay
from bench.measure.scrape_lines import iterate_scrapes
from bench.processes import free_port
from bench.records.schema import RequestRecord
from bench.spec import REPOSITORY

COUNTS = ("prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
TIMINGS = ("ttft_seconds", "prefill_seconds", "decode_seconds", "queue_seconds")
DRAFTS = ("drafted_tokens", "accepted_tokens")
LONG_LINES = 300
SCRIPT = """\
about: Sessions that the tests play.
sessions:
  - role: builder
    task: T001
    turns:
      - think: "First I write the file, then I run it to see that the total comes out as the card demands."
        say: "Writing it now."
        do:
          - write: total.py
            from: files/long.txt
      - think: "It runs."
        do:
          - run: "python3 total.py"
          - read: total.py
      - say: "Both checks pass now."
  - role: builder
    task: T002
    free_bytes: 1000
    turns:
      - say: "This is never said while memory is short."
"""


def _tool(name: str, *properties: str) -> dict:
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in properties}}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


TOOLS = [_tool("read", "path"), _tool("write", "path", "content"), _tool("bash", "command")]


@dataclass
class Engine:
    port: int
    truth_file: Path
    log: Path

    def truth(self) -> dict[str, dict]:
        return {one["response_id"]: one for one in map(json.loads, self.truth_file.read_text().splitlines())}


@contextlib.contextmanager
def embedded(folder: Path, *options: str) -> Iterator[Engine]:
    (folder / "script" / "files").mkdir(parents=True)
    (folder / "script" / "script.yaml").write_text(SCRIPT)
    (folder / "script" / "files" / "long.txt").write_text(
        "".join(f"line {n} of a long file\n" for n in range(LONG_LINES))
    )
    engine = Engine(free_port("127.0.0.1"), folder / "truth.jsonl", folder / "engine.log")
    words = ["--script", folder / "script", "--port", engine.port, "--truth", engine.truth_file, *options]
    with engine.log.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.engines.embedded", *map(str, words)], stdout=log, stderr=log, cwd=REPOSITORY
        )
    try:
        while not _ready(engine.port):
            assert process.poll() is None, engine.log.read_text()
            time.sleep(0.02)
        yield engine
    finally:
        process.terminate()
        process.wait(20)


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    except httpx.ConnectError:
        return False


# --- clients ---


@dataclass
class Client:
    """One agent's traffic: a conversation with tools, and calls that fail in every way."""

    label: SessionLabel
    address: RelayAddress
    pause: object
    """Called before each request."""

    asked: int = 0
    messages: list[dict] = field(default_factory=list)

    def run(self) -> None:
        words = "word " * (40 if self.label.session % 2 else 90)
        self.messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": words}]
        self.ask(stream=True)
        self.ask(stream=True, max_tokens=7)
        self.ask(stream=False)
        self.abort()
        self.ask(stream=True, usage=False)
        self.refused(b'{"messages": 5}')
        self.messages += [{"role": "assistant", "content": "I write it."}, {"role": "user", "content": words}]
        self.ask(stream=False, max_tokens=1)
        self.ask(stream=True)
        self.refused(self.body(stream=True, messages=[{"role": "user", "content": "word " * 20_000}]))
        self.messages += [{"role": "assistant", "content": "I ran it."}, {"role": "user", "content": "go on"}]
        self.ask(stream=True, tools=None)
        self.ask(stream=False, tools=None)

    def body(self, *, stream: bool, usage: bool = True, **more: object) -> bytes:
        asked = {"model": "any", "messages": self.messages, "tools": TOOLS, "stream": stream, **more}
        if stream and usage:
            asked["stream_options"] = {"include_usage": True}
        return json.dumps({key: value for key, value in asked.items() if value is not None}).encode()

    def ask(self, *, stream: bool, usage: bool = True, **more: object) -> None:
        self.post(self.body(stream=stream, usage=usage, **more)).raise_for_status()

    def refused(self, body: bytes) -> None:
        assert self.post(body).status_code >= 400

    def post(self, body: bytes) -> httpx.Response:
        self.pause(self)
        self.asked += 1
        transport = httpx.HTTPTransport(uds=str(self.address.socket))
        with httpx.Client(transport=transport, trust_env=False, timeout=60) as client:
            return client.post("http://engine/v1/chat/completions", content=body)

    def abort(self) -> None:
        self.pause(self)
        self.asked += 1
        body = self.body(stream=True)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(self.address.socket))
            connection.sendall(head.encode() + body)
            assert connection.recv(64)


@dataclass(frozen=True, kw_only=True)
class Told:
    """The three records of one and the same traffic, and the truth by response id."""

    response: tuple[RequestRecord, ...]
    counters: tuple[RequestRecord, ...]
    log: tuple[RequestRecord, ...]
    truth: dict[str, dict]


def traffic(folder: Path, *, sessions: int, at_once: int, rests: bool) -> Told:
    """`rests`: each request waits until the page was read after the one before, as an agent that works between does."""
    profile = replace(read_profile("embedded").contract("embedded"))
    page = folder / "metrics.jsonl"
    clients: list[Client] = []
    with embedded(
        folder,
        "--parallel",
        str(at_once),
        "--time-scale",
        "0.002",
        "--context-window",
        "16000",
        "--ssd-dir",
        folder / "ssd",
    ) as engine:
        with (
            CounterWatch("127.0.0.1", engine.port, profile, page, engine_process=1) as watch,
            Relay("127.0.0.1", engine.port, api_key=None, on_begin=watch.began, on_end=watch.ended) as relay,
        ):

            def pause(client: Client) -> None:
                if rests:
                    done = 1 + sum(one.asked for one in clients)
                    while len(page.read_bytes().splitlines()) < done:
                        time.sleep(0.002)

            for number in range(1, sessions + 1):
                label = SessionLabel(run_id="run", session=number, role="builder", task="T001", attempt=1, retry=0)
                (folder / f"{number:03d}").mkdir()
                clients.append(Client(label, relay.open_session(label, folder / f"{number:03d}"), pause))
            gate = threading.BoundedSemaphore(at_once)
            threads = [threading.Thread(target=_run, args=(client, gate)) for client in clients]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for client in clients:
                assert len(relay.close_session(client.label)) == client.asked == 11
        return told(folder, engine, profile, page)


def _run(client: Client, gate: threading.BoundedSemaphore) -> None:
    with gate:
        client.run()


def told(folder: Path, engine: Engine, profile: EngineProfile, page: Path) -> Told:
    assert profile.metrics is not None
    assert profile.log_summary is not None
    exchanges = [
        one
        for place in sorted(folder.glob("[0-9][0-9][0-9]"))
        for one in iterate_exchanges(place / "exchanges.jsonl", warn=pytest.fail)
    ]
    silent = replace(profile, response_fields={}, metrics=None, log_summary=None)
    bare = tuple(request_record(one, silent) for one in exchanges)
    scrapes = tuple(iterate_scrapes(page, profile.metrics, warn=pytest.fail))
    summaries = read_summaries(engine.log, profile.log_summary, warn=pytest.fail)
    return Told(
        response=tuple(request_record(one, profile) for one in exchanges),
        counters=attribute(bare, scrapes, replace(silent, metrics=profile.metrics)),
        log=attribute_summaries(bare, match_summaries(bare, summaries).summaries, silent),
        truth=engine.truth(),
    )


# --- what must hold ---


def assert_right(records: tuple[RequestRecord, ...], truth: dict[str, dict], source: str) -> tuple[int, int]:
    """Every value is the true one or None with a reason; gives how many requests were answered whole, and how many timed."""
    whole = timed = 0
    for record in records:
        if record.error is not None:
            assert [getattr(record, name) for name in (*TIMINGS, *DRAFTS)] == [None] * 6
            assert record.source is None
            continue
        whole += 1
        done = truth[record.response_id]
        for name in (*COUNTS, *TIMINGS, *DRAFTS):
            value = getattr(record, name)
            if value is None:
                assert record.reason, name
            elif name in TIMINGS:
                assert value == pytest.approx(done[name], abs=1e-6), name
            else:
                assert value == done[name], name
        assert record.source in (source, None)
        assert (record.source is None) == (record.decode_seconds is None)
        timed += record.source is not None
    return whole, timed


@pytest.mark.parametrize(
    ("sessions", "at_once", "rests"),
    [
        pytest.param(2, 1, True, id="one at a time"),
        pytest.param(2, 1, False, id="one at a time without a rest"),
        pytest.param(3, 2, False, id="two at once"),
        pytest.param(9, 8, False, id="eight at once"),
    ],
)
def test_every_source_is_right_or_silent(tmp_path, sessions, at_once, rests):
    made = traffic(tmp_path, sessions=sessions, at_once=at_once, rests=rests)
    assert len(made.response) == 11 * sessions
    whole, timed = assert_right(made.response, made.truth, "engine-response")
    assert timed == whole >= 8 * sessions
    for record in made.response:
        if record.error is None and record.prompt_tokens is not None:
            done = made.truth[record.response_id]
            assert [getattr(record, name) for name in COUNTS] == [done[name] for name in COUNTS]
            assert record.reason is None
    of_counters = assert_right(made.counters, made.truth, "engine-counter")
    of_log = assert_right(made.log, made.truth, "engine-log")
    with_usage = sum(record.error is None and record.prompt_tokens is not None for record in made.response)
    assert of_log == (whole, whole)
    if rests:
        assert of_counters == (whole, with_usage)
        assert [one.reason for one in made.counters if one.source is not None] == [None] * with_usage
    print(
        f"\n{at_once} at once: {whole} whole, timed from response {timed}, counters {of_counters[1]}, log {of_log[1]}"
    )


def test_the_relays_own_time_to_the_first_token_is_close_to_the_truth(tmp_path):
    """The engine waits in real time here; the error is printed, not judged: it depends on the machine."""
    label = SessionLabel(run_id="run", session=1, role="builder", task="T001", attempt=1, retry=0)
    with embedded(tmp_path, "--time-scale", "1") as engine:
        with Relay("127.0.0.1", engine.port, api_key=None) as relay:
            client = Client(label, relay.open_session(label, tmp_path), lambda _: None)
            for words in (100, 300, 600, 601):
                client.messages = [{"role": "user", "content": "word " * words}]
                client.ask(stream=True, max_tokens=4)
            relay.close_session(label)
        exchanges = iterate_exchanges(tmp_path / "exchanges.jsonl", warn=pytest.fail)
        records = [request_record(one, read_profile("embedded").contract("embedded")) for one in exchanges]
        truth = engine.truth()
    errors = []
    for record in records:
        done = truth[record.response_id]
        assert record.first_token_at >= done["first_token_at"]
        real = done["first_token_at"] - done["received_at"]
        assert real >= done["ttft_seconds"]
        errors.append(1e3 * (record.first_token_at - record.sent_at - done["ttft_seconds"]))
    print(f"\nrelay's TTFT minus the modelled one: {', '.join(f'{error:.2f}' for error in errors)} ms")
