"""What the embedded engine's "model" says: a script's sessions, each a list of turns, and how a request finds its own.

A turn thinks, says and does things; what it does stands as intents, which `tool_rendering.py` turns into calls of
whatever tools a request offers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.engines.embedded.session_place import SessionPlace


@dataclass(frozen=True, kw_only=True)
class Intent:
    """One thing that a turn does. `path` is relative to the project."""

    verb: Literal["write", "edit", "run", "read"]
    path: str = ""
    text: str = ""
    """Of a write: the whole content."""

    old: str = ""
    new: str = ""
    command: str = ""

    @property
    def summary(self) -> str:
        return f"{self.verb} {self.path or self.command}"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One answer of the model. Without intents it ends its session."""

    think: str = ""
    say: str = ""
    intents: tuple[Intent, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Play:
    """What a script says to one request."""

    turn: Turn
    free_bytes: int | None
    """How much memory other programs leave for a prompt's state; None: they take none."""


NOTHING_LEFT = Turn(say="Nothing left to do.")


@dataclass(frozen=True, kw_only=True)
class ScriptSession:
    """Turns for the sessions that its keys agree with; a key that is None agrees with all."""

    role: str
    task: str | None
    attempt: int | None
    retry: int | None
    free_bytes: int | None
    free_bytes_from_turn: int
    turns: tuple[Turn, ...]

    def plays_at(self, place: SessionPlace) -> bool:
        wanted = ((self.task, place.task), (self.attempt, place.attempt), (self.retry, place.retry))
        return self.role == place.role and all(own is None or own == asked for own, asked in wanted)


@dataclass(frozen=True, kw_only=True)
class Script:
    """A checked script; `about` is its one line of description."""

    about: str
    sessions: tuple[ScriptSession, ...]

    def play(self, place: SessionPlace | None, turn: int) -> Play:
        """The turn of the first session that agrees with `place`; NOTHING_LEFT past its end or without such a one."""
        for session in self.sessions:
            if place is not None and session.plays_at(place):
                return Play(
                    turn=session.turns[turn] if turn < len(session.turns) else NOTHING_LEFT,
                    free_bytes=session.free_bytes if turn >= session.free_bytes_from_turn else None,
                )
        return Play(turn=NOTHING_LEFT, free_bytes=None)
