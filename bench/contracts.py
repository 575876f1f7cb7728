"""The shapes through which rooms meet: boxes, relay addresses, sessions, verify runs, engines.

Rooms never import each other; `run.py` hands them callables and objects of these shapes.
Seconds, bytes and tokens throughout; wall instants are Unix seconds, `*_at` on the relay are seconds of one
monotonic clock.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, Protocol

from bench.engine_profile import EngineProfile

Role = Literal["bootstrap", "builder", "reviewer", "replan", "final-reviewer", "session", "preflight"]
Isolation = Literal["boxed", "weaker", "none"]


# --- boxes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A file or folder of the host that exists inside a box, at `target` (absolute, e.g. `/tools/agent.py`)."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, kw_only=True)
class BoxLimits:
    cpu_seconds: int = 600
    file_bytes: int = 256_000_000
    """Largest single file that a process may write."""

    processes: int = 256
    memory_bytes: int | None = None
    """Limit of data segments per process (RLIMIT_DATA); None leaves it."""

    tmp_bytes: int = 256_000_000
    open_files: int = 1024


@dataclass(frozen=True, kw_only=True)
class BoxPlan:
    """One command to be run in a box. argv, env and cwd speak of paths as they are inside."""

    argv: tuple[str, ...]
    project: Path | None
    """Becomes `Box.project_path`, the working directory; None: an empty working directory."""

    writable: bool = False
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment besides PATH, HOME, LANG and TMPDIR; nothing of the host's is inherited."""

    relay: RelayAddress | None = None
    """The only network that exists inside; None: no network at all."""

    pass_fds: tuple[int, ...] = ()
    limits: BoxLimits = field(default_factory=BoxLimits)


class BoxedProcess(Protocol):
    """A command that runs in a box."""

    @property
    def process(self) -> subprocess.Popen[bytes]: ...

    def end(self) -> None:
        """Kills everything that the box holds, waits until it is seen dead. Safe to call twice."""


class Box(Protocol):
    """Starts commands where only their project, their mounts and their relay exist.

    `start` must be called from the main thread: the kernel ties the box's life to the thread that began it.
    """

    name: str
    """E.g. `bubblewrap 0.11.0`, `none`."""

    isolation: Isolation

    def project_path(self, plan_project: Path) -> str:
        """Where the project is seen from inside: `/box`, or the real path where there is no box."""

    def mount_path(self, mount: Mount) -> str:
        """Where a mount is seen from inside."""

    def relay_url(self, relay: RelayAddress) -> str:
        """Base URL for model traffic from inside, without `/v1`: `unix:///run/relay.sock` or `http://127.0.0.1:PORT`."""

    def start(
        self,
        plan: BoxPlan,
        *,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
    ) -> BoxedProcess:
        """Starts the command. `python3` and `node` are on its PATH."""


# --- relay ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SessionLabel:
    """Names a session wherever it leaves a trace: the header to the engine, evidence, the journal."""

    run_id: str
    session: int
    """1, 2, 3 ... within the run; 0 is the preflight."""

    role: Role
    task: str | None
    attempt: int
    """Counts charged attempts of this role at this task, from 1."""

    retry: int
    """How often this attempt was begun again after an engine error; 0 the first time. Never charged."""

    @property
    def header(self) -> str:
        """Value of the `X-Runcard-Session` header: `run=ID; session=7; role=builder; task=T003; attempt=1; retry=0`."""
        return (
            f"run={self.run_id}; session={self.session}; role={self.role}; task={self.task or '-'}; "
            f"attempt={self.attempt}; retry={self.retry}"
        )


SESSION_HEADER = "X-Runcard-Session"


@dataclass(frozen=True, kw_only=True)
class RelayAddress:
    """Where one session reaches the engine: a unix socket for boxes, a loopback port for processes without one."""

    socket: Path
    port: int


@dataclass(frozen=True, kw_only=True)
class ExchangeSummary:
    """What the relay saw of one exchange, as far as a session's outcome and limits need it."""

    index: int
    status: int | None
    """HTTP status; None when the engine gave none."""

    finish_reason: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    error: str | None
    """Transport fault or the engine's own error text; None for a whole answer."""

    sent_at: float
    """When its request was sent; on the clock of `ended_at`."""

    ended_at: float
    """When the client had the answer: of a whole stream its last token, for an engine may close the connection late."""


