"""Every way in which an engine or a model goes wrong, with real agents in the real box: what the session ends as.

One engine plays all rows: a row is a session of its script, chosen by the label's task. What only the relay and the
harness decide is seen with the agent that starts at once, and with a real one where what that does is part of it.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.agents.adapters import open_adapter
from bench.agents.session_outcome import UNUSABLE_IN_A_ROW
from bench.contracts import SessionLabel, SessionRequest
from bench.engines.engine import plan_launch, start
from bench.engines.profile import read_profile
from bench.interrupts import Interrupts
from bench.measure.relay import Relay
from bench.processes import free_port
from bench.sandbox.box import open_box
from bench.served import Served, serve_session
from bench.spec import REPOSITORY, AgentSpec
from tests.agents.npm_agents import require_agent
from tests.whole.running import bench, journal

pytestmark = pytest.mark.slow

AGENTS = ("builtin", "pi")
QUICK = ("builtin",)
DONE = {"say": "All is done."}
SAYS = "One two three four five six seven eight nine ten."
RUN = [{"run": "echo hi"}]


def fault(kind, **keys):
    return {"kind": kind, **keys}


def refused(status, message, **keys):
    return [{"fault": fault("refuse", status=status, message=message, **keys)}]


def broken(kind, after=3, **keys):
    return [{"say": SAYS, "fault": fault(kind, after_tokens=after, **keys)}]


@dataclass(frozen=True, kw_only=True)
class Row:
    turns: list
    ends: tuple
    requests: int = 1
    """Exactly so many: nobody asks again."""

    at_least: dict = field(default_factory=dict)
    """Agent -> how many instead, of one that is ended while it goes on."""

    limits: dict = field(default_factory=dict)
    agents: tuple = AGENTS


STALLS = {"no_progress_seconds": 40.0}
IN_CIRCLES = {"builtin": 5, "pi": UNUSABLE_IN_A_ROW}
"""The built-in agent gives up by itself."""

ROWS = {
    "400 out of memory": Row(
        turns=refused(400, "CUDA out of memory. Tried to allocate 9.00 GiB."), ends=("engine-error", "memory")
    ),
    "500 out of memory": Row(turns=refused(500, "CUDA out of memory."), ends=("engine-error", "memory"), agents=QUICK),
    "503 always": Row(turns=refused(503, "Loading model"), ends=("engine-error", "http-503")),
    "500 always": Row(turns=refused(500, "An assertion failed."), ends=("engine-error", "http-500"), agents=QUICK),
    "429 with Retry-After": Row(
        turns=refused(429, "Too many requests.", retry_after_seconds=2), ends=("engine-error", "http-429")
    ),
    "overflow as vLLM tells it": Row(
        turns=refused(400, "This model's maximum context length is 4096 tokens, the prompt has 5000."),
        ends=("engine-error", "context"),
    ),
    "overflow as llama.cpp tells it": Row(
        turns=refused(400, "the request exceeds the available context size", type="exceed_context_size_error"),
        ends=("engine-error", "context"),
        agents=QUICK,
    ),
    "a request that is called wrong": Row(turns=refused(400, "Unknown field."), ends=("agent-error", "http-400")),
    "reset before the headers": Row(turns=broken("reset", 0), ends=("engine-error", "reset"), agents=QUICK),
    "reset in mid-stream": Row(turns=broken("reset"), ends=("engine-error", "reset")),
    "clean end without a finish reason": Row(turns=broken("cut"), ends=("engine-error", "truncated")),
    "error inside the stream": Row(
        turns=broken("error-event", message="The slot is gone."), ends=("engine-error", "error-in-answer")
    ),
    "out of memory inside the stream": Row(
        turns=broken("error-event", message="CUDA out of memory."), ends=("engine-error", "memory"), agents=QUICK
    ),
    "finish reason length": Row(turns=broken("length"), ends=("limit", "output-tokens")),
    "stop without a word": Row(turns=[{"fault": fault("empty")}], ends=("agent-error", "empty")),
    "words, then a stop without a word": Row(
        turns=[{"say": "I look first.", "do": RUN}, {"fault": fault("empty")}],
        ends=("agent-error", "empty"),
        requests=2,
        agents=("builtin", "pi", "codex"),
    ),
    "cut arguments once": Row(turns=[{"do": RUN, "fault": fault("cut-call")}, DONE], ends=("done", None), requests=2),
    "cut arguments for ever": Row(
        turns=[{"say": f"Try {n}.", "do": RUN, "fault": fault("cut-call")} for n in range(40)],
        ends=("agent-error", "tool-loop"),
        at_least=IN_CIRCLES,
    ),
    "unknown tool once": Row(
        turns=[{"fault": fault("unknown-tool", name="teleport")}, DONE], ends=("done", None), requests=2
    ),
    "unknown tools for ever": Row(
        turns=[{"say": f"Try {n}.", "fault": fault("unknown-tool", name=f"teleport_{n}")} for n in range(40)],
        ends=("agent-error", "tool-loop"),
        at_least=IN_CIRCLES,
    ),
    "stall before the headers": Row(
        turns=broken("stall", 0), ends=("engine-error", "stall"), limits=STALLS, agents=QUICK
    ),
    "stall in mid-stream": Row(turns=broken("stall"), ends=("engine-error", "stall"), limits=STALLS),
    "comments and no token": Row(
        turns=broken("keep-alive"), ends=("engine-error", "stall"), limits=STALLS, agents=QUICK
    ),
    "a tool that hangs": Row(turns=[{"do": [{"run": "sleep 300"}]}], ends=("limit", "no-progress"), limits=STALLS),
    "usage is missing": Row(turns=[{"say": SAYS, "fault": fault("no-usage")}], ends=("done", None)),
    "the engine ends": Row(turns=[{"fault": fault("exit")}], ends=("engine-error", "engine-dead"), agents=QUICK),
    "the engine ends in mid-stream": Row(turns=broken("exit"), ends=("engine-error", "engine-dead")),
}


TOOL_WAITS = {"a tool that hangs": "on_end"}
"""Rows in which the time runs from the end of the first answer: the engine is not the one who is waited for."""


def script(folder: Path, rows: dict[str, Row]) -> Path:
    folder.mkdir()
    sessions = [{"role": "builder", "task": name, "turns": row.turns} for name, row in rows.items()]
    (folder / "script.yaml").write_text(json.dumps({"about": "The rows of the error matrix.", "sessions": sessions}))
    return folder


def launched(folder: Path, rows: dict[str, Row]):
    profile = read_profile("embedded")
    values = {"model": "matrix", "model_file": "", "script": str(script(folder, rows))}
    plan = plan_launch(profile, name="embedded", values=values, args=(), model_sha256=None, folder=folder / "engine")
    return start(plan, profile, progress=lambda _: None)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    running = launched(tmp_path_factory.mktemp("engine") / "script", ROWS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def box():
    return open_box(unsafe=False)


class QuickClock:
    """Runs a hundred times as fast once it was told to: an agent takes seconds only to start.

    However slow the machine is then, whoever is waited for from that moment on is silent for ever.
    """

    def __init__(self):
        self._from = None

    def __call__(self):
        now = time.monotonic()
        return now if self._from is None else self._from + 100 * (now - self._from)

    def run(self, *_):
        self._from = self._from or time.monotonic()


@pytest.fixture
def session(box, tmp_path):
    """Runs one session of an agent, labelled with a row's name, against an engine."""

    def run(engine, agent, name, **limits):
        if agent != "builtin":
            require_agent(agent)
        evidence, project, private = (tmp_path / folder for folder in ("evidence", "project", "private"))
        for folder in (evidence, project, private):
            folder.mkdir()
        request = SessionRequest(
            label=SessionLabel(run_id="r", session=1, role="builder", task=name, attempt=1, retry=0),
            prompt="Build it.",
            project=project,
            evidence=evidence,
            model="matrix",
            context_window=131_072,
            **{
                "output_tokens_per_request": 4096,
                "requests": 30,
                "output_tokens": 1_000_000,
                "seconds": 60.0,
                "no_progress_seconds": 60.0,
                **limits,
            },
        )
        clock = QuickClock()
        hook = {} if "no_progress_seconds" not in limits else {TOOL_WAITS.get(name, "on_begin"): clock.run}
        with Relay("127.0.0.1", engine.port, api_key=None, sockets=private, clock=clock, **hook) as relay:
            by = Served(engine=engine, cache=None, relay=relay, sampler=SimpleNamespace(boundary=int), private=private)
            return serve_session(
                request,
                by,
                adapter=open_adapter(AgentSpec(name=agent)),
                box=box,
                progress=lambda _: None,
                interrupts=Interrupts(),
            )

    return run


