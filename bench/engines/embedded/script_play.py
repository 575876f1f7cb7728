"""What the embedded engine's "model" says: a script's sessions, each a list of turns, and how a request finds its own.

A turn thinks, says and does things; what it does stands as intents, which `tool_rendering.py` turns into calls of
whatever tools a request offers. It may have a fault, which holds for every request that lands on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

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


BreakKind = Literal["reset", "cut", "error-event", "stall", "keep-alive", "exit"]
FaultKind = Literal[BreakKind, "refuse", "no-usage", "length", "empty", "cut-call", "unknown-tool"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What the engine does to a turn's answer instead of giving it well; `faults.py` says what each kind does."""

    kind: FaultKind
    after_tokens: int = 0
    """Output tokens that are given first. Of a break 0 means: before the prompt is computed."""

    status: int = 0
    """HTTP status of `refuse`."""

    message: str = ""
    type: str = ""
    code: str | int | None = None
    retry_after_seconds: float | None = None
    name: str = ""
    """The tool that `unknown-tool` calls."""

    @property
    def breaks(self) -> bool:
        """Whether the answer never comes to its end."""
        return self.kind in get_args(BreakKind)

    @property
    def breaks_at_once(self) -> bool:
        return self.breaks and self.after_tokens == 0


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One answer of the model. Without intents it ends its session."""

    think: str = ""
    say: str = ""
    intents: tuple[Intent, ...] = ()
    fault: Fault | None = None


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
