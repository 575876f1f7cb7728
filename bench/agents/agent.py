"""Runs one session of a coding agent: one process in a box, from its prompt to an outcome that rests on facts."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.agents.adapters import EVENTS_FILE, Adapter, AgentCommand, AgentEvents
from bench.agents.home import keep
from bench.agents.pipe_copy import PipeCopies
from bench.agents.placing import place_of, placed
from bench.agents.session_outcome import CutBy, SessionFacts, ended_broken, judge_session, output_tokens
from bench.agents.session_watch import SessionWatch, Watched
from bench.contracts import (
    Box,
    BoxedProcess,
    BoxPlan,
    ExchangeSummary,
    ProgressSink,
    RelayAddress,
    SessionProgress,
    SessionRequest,
    SessionResult,
)
from bench.engine_profile import EngineProfile
from bench.errors import EvidenceError

STDERR_FILE = "stderr.txt"
PROMPT_FILE = "prompt.md"
EVENTS_BYTES = 64_000_000
STDERR_BYTES = 4_000_000

_SETTLE_SECONDS = 1.0
"""How long the relay may take to note the end of an exchange that its client has already seen."""

_DEATH_SECONDS = 0.5
"""How long it may take until an engine that broke an answer off is seen dead, if it is: the connection goes first."""

_WORDS_BYTES = 2000


def run_session(
    request: SessionRequest,
    *,
    adapter: Adapter,
    box: Box,
    relay: RelayAddress,
    home: Path,
    exchanges: Callable[[], tuple[ExchangeSummary, ...]],
    progress_of: Callable[[], SessionProgress],
    last_answer: Callable[[str], str],
    engine_dead: Callable[[], str | None],
    profile: EngineProfile,
    progress: ProgressSink,
    stop_requested: Callable[[], bool],
) -> SessionResult:
    """Starts the agent, waits for its end, a limit, the engine's death or a request to stop; then ends the box.

    `home` is where the agent's own folder is made anew. `exchanges` gives what the relay saw of this session so far,
    `progress_of` how its traffic stands, `last_answer` the text of the last whole answer, or of the one that it is told.
    When this returns or raises, nothing that the agent started lives.

    Writes `prompt.md`, `events.jsonl` (standard output), `stderr.txt` and what the adapter keeps of the agent's folder
    into `request.evidence`. Must be called from the main thread. Raises EvidenceError when evidence cannot be written.
    """
    command = _command(adapter, request, box, relay, home)
    watched = Watched(
        exchanges=exchanges,
        progress_of=progress_of,
        last_answer=last_answer,
        engine_dead=engine_dead,
        stop_requested=stop_requested,
    )
    watch = SessionWatch(request, adapter, watched, progress, home=home, profile=profile)
    with PipeCopies() as copies:
        boxed = _start(request, command, box, relay, copies)
        try:
            cut_by = watch.until_end(boxed, copies)
            exit_code = boxed.process.returncode
        finally:
            boxed.end()
        while copies.open and copies.pump(_SETTLE_SECONDS):
            pass
    seconds = watch.seconds
    odd = [copies.dropped, *keep(home, command.keeps, request.evidence)]
    events = adapter.read_events(request.evidence, request.label.session)
    facts = _facts(request, watched, events, cut_by=cut_by, progress=watch.progress, exit_code=exit_code)
    judgement = judge_session(facts, profile)
    return SessionResult(
        outcome=judgement.outcome,
        reason=judgement.reason,
        kind=judgement.kind,
        final_text=facts.answer,
        exit_code=exit_code,
        started_at=watch.started_at,
        seconds=seconds,
        requests=len(facts.exchanges),
        output_tokens=output_tokens(facts.exchanges),
        tool_calls=events.tool_calls,
        stream_damage="; ".join(part for part in (*odd, events.damage, _unquoted(facts)) if part) or None,
    )


def read_session(folder: Path, session: int, adapter: Adapter) -> AgentEvents:
    """What the event stream kept in a session's evidence folder says, whatever its state."""
    return adapter.read_events(folder, session)