def rows(*, die):
    """Row and agent."""
    named = [name for name in ROWS if name.startswith("the engine ends") is die]
    return pytest.mark.parametrize(("name", "agent"), [(name, agent) for name in named for agent in ROWS[name].agents])


@rows(die=False)
def test_how_a_session_ends(session, engine, name, agent):
    row = ROWS[name]
    result = session(engine, agent, name, **row.limits)
    assert ((result.outcome, result.kind), result.reason) == (row.ends, result.reason)
    if row.at_least:
        assert result.requests >= row.at_least[agent]
    else:
        assert result.requests == row.requests
    assert engine.dead() is None


@rows(die=True)
def test_an_engine_of_ours_that_dies(session, tmp_path, name, agent):
    own = launched(tmp_path / "script", {name: ROWS[name]})
    try:
        result = session(own, agent, name)
    finally:
        own.stop()
    assert (result.outcome, result.kind) == ROWS[name].ends
    assert "1" in result.reason


@pytest.mark.parametrize("agent", AGENTS)
def test_an_attached_engine_that_is_gone(session, engine, agent):
    gone = SimpleNamespace(port=free_port("127.0.0.1"), dead=lambda: None, profile=engine.profile, model="matrix")
    result = session(gone, agent, "refused")
    assert (result.outcome, result.kind) == ("engine-error", "refused")


