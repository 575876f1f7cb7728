"""Runs one session of a coding agent: one process in a box, from its prompt to an outcome that rests on facts."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.agents.adapters import EVENTS_FILE, Adapter, AgentCommand, AgentEvents, Place
from bench.agents.door import behind_door, url_inside
from bench.agents.home import keep, make_home
from bench.agents.pipe_copy import PipeCopies
from bench.agents.project_weight import outgrown
from bench.agents.session_outcome import CutBy, SessionFacts, judge_session
from bench.contracts import (
    Box,
    BoxedProcess,
    BoxPlan,
    ExchangeSummary,
    Mount,
    Progress,
    ProgressSink,
    RelayAddress,
    SessionRequest,
    SessionResult,
)
from bench.engine_profile import EngineProfile
from bench.errors import EvidenceError

STDERR_FILE = "stderr.txt"
PROMPT_FILE = "prompt.md"
HOME_INSIDE = "/agent"
EVENTS_BYTES = 64_000_000
STDERR_BYTES = 4_000_000

_TICK_SECONDS = 0.1
_PROGRESS_SECONDS = 0.5
_DISK_SECONDS = 3.0
"""How often the project is weighed; a look takes a few milliseconds."""

_DEAD_ENGINE_SECONDS = 2.0
"""How long an agent may still use what it already has from an engine that is gone."""

_SETTLE_SECONDS = 1.0
"""How long the relay may take to note the end of an exchange that its client has already seen."""

_WORDS_BYTES = 2000


def run_session(
    request: SessionRequest,
    *,
    adapter: Adapter,
    box: Box,
    relay: RelayAddress,
    home: Path,
    exchanges: Callable[[], tuple[ExchangeSummary, ...]],
    engine_dead: Callable[[], str | None],
    profile: EngineProfile,
    progress: ProgressSink,
    stop_requested: Callable[[], bool],
) -> SessionResult:
    """Starts the agent, waits for its end, a limit, the engine's death or a request to stop; then ends the box.

    `home` is where the agent's own folder is made anew. `exchanges` gives what the relay saw of this session so far. When this returns or raises, nothing that the agent
    started lives. An agent that asks for more than `request.requests` is ended after the first answer over it.
    Writes `prompt.md`, `events.jsonl` (standard output), `stderr.txt` and what the adapter keeps of the agent's folder
    into `request.evidence`. Must be called from the main thread. Raises EvidenceError when evidence cannot be written.
    """
    command = _command(adapter, request, box, relay, home)
    started_at, started = time.time(), time.monotonic()
    watch = _Watch(request, exchanges, engine_dead, progress, stop_requested, started)
    with PipeCopies() as copies:
        boxed = _start(request, command, box, relay, copies)
        try:
            cut_by = watch.until_end(boxed, copies)
            exit_code = boxed.process.returncode
        finally:
            boxed.end()
        while copies.open and copies.pump(_SETTLE_SECONDS):
            pass
    seconds = time.monotonic() - started
    odd = keep(home, command.keeps, request.evidence)
    events = adapter.read_events(request.evidence, request.label.session)
    seen = _settled(exchanges, events.requests)
    facts = SessionFacts(
        cut_by=cut_by,
        seconds_limit=request.seconds,
        requests_limit=request.requests,
        exchanges=seen,
        events=events,
        engine_dead=engine_dead(),
        exit_code=exit_code,
        last_words=_last_words(request.evidence / STDERR_FILE),
    )
    judgement = judge_session(facts, profile)
    return SessionResult(
        outcome=judgement.outcome,
        reason=judgement.reason,
        kind=judgement.kind,
        final_text=events.final_text,
        exit_code=exit_code,
        started_at=started_at,
        seconds=seconds,
        requests=len(seen),
        output_tokens=_output_tokens(seen),
        tool_calls=events.tool_calls,
        stream_damage="; ".join(part for part in (copies.dropped, events.damage, *odd) if part) or None,
    )


def read_session(folder: Path, session: int, adapter: Adapter) -> AgentEvents:
    """What the event stream kept in a session's evidence folder says, whatever its state."""
    return adapter.read_events(folder, session)


