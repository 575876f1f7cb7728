"""The model as a run uses it: an engine that is ready, the relay in front of it, counters and sampler beside it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.agents.adapters import Adapter
from bench.agents.agent import run_session
from bench.contracts import Box, ProgressSink, SessionLabel, SessionRequest, SessionResult
from bench.engines.attached import AttachedEngine, attach
from bench.engines.cache_state import CacheState, prove_cold
from bench.engines.engine import LaunchedEngine, launch
from bench.errors import EngineStartError
from bench.interrupts import Interrupts
from bench.measure.answer_text import last_answer_text
from bench.measure.counter_watch import CounterWatch
from bench.measure.memory import MemorySampler
from bench.measure.relay import Relay
from bench.records import provenance
from bench.records.snapshot import write_atomically
from bench.spec import RunSpec, Subject, engine_key

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
EXCHANGES_FILE = "exchanges.jsonl"
_PREFLIGHT_SECONDS = 120.0
_STALL_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class Served:
    """What sessions are served by."""

    engine: LaunchedEngine | AttachedEngine
    cache: CacheState
    """Of the engine's prefix cache, before anything was asked of it."""

    relay: Relay
    sampler: MemorySampler
    private: Path
    """Where untrusted files lie while the run goes on."""


@contextmanager
def served(
    spec: RunSpec, subject: Subject, *, folder: Path, private: Path, earlier_salt: str | None, progress: ProgressSink
) -> Iterator[Served]:
    """Launches or reaches the engine, proves its cache, puts relay, counters and sampler beside it.

    All of them are gone afterwards, whatever happens; an attached engine alone goes on.
    """
    number = 1 + len(list((folder / "engine").glob("launch-*")))
    key = engine_key(subject.engine)
    engine = _ready(spec, subject, folder / "engine" / f"launch-{number}", key, progress)
    try:
        write_atomically(folder / "engine" / "profile.json", json.dumps(asdict(engine.profile), indent=1).encode())
        cache = prove_cold(engine, segment=number, earlier_salt=earlier_salt, progress=progress)
        # An engine that hangs is found out before the session's own limit would charge it to the subject.
        limits = spec.workload.limits
        half = limits.session_seconds / 2
        with (
            MemorySampler(folder / "memory.jsonl", engine_pid=lambda: engine.pid) as sampler,
            CounterWatch(
                engine.host,
                engine.port,
                engine.profile,
                folder / "metrics.jsonl",
                engine_process=number,
                api_key=key,
            ) as watch,
            Relay(
                engine.host,
                engine.port,
                api_key=key,
                engine_process=number,
                stall_seconds=min(_STALL_SECONDS, half, limits.no_progress_seconds),
                one_piece_stall_seconds=half,
                on_begin=watch.began,
                on_end=watch.ended,
                sockets=private,
            ) as relay,
        ):
            yield Served(engine=engine, cache=cache, relay=relay, sampler=sampler, private=private)
    finally:
        engine.stop()


def _ready(
    spec: RunSpec, subject: Subject, place: Path, key: str | None, progress: ProgressSink
) -> LaunchedEngine | AttachedEngine:
    """An engine that is ready: launched by us, or reached where somebody else started it."""
    if subject.engine.url is None:
        return launch(subject.engine, workload_id=spec.workload.id, folder=place, progress=progress)
    place.mkdir(parents=True, exist_ok=True)
    return attach(
        subject.engine.url,
        profile_name=subject.engine.name,
        model=subject.engine.model,
        api_key=key,
        progress=progress,
    )


def serve_session(
    request: SessionRequest, by: Served, *, adapter: Adapter, box: Box, progress: ProgressSink, interrupts: Interrupts
) -> SessionResult:
    """One agent process with a relay address of its own, which is gone when it ends."""
    by.sampler.boundary()
    address = by.relay.open_session(request.label, request.evidence)
    try:
        return run_session(
            request,
            adapter=adapter,
            box=box,
            relay=address,
            home=by.private / "agent",
            exchanges=lambda: by.relay.exchanges(request.label),
            progress_of=lambda: by.relay.progress(request.label),
            last_answer=lambda told: last_answer_text(request.evidence / EXCHANGES_FILE, told),
            engine_dead=by.engine.dead,
            profile=by.engine.profile,
            progress=progress,
            stop_requested=interrupts.asked,
        )
    finally:
        by.relay.close_session(request.label)
        by.sampler.boundary()


def preflight(by: Served, *, run_id: str, sessions: Path) -> str:
    """One small question through the relay; its traffic is session 0 and stays out of every figure.

    Raises EngineStartError where the engine does not answer it.
    """
    place = sessions / "000"
    place.mkdir(parents=True, exist_ok=True)
    label = SessionLabel(run_id=run_id, session=0, role="preflight", task=None, attempt=1, retry=0)
    question = {"model": by.engine.model, "max_tokens": 1, "messages": [{"role": "user", "content": "Say OK."}]}
    by.sampler.boundary()
    address = by.relay.open_session(label, place)
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=_PREFLIGHT_SECONDS)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(question), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read(2_000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise EngineStartError(
            f"the engine is ready but does not answer ({error}); its log: {by.engine.log}"
        ) from error
    finally:
        connection.close()
        by.relay.close_session(label)
    if answer.status != 200:
        raise EngineStartError(
            f"the engine is ready but answers a first small question with HTTP {answer.status}: {said[:300]}; "
            f"its log: {by.engine.log}"
        )
    window = by.engine.context_window
    return f"the engine answers; context window {f'{window:,} tokens' if window else 'not reported'}"


def configuration(by: Served, *, adapter: Adapter, box: Box) -> dict[str, Any]:
    """What was granted in this segment, for the journal and the record: equal in two segments unless it changed."""
    engine = by.engine
    return {
        "engine": {
            "name": engine.profile.name,
            "version": engine.version,
            "simulated": engine.profile.simulated,
            "argv": [_lasting(argument, engine) for argument in engine.argv],
            "binary_sha256": engine.binary_sha256,
            "model": engine.model,
            "model_sha256": engine.model_sha256,
            "owned": engine.owned,
            "on_this_machine": engine.host in _LOOPBACK,
            "context_window": engine.context_window,
            "granted": dict(engine.granted),
            "not_known": dict(engine.not_known),
        },
        "agent": {"name": adapter.name, "version": adapter.version, **adapter.configuration},
        "box": {"name": box.name, "isolation": box.isolation},
        "harness": provenance.harness(),
        "host": provenance.host(),
    }


def _lasting(argument: str, engine: LaunchedEngine | AttachedEngine) -> str:
    """An argument without what every launch has anew: its port and its folder."""
    if argument == str(engine.port):
        return "{port}"
    return argument if engine.log is None else argument.replace(str(engine.log.parent), "{folder}")