def test_one_refusal_costs_a_session_and_no_attempt(tmp_path):
    """The engine refuses everything of the first try: the loop runs the session again, uncharged, and it is done.

    The loop sees what the rows above tell of either agent, and nothing else.
    """
    sound = tmp_path / "scripts" / "sound"
    shutil.copytree(REPOSITORY / "fixtures" / "scripts" / "csv-totals" / "sound", sound)
    first = {"role": "session", "retry": 0, "turns": refused(503, "Loading model")}
    text = (sound / "script.yaml").read_text()
    (sound / "script.yaml").write_text(text.replace("sessions:\n", f"sessions:\n  - {json.dumps(first)}\n", 1))
    profile = read_profile("embedded")
    values = {"model": "sound", "model_file": "", "script": str(sound)}
    plan = plan_launch(profile, name="embedded", values=values, args=(), model_sha256=None, folder=tmp_path / "engine")
    own = start(plan, profile, progress=lambda _: None)
    try:
        done = bench(
            *("--workload", "csv-totals", "--engine-url", f"http://127.0.0.1:{own.port}"),
            *("--limit", "backoff_seconds=0.1", "--results", str(tmp_path / "r")),
        )
    finally:
        own.stop()
    assert done.code == 0, done.out
    assert (done.record["end"], done.passed()) == ("complete", 8)
    ended = [entry for entry in journal(tmp_path / "r" / done.record["run_id"]) if entry["event"] == "step-finished"]
    assert [(one["outcome"], one["kind"], one["attempt"], one["retry"]) for one in ended if one["session"]] == [
        ("engine-error", "http-503", 1, 0),
        ("done", None, 1, 1),
    ]
