"""What a coding agent must tell the harness about itself, and which agents there are.

An adapter knows how its agent is started in a box and how its event stream is read; everything else about a session
is the same for all agents (`agent.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol

from bench.contracts import Box, Mount, SessionRequest
from bench.errors import UsageError
from bench.records.schema import UsageRecord
from bench.spec import AgentSpec

StreamEnd = Literal["done", "length", "limit", "engine-error", "agent-error"]

_AGENTS = {
    "builtin": "bench.agents.builtin.adapter",
}
"""Name of an agent -> module whose `open_agent(spec)` gives its adapter; imported when it is asked for."""


@dataclass(frozen=True, kw_only=True)
class AgentCommand:
    """How one session of an agent is started; argv and env speak of paths as they are inside the box."""

    argv: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    """All that the agent finds on its standard input before the end of it."""


@dataclass(frozen=True, kw_only=True)
class AgentEvents:
    """What an agent's event stream says of one session. It is the agent's word: compare it with the relay's."""

    usage: tuple[UsageRecord, ...]
    """One for each response or failed request that the agent reports, in its order."""

    requests: int
    tool_calls: int
    compactions: int
    final_text: str
    """The last answer's text, at most its last 200,000 characters; always encodable."""

    end: StreamEnd | None
    """None: the stream has no end event."""

    end_detail: str
    damage: str | None
    """What was wrong with the stream itself: torn, too long, lines that are no events."""


class Adapter(Protocol):
    """One agent."""

    name: str
    version: str

    def command(self, request: SessionRequest, box: Box, url: str) -> AgentCommand:
        """The command of one session; `url` is the base of the model endpoints as seen from inside, without `/v1`."""

    def read_events(self, path: Path, session: int) -> AgentEvents:
        """Reads a stored event stream of any quality; never raises because of what stands in it."""


def agent_names() -> tuple[str, ...]:
    return tuple(sorted(_AGENTS))


def open_adapter(spec: AgentSpec) -> Adapter:
    """The adapter of an agent. Raises UsageError when there is none of that name, or when it refuses `spec.args`."""
    if spec.name not in _AGENTS:
        raise UsageError(f"unknown agent '{spec.name}'; there are: {', '.join(agent_names())}")
    adapter: Adapter = import_module(_AGENTS[spec.name]).open_agent(spec)
    return adapter
