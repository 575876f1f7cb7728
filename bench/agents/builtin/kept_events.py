"""Reads the embedded agent's event streams as kept sessions. They hold no instants: a journal has to give them."""

from __future__ import annotations

from pathlib import Path

from bench.agents.builtin.adapter import BuiltinAgent
from bench.agents.kept_sessions import KeptSession, SessionFiles


def read_kept_events(path: Path, session: int) -> KeptSession:
    """One session's `events.jsonl`."""
    events = BuiltinAgent().read_stream(path, session)
    done = events.end == "done"
    return KeptSession(
        started_at=None,
        ended_at=None,
        version=None,
        model=None,
        claims=events.usage,
        spans=None,
        tool_calls=events.tool_calls,
        compactions=events.compactions,
        outcome="done" if done else "engine-error" if events.end == "engine-error" else "interrupted",
        reason="" if done else events.end_detail[:2_000] or "its events end before the session did",
        damage=events.damage,
    )


FILES = SessionFiles(patterns=("*.jsonl", "*/events.jsonl"), read=read_kept_events)