def _command(adapter: Adapter, request: SessionRequest, box: Box, relay: RelayAddress, home: Path) -> AgentCommand:
    """The command of a session as the box starts it; its home is made."""
    own = Mount(source=home, target=HOME_INSIDE, writable=True)
    url = box.relay_url(relay)
    place = Place(
        project=box.project_path(request.project),
        home=box.mount_path(own),
        url=url_inside(url, speaks_unix=adapter.speaks_unix),
        mounted=box.mount_path,
    )
    command = adapter.command(request, place)
    make_home(home, command.files)
    command = replace(command, mounts=(*command.mounts, own))
    return behind_door(command, box, url, speaks_unix=adapter.speaks_unix)


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


@dataclass(frozen=True)
class _Watch:
    """Waits for the end of a session and decides whether the harness must end it."""

    request: SessionRequest
    exchanges: Callable[[], tuple[ExchangeSummary, ...]]
    engine_dead: Callable[[], str | None]
    progress: ProgressSink
    stop_requested: Callable[[], bool]
    started: float

    def until_end(self, boxed: BoxedProcess, copies: PipeCopies) -> CutBy | None:
        """None when the agent's process has ended, else why it is to be ended."""
        next_check = next_report = self.started
        next_look = self.started + _DISK_SECONDS
        dead_at: float | None = None
        while not self._ended(boxed.process, copies):
            now = time.monotonic()
            if now < next_check:
                continue
            next_check = now + _TICK_SECONDS
            if dead_at is None and self.engine_dead() is not None:
                dead_at = now
            if dead_at is not None and now - dead_at >= _DEAD_ENGINE_SECONDS:
                return "engine-dead"
            if self.stop_requested():
                return "asked"
            if now - self.started >= self.request.seconds:
                return "seconds"
            seen = self.exchanges()
            if len(seen) > self.request.requests:
                return "requests"
            if _output_tokens(seen) > self.request.output_tokens:
                return "output-tokens"
            if now >= next_look and (next_look := now + _DISK_SECONDS) and outgrown(self.request.project):
                return "disk"
            if now >= next_report:
                next_report = now + _PROGRESS_SECONDS
                self.progress(Progress(text=self._line(now, seen), transient=True))
        return None

    def _ended(self, process: subprocess.Popen[bytes], copies: PipeCopies) -> bool:
        """Copies or waits for at most one tick; whether the process has ended, its pipes open or not."""
        if copies.open:
            copies.pump(_TICK_SECONDS)
            return process.poll() is not None
        try:
            process.wait(_TICK_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _line(self, now: float, seen: tuple[ExchangeSummary, ...]) -> str:
        label = self.request.label
        elapsed, tokens = now - self.started, _output_tokens(seen)
        rate = f", {tokens / elapsed:.1f} tok/s" if tokens and elapsed > 0 else ""
        name = " ".join(part for part in (f"session {label.session:03d}", label.role, label.task) if part)
        return f"{name}: {elapsed:.0f} s, {len(seen)} requests, {tokens:,} output tokens{rate}"


def _settled(exchanges: Callable[[], tuple[ExchangeSummary, ...]], at_least: int) -> tuple[ExchangeSummary, ...]:
    """The relay's exchanges, once it has noted as many as the agent says it began, or has had time enough."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while len(seen := exchanges()) < at_least and time.monotonic() < deadline:
        time.sleep(0.005)
    return seen


def _output_tokens(exchanges: tuple[ExchangeSummary, ...]) -> int:
    return sum(exchange.output_tokens or 0 for exchange in exchanges)


def _last_words(path: Path) -> str:
    """The last line that is not empty, at most 300 characters."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _WORDS_BYTES, 0))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
