"""What a coding agent must tell the harness about itself, and which agents there are.

An adapter knows how its agent is started in a box and how its event stream is read; everything else about a session
is the same for all agents (`agent.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from bench.agents.agent_profile import profiled_agents
from bench.contracts import Mount, SessionRequest
from bench.errors import UsageError
from bench.records.schema import UsageRecord
from bench.spec import AgentSpec

EVENTS_FILE = "events.jsonl"
"""An agent's standard output, in the evidence folder of its session."""

StreamEnd = Literal["done", "length", "limit", "engine-error", "agent-error"]

_AGENTS = {
    "builtin": "bench.agents.builtin.adapter",
    "pi": "bench.agents.pi",
}
"""Name of an agent -> module whose `open_agent(spec)` gives its adapter; imported when it is asked for."""

_PROFILED = "bench.agents.profiled"
"""The same for every agent that has a profile in fixtures/agents."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an agent finds things, as seen from inside its box."""

    project: str
    """Its working directory, the same in every session."""

    home: str
    """A folder of its own, writable, with nothing in it but the command's `files`: configuration and session files."""

    url: str
    """Base of the model endpoints, without `/v1`: `unix:///run/relay.sock` for an agent that `speaks_unix`, else HTTP."""

    mounted: Callable[[Mount], str]
    """Where a mount of the command's is seen."""


@dataclass(frozen=True, kw_only=True)
class AgentCommand:
    """How one process of an agent is started; argv and env speak of paths as they are inside the box."""

    argv: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    """All that the agent finds on its standard input before the end of it."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """What lies in its home before it starts: path relative to the home -> content."""

    executable: frozenset[str] = frozenset()
    """Those of `files` that are programs."""

    keeps: Mapping[str, str] = field(default_factory=dict)
    """What is taken from its home when it has ended: name in the evidence folder -> glob relative to the home."""

    noise: tuple[bytes, ...] = ()
    """Beginnings of lines of its event stream that only repeat what other lines say; they are not kept."""


@dataclass(frozen=True, kw_only=True)
class AgentEvents:
    """What an agent's event stream says of one session. It is the agent's word: compare it with the relay's."""

    usage: tuple[UsageRecord, ...]
    """One for each response or failed request that the agent reports, in its order."""

    requests: int
    tool_calls: int
    compactions: int | None
    """None: the agent does not tell."""

    final_text: str
    """The last answer's text, at most its last 200,000 characters; always encodable."""

    end: StreamEnd | None
    """None: the stream has no end event."""

    end_detail: str
    damage: str | None
    """What was wrong with the stream itself: torn, too long, lines that are no events."""

    tool_seconds: float | None = None
    """Time during which at least one tool ran; None: the agent does not tell."""

    retries: int | None = None
    """How often the agent says that it asked again after a failure; None: it does not tell."""

    unknown: Mapping[str, int] = field(default_factory=dict)
    """Events that the adapter does not know: name -> how many. A loud warning of the record."""

    unusable_turns: int = 0
    """How many answers in a row, up to the last one, called only tools that there are not, or with arguments that are
    no JSON; 0 also where the agent does not tell."""

    after_answer: int = 0
    """How often the agent asked, after its last answer, for a summary of its history that nobody needed any more."""

    ended_by_call: bool = False
    """The last answer's tool call was the agent's own way to end: such an answer needs no text."""

    differences: tuple[str, ...] = ()
    """Where the session file that the agent itself kept says something else than its event stream."""


class Adapter(Protocol):
    """One agent."""

    name: str
    version: str
    speaks_unix: bool
    """Whether it reaches its model by a unix socket; else a door on loopback is put before it inside the box."""

    api: str
    """Path of the model endpoint that it asks, e.g. `/v1/chat/completions`; the engine must offer it."""

    @property
    def configuration(self) -> Mapping[str, Any]:
        """JSON data for the record: all that decides how the agent behaves (sampling, thinking, skills and digests)."""

    def check_installed(self) -> None:
        """Raises MissingPartError with what to run where the agent is not installed as it must be."""

    def probe(self, place: Place) -> AgentCommand | None:
        """A short command that proves that the agent starts in this box; its standard output must hold `version`."""

    def command(self, request: SessionRequest, place: Place) -> AgentCommand:
        """The command of one session."""

    def read_events(self, folder: Path, session: int) -> AgentEvents:
        """Reads the event stream of a session's evidence folder; never raises because of what stands in it."""


def agent_names() -> tuple[str, ...]:
    return tuple(sorted({*_AGENTS, *profiled_agents()}))


def open_adapter(spec: AgentSpec) -> Adapter:
    """The adapter of an agent. Raises UsageError when there is none of that name, or when it refuses `spec.args`.

    Evidence can be read with it whether or not the agent itself is installed.
    """
    if spec.name not in agent_names():
        raise UsageError(f"unknown agent '{spec.name}'; there are: {', '.join(agent_names())}")
    adapter: Adapter = import_module(_AGENTS.get(spec.name, _PROFILED)).open_agent(spec)
    return adapter
