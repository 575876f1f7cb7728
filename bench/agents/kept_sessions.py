"""What did an agent keep of a session that was not started by us? One shape for the files of all agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from bench.errors import UsageError
from bench.records.schema import UsageRecord

Span = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class KeptSession:
    """One session file. It is the agent's word. Instants are Unix seconds."""

    started_at: float | None
    ended_at: float | None
    """Of the last entry that has an instant."""

    version: str | None
    """Of the file's format."""

    model: str | None
    claims: tuple[UsageRecord, ...]
    """One for each response or failed request, in the file's order."""

    spans: tuple[Span, ...] | None
    """When each of the claims' requests began and ended; None: the file does not tell."""

    tool_calls: int | None
    compactions: int | None
    outcome: str
    """`done`, `engine-error`, or `interrupted` where the file just ends."""

    reason: str
    """What the last error said; empty for `done`."""

    damage: str | None
    """What was wrong with the file or could not be counted, if anything."""


@dataclass(frozen=True, kw_only=True)
class SessionFiles:
    """How one agent keeps its sessions."""

    patterns: tuple[str, ...]
    """Globs below the folder of sessions."""

    read: Callable[[Path, int], KeptSession]
    """Reads the file of session number N; never raises because of what stands in it."""


_READERS = {
    "pi": "bench.agents.pi_sessions",
    "mini-swe-agent": "bench.agents.mini_trajectory",
    "builtin": "bench.agents.builtin.kept_events",
}
"""Name of an agent -> module whose `FILES` is a `SessionFiles`; imported when it is asked for."""


def kept_agents() -> tuple[str, ...]:
    return tuple(sorted(_READERS))


def session_files(agent: str) -> SessionFiles:
    """Raises UsageError when there is no reader for the agent's files."""
    if agent not in _READERS:
        raise UsageError(f"unknown agent '{agent}'; session files of these can be read: {', '.join(kept_agents())}")
    files: SessionFiles = import_module(_READERS[agent]).FILES
    return files


def unreadable(damage: str) -> KeptSession:
    """A file of which nothing could be understood."""
    return KeptSession(
        started_at=None,
        ended_at=None,
        version=None,
        model=None,
        claims=(),
        spans=None,
        tool_calls=None,
        compactions=None,
        outcome="interrupted",
        reason="its file cannot be read",
        damage=damage,
    )
