"""How the harness ends a session: nothing that the agent started is alive, and whose silence it was is told apart."""

from __future__ import annotations

import os

import psutil
import pytest

from bench.agents.adapters import AgentCommand, open_adapter
from bench.agents.agent import run_session
from bench.contracts import SessionProgress
from bench.measure.relay import Relay
from bench.sandbox.box import open_box
from bench.spec import AgentSpec

BUILTIN = open_adapter(AgentSpec(name="builtin"))
LEAVES = """
mark={mark}
setsid sh -c "touch a; exec sleep $mark.1" &
(sh -c "touch b; exec sleep $mark.2" & ) &
nohup sh -c "touch c; exec sleep $mark.3" &
sh -c "trap '' TERM INT HUP; touch d; while :; do sleep $mark.4; done" &
setsid sh -c "trap '' TERM; setsid sh -c 'touch e; exec sleep $mark.5' & wait" &
until [ -e go ]; do sleep 0.02; done
{end}
"""
CHILDREN = 5
"""All of them hold the agent's standard output, which is what a session's events are read from."""


class Leaving:
    """An agent that leaves children behind."""

    name, version, speaks_unix = "leaving", "0", True

    def __init__(self, script):
        self.script = script

    def command(self, request, place):
        return AgentCommand(argv=("/bin/sh", "-c", self.script))

    def read_events(self, folder, session):
        return BUILTIN.read_events(folder, session)


def marked(mark):
    """The processes of this machine, boxes included, that hold the mark."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        sleeps = process.info["status"] != psutil.STATUS_ZOMBIE and (process.info["cmdline"] or [""])[0] == "sleep"
        if sleeps and mark in process.info["cmdline"][-1]:
            found.append(process)
    return found


@pytest.mark.parametrize(
    ("end", "cut", "expected"),
    [
        ("exit 0", False, ("agent-error", "no-end")),
        ("exit 9", False, ("agent-error", "crash")),
        (":; while :; do sleep 1; done", True, ("interrupted", None)),
        ("exec sleep 1000", False, ("limit", "no-progress")),
    ],
    ids=["by itself", "with a bad exit code", "asked to stop", "on a limit"],
)
def test_no_child_outlives_its_session(engine, profile, make_request, project, tmp_path, *, end, cut, expected):
    mark = f"9{os.getpid()}{abs(hash(end)) % 1000}"
    alive = []

    def stop_requested():
        """Asked at every tick: lets the agent end once all its children are seen from outside."""
        if len(alive) < CHILDREN:
            alive[:] = marked(mark)
        elif not (project / "go").exists():
            (project / "go").touch()
            return cut
        return False

    def progress_of():
        return SessionProgress(underway=0, idle_seconds=9 if (project / "go").exists() else 0, held_back=False)

    limited = expected[1] == "no-progress"
    request = make_request(seconds=60, no_progress_seconds=0.2 if limited else None)
    result = run_session(
        request,
        adapter=Leaving(LEAVES.format(mark=mark, end=end)),
        box=open_box(unsafe=False),
        relay=engine.address,
        home=tmp_path / "home",
        exchanges=engine.exchanges,
        progress_of=progress_of,
        last_answer=engine.last_answer,
        engine_dead=lambda: None,
        profile=profile,
        progress=lambda _: None,
        stop_requested=stop_requested,
    )
    assert len(alive) == CHILDREN
    assert marked(mark) == []
    assert (result.outcome, result.kind) == expected
    assert sorted(path.name for path in project.iterdir() if len(path.name) == 1) == ["a", "b", "c", "d", "e"]


class Client:
    """Asks for a stream or for an answer in one piece, and reads it or does not."""

    name, version, speaks_unix = "client", "0", True

    def __init__(self, *, reads=True, body='{"stream":true}'):
        self.reads = reads
        self.body = body

    def command(self, request, place):
        script = f"""
import socket, sys, time
c = socket.create_connection(("127.0.0.1", int({place.url!r}.rpartition(":")[2])))
c.sendall(b"POST /v1/chat/completions HTTP/1.1\\r\\nContent-Length: {len(self.body)}\\r\\n\\r\\n" + {self.body.encode()!r})
while {self.reads} and c.recv(1 << 20):
    pass
time.sleep(300)
"""
        return AgentCommand(argv=("python3", "-I", "-S", "-c", script))

    def read_events(self, folder, session):
        return BUILTIN.read_events(folder, session)


@pytest.fixture
def relayed_session(engine, bare_box, profile, make_request, tmp_path):
    """Runs a client against the engine server behind a real relay; the result, and the exchange as the relay saw it."""

    def run(client, **limits):
        request = make_request(**limits)
        with Relay("127.0.0.1", engine.address.port, api_key=None) as relay:
            result = run_session(
                request,
                adapter=client,
                box=bare_box,
                relay=relay.open_session(request.label, request.evidence),
                home=tmp_path / "home",
                exchanges=lambda: relay.exchanges(request.label),
                progress_of=lambda: relay.progress(request.label),
                last_answer=str,
                engine_dead=lambda: None,
                profile=profile,
                progress=lambda _: None,
                stop_requested=lambda: False,
            )
            (exchange,) = relay.close_session(request.label)
        return result, exchange

    return run


@pytest.mark.parametrize(("reads", "expected"), [(True, ("engine-error", "stall")), (False, ("limit", "no-progress"))])
def test_who_is_silent_is_told_by_who_reads(engine, relayed_session, wire, *, reads, expected):
    """The same engine, which goes silent behind more than the relay holds for a client that lags behind."""
    comments = (b": " + b"x" * 1_000_000 + b"\n\n") * 24
    engine.replies = [wire.Reply(data=wire.head() + comments, then="stall")]
    result, exchange = relayed_session(Client(reads=reads), no_progress_seconds=2.0)
    assert (result.outcome, result.kind) == expected
    assert exchange.error.startswith("aborted: ")


@pytest.mark.parametrize(("body", "whole_session"), [('{"stream":true}', False), ("{}", True)])
def test_an_answer_in_one_piece_is_waited_for_to_the_wall_clock(engine, relayed_session, wire, *, body, whole_session):
    """Nobody can see whether it is on its way; an engine that gave nothing for half of the session has stalled then."""
    engine.replies = [wire.Reply(data=b"", then="stall")]
    result, _ = relayed_session(Client(body=body), seconds=1.5 if whole_session else 60, no_progress_seconds=0.3)
    assert (result.outcome, result.kind) == ("engine-error", "stall")
    assert result.seconds >= (1.5 if whole_session else 0.3)