def _command(adapter: Adapter, request: SessionRequest, box: Box, relay: RelayAddress, home: Path) -> AgentCommand:
    """The command of a session as the box starts it; its home is made."""
    url = box.relay_url(relay)
    place = place_of(adapter, box, project=request.project, home=home, url=url)
    return placed(adapter.command(request, place), adapter, box, home=home, url=url)


def _start(
    request: SessionRequest, command: AgentCommand, box: Box, relay: RelayAddress, copies: PipeCopies
) -> BoxedProcess:
    """Starts the agent with its pipes copied into the evidence folder; nothing is left running when it raises."""
    try:
        (request.evidence / PROMPT_FILE).write_text(request.prompt, encoding="utf-8", errors="replace", newline="")
    except OSError as error:
        raise EvidenceError(f"{request.evidence / PROMPT_FILE}: cannot be written ({error.strerror})") from error
    plan = BoxPlan(
        argv=command.argv,
        project=request.project,
        writable=True,
        mounts=command.mounts,
        env=command.env,
        relay=relay,
    )
    # An unlinked file, because a pipe would have to be fed, and a file of the evidence could be opened again in /proc.
    with tempfile.TemporaryFile() as stdin:
        stdin.write(command.stdin)
        stdin.seek(0)
        boxed = box.start(plan, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stdout, stderr = boxed.process.stdout, boxed.process.stderr
    assert stdout is not None and stderr is not None  # noqa: S101, PT018 - Popen gives what it was asked for
    try:
        copies.add(stdout, request.evidence / EVENTS_FILE, EVENTS_BYTES, command.noise)
        copies.add(stderr, request.evidence / STDERR_FILE, STDERR_BYTES)
    except BaseException:
        boxed.end()
        stdout.close()
        stderr.close()
        raise
    return boxed


def _facts(
    request: SessionRequest,
    watched: Watched,
    events: AgentEvents,
    *,
    cut_by: CutBy | None,
    progress: SessionProgress | None,
    exit_code: int | None,
) -> SessionFacts:
    """What is known of a session whose processes are all gone."""
    seen = _settled(watched.exchanges, events.requests)
    return SessionFacts(
        cut_by=cut_by,
        progress=progress,
        seconds_limit=request.seconds,
        requests_limit=request.requests,
        exchanges=seen,
        events=events,
        answer=watched.last_answer(events.final_text),
        engine_dead=_death(watched.engine_dead, seen),
        exit_code=exit_code,
        last_words=_last_words(request.evidence / STDERR_FILE),
    )


def _unquoted(facts: SessionFacts) -> str | None:
    """What is to be said where the agent tells as its last words what no answer of the engine's says.

    Where its way to end is a tool call, its words are that tool's.
    """
    words = facts.events.final_text.split()
    if not words or facts.events.ended_by_call or facts.events.end != "done" or words == facts.answer.split():
        return None
    return "what the agent tells as its last words is not the last answer that passed the relay"


def _settled(exchanges: Callable[[], tuple[ExchangeSummary, ...]], at_least: int) -> tuple[ExchangeSummary, ...]:
    """The relay's exchanges, once it has noted as many as the agent says it began, or has had time enough."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while len(seen := exchanges()) < at_least and time.monotonic() < deadline:
        time.sleep(0.005)
    return seen


def _death(engine_dead: Callable[[], str | None], seen: tuple[ExchangeSummary, ...]) -> str | None:
    """Why the engine is no longer there, if it is not; waits a moment where its last answer broke off."""
    deadline = time.monotonic() + (_DEATH_SECONDS if ended_broken(seen) else 0.0)
    while (dead := engine_dead()) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return dead


def _last_words(path: Path) -> str:
    """The last line that is not empty, at most 300 characters."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _WORDS_BYTES, 0))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
