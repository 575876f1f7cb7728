"""One session of a real agent in the real box, its model calls through the real relay, as a run does it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from bench.agents.adapters import Adapter, AgentEvents, open_adapter
from bench.contracts import Box, SessionRequest, SessionResult
from bench.engine_profile import EngineProfile
from bench.interrupts import Interrupts
from bench.measure.relay import Relay
from bench.processes import free_port
from bench.sandbox.box import open_box
from bench.served import EXCHANGES_FILE, Served, serve_session
from bench.spec import REPOSITORY, AgentSpec
from tests.whole.running import wait_for


@cache
def the_box() -> Box:
    """Proved once a test session."""
    return open_box(unsafe=False)


@dataclass(frozen=True)
class Boxed:
    """How a session ended and what it left."""

    result: SessionResult
    events: AgentEvents
    evidence: Path
    exchanges: list[dict]
    """As the relay kept them."""

    @property
    def ended(self) -> tuple[str, str | None]:
        return self.result.outcome, self.result.kind

    @property
    def claims(self) -> list[tuple[int | None, int | None, int | None]]:
        """Fresh, cached and output tokens of each response, as the agent says."""
        return [(one.input_tokens, one.cached_tokens, one.output_tokens) for one in self.events.usage]


def run_boxed(
    request: SessionRequest,
    *,
    port: int,
    profile: EngineProfile,
    private: Path,
    adapter: Adapter | None = None,
    box: Box | None = None,
) -> Boxed:
    """Runs one session of an agent (Pi unless told otherwise) against an engine that answers at a port."""
    adapter = adapter or open_adapter(AgentSpec(name="pi"))
    private.mkdir(exist_ok=True)
    with Relay("127.0.0.1", port, api_key=None, sockets=private) as relay:
        engine = SimpleNamespace(dead=lambda: None, profile=profile, model=request.model)
        by = Served(engine=engine, cache=None, relay=relay, sampler=SimpleNamespace(boundary=int), private=private)
        result = serve_session(
            request, by, adapter=adapter, box=box or the_box(), progress=lambda _: None, interrupts=Interrupts()
        )
    kept = request.evidence / EXCHANGES_FILE
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    events = adapter.read_events(request.evidence, request.label.session)
    return Boxed(result, events, request.evidence, [json.loads(line) for line in lines])


@contextlib.contextmanager
def embedded_engine(folder: Path, script: str, *arguments: str) -> Iterator[tuple[int, Path]]:
    """The embedded engine with a script of one's own: its port, and the file of what it really did."""
    folder.mkdir()
    (folder / "script.yaml").write_text(script, encoding="utf-8")
    port, truth = free_port("127.0.0.1"), folder / "truth.jsonl"
    argv = [sys.executable, "-m", "bench.engines.embedded", "--port", str(port), "--script", str(folder)]
    with (folder / "log").open("wb") as log:
        engine = subprocess.Popen([*argv, "--truth", str(truth), *arguments], cwd=REPOSITORY, stdout=log, stderr=log)
    try:
        wait_for(lambda: b"ready" in (folder / "log").read_bytes(), 30, "the engine")
        yield port, truth
    finally:
        engine.terminate()
        engine.wait(20)
