"""What the relay's evidence says of the embedded engine's answers, against what that engine knows it did."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import httpx
import pytest

from bench.engine_profile import ResponseField
from bench.measure.exchange import read_exchanges, request_record
from bench.measure.relay import Relay
from bench.processes import free_port
from bench.spec import REPOSITORY


@pytest.fixture
def embedded(tmp_path):
    """A running embedded engine: its port and its truth log."""
    port, truth = free_port("127.0.0.1"), tmp_path / "truth.jsonl"
    script = REPOSITORY / "fixtures" / "scripts" / "csv-totals" / "sound"
    options = ["--script", script, "--port", port, "--ssd-dir", tmp_path / "ssd", "--truth", truth, "--name", "sound"]
    command = [sys.executable, "-m", "bench.engines.embedded", *map(str, options)]
    with (tmp_path / "engine.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=REPOSITORY)
    try:
        while not _ready(port):
            assert process.poll() is None, (tmp_path / "engine.log").read_text()
            time.sleep(0.02)
        yield port, truth
    finally:
        process.terminate()
        process.wait(20)


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    except httpx.ConnectError:
        return False


def test_every_count_time_and_instant(embedded, play, tmp_path, profile):
    port, truth = embedded
    units = {"ttft_seconds": "ttft_ms", "prefill_seconds": "prompt_ms", "decode_seconds": "predicted_ms"}
    fields = {
        **profile.response_fields,
        **{name: ResponseField(path=f"timings.{key}", unit="ms") for name, key in units.items()},
    }
    label = replace(play.label(), role="session", task=None)
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "word " * 400}]
    asked = {"model": "sound", "messages": messages, "stream_options": {"include_usage": True}}
    with Relay("127.0.0.1", port, api_key=None) as relay:
        address = relay.open_session(label, tmp_path)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(address.socket)), trust_env=False) as client:
            for stream in (True, True, False):
                client.post("http://engine/v1/chat/completions", json={**asked, "stream": stream}).raise_for_status()
        relay.close_session(label)
    known = {one["response_id"]: one for one in map(json.loads, truth.read_text().splitlines())}
    exchanges = read_exchanges(tmp_path / "exchanges.jsonl", warn=pytest.fail)
    told = replace(profile, simulated=True, response_fields=fields)
    records = [request_record(exchange, told) for exchange in exchanges]
    assert len(records) == len(known) == 3
    for record in records:
        done = known[record.response_id]
        assert record.reason is None
        for name in (
            "prompt_tokens",
            "cached_tokens",
            "output_tokens",
            "reasoning_tokens",
            "drafted_tokens",
            "accepted_tokens",
        ):
            assert getattr(record, name) == done[name], name
        for name in units:
            assert getattr(record, name) == pytest.approx(done[name], abs=1e-4), name
        assert record.first_byte_at >= done["first_token_at"] or record.streamed
        if record.streamed:
            # One machine, one monotonic clock: the relay sees a token after the engine made it, never before.
            assert done["first_token_at"] <= record.first_token_at <= record.last_token_at
    assert records[1].cached_tokens > 0