@dataclass(frozen=True, kw_only=True)
class SessionProgress:
    """How a session's traffic stands at one moment."""

    underway: int
    """Exchanges of which the engine still owes the end of the answer."""

    idle_seconds: float
    """Since the last thing that was progress: a request began, a token came, an answer ended, or the session opened."""

    held_back: bool
    """The client does not take what the engine sends: nothing can come, and that is not the engine's doing."""

    in_one_piece: bool = False
    """An answer that is owed was not asked for as a stream: that no token comes of it before its end says nothing."""


# --- sessions ------------------------------------------------------------------------------------------------------

Outcome = Literal["done", "engine-error", "agent-error", "limit", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class SessionRequest:
    """One agent process that the loop asks for."""

    label: SessionLabel
    prompt: str
    project: Path
    """The workspace on the host."""

    evidence: Path
    """Folder of this session's evidence; exists, empty."""

    model: str
    context_window: int | None
    output_tokens_per_request: int
    requests: int
    output_tokens: int
    """What is left of the run's output tokens: the session is ended after the answer that goes over it."""

    seconds: float
    """Wall-clock limit of the session."""

    no_progress_seconds: float
    """The session is ended when for so long the model gave no new token, or was asked nothing. An answer that is not
    streamed shows no token before its end: it is waited for."""


@dataclass(frozen=True, kw_only=True)
class SessionResult:
    """How one agent process ended, from facts: the relay's exchanges, the event stream, the process."""

    outcome: Outcome
    reason: str
    """One sentence; empty for `done`."""

    kind: str | None
    """Finer kind of an error or limit: `memory`, `context`, `http-500`, `error-in-answer`, `crash`, `seconds`, `requests` ..."""

    final_text: str
    """The last answer as the relay saw it: what else lives in the box may write into the agent's own event stream."""

    exit_code: int | None
    started_at: float
    """Unix seconds."""

    seconds: float
    requests: int
    output_tokens: int
    """Sum over the relay's exchanges; what was not reported counts as 0 here and as null in figures."""

    tool_calls: int
    stream_damage: str | None = None
    """What was odd about the event stream (torn, too long, not JSON, words that no answer says) or the files kept."""


SessionRunner = Callable[[SessionRequest], SessionResult]


# --- verify --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """The orchestrator's own call of the project's `verify` program: `./verify --all` or `./verify --task ID`."""

    project: Path
    arguments: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class CheckLine:
    id: str
    ok: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    passed: bool
    """At least one check, every check `ok`, exit code 0, within the limit."""

    checks: tuple[CheckLine, ...]
    exit_code: int | None
    seconds: float
    reason: str
    """Why it did not pass; empty when it did."""

    output: str
    """Last 20,000 characters of what it printed, for the next prompt and the evidence."""


VerifyRunner = Callable[[VerifyRequest], VerifyResult]


# --- engines -------------------------------------------------------------------------------------------------------


class EngineHandle(Protocol):
    """An engine that is ready: launched and owned by us, or attached and never stopped."""

    owned: bool

    profile: EngineProfile
    host: str
    port: int
    argv: tuple[str, ...]
    version: str
    binary_sha256: str | None
    model: str
    model_sha256: str | None
    context_window: int | None
    """Tokens the engine really granted to one request."""

    granted: Mapping[str, str]
    """Further facts of this process that its profile asks for, by name: `offload`, `slots`."""

    not_known: Mapping[str, str]
    """Fields of this handle that are None or empty -> why."""

    log: Path | None
    """None: an attached engine's log is not ours to read."""

    @property
    def pid(self) -> int | None:
        """The engine's own process while it lives; None for an attached one."""

    def dead(self) -> str | None:
        """Why the engine is no longer there, or None while it lives."""

    def stop(self) -> None:
        """Ends the engine and everything it started, and waits until it is seen dead. Safe to call twice."""


# --- progress ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One thing that a person watching may want to see."""

    text: str
    """A whole plain line, e.g. `session 007 builder T003 attempt 1`."""

    transient: bool = False
    """True: only worth showing on a live terminal (counters that move)."""


ProgressSink = Callable[[Progress], None]
