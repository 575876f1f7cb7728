"""What was said in a session, in one form for every API. All text in it is untrusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.records.schema import Purpose

PieceKind = Literal["system", "user", "text", "thinking", "call", "result", "other"]
"""`system`: instructions; `user`: what the model was told; `text`, `thinking`, `call`: the model's own; `result`: what a
tool answered; `other`: something with no text, an image."""

History = Literal["first", "grown", "same", "changed", "other"]
"""How a request's history stands to those before it. `grown`: all of one, and more. `same`: one again. `changed`: it
begins as one and goes on differently. `other`: it shares nothing with any of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One part of a request or an answer."""

    kind: PieceKind
    text: str
    """Of a call: its arguments as JSON text, exact as the model wrote them."""

    name: str = ""
    """Of a call: the tool's."""

    call: str = ""
    """Of a call and its result: what joins them."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One exchange as a person reads it."""

    index: int
    method: str
    path: str
    status: int | None
    """HTTP status; None: the engine gave no answer."""

    model: str
    """As the request names it; empty where it names none."""

    started_at: float
    """Unix seconds."""

    seconds: float
    """From the request's last byte to the end of the answer."""

    history: History
    after: int | None
    """Index of the exchange whose history this one takes up; None for `first` and `other`."""

    kept: int
    """Pieces that it shares with that history at the beginning, instructions not counted."""

    dropped: int
    """Pieces of that history behind them, which it has not; only of `changed`."""

    repeated: int
    """Pieces behind those that were said earlier in the session: what a history that was begun anew took with it."""

    system: str | None
    """The instructions where no exchange before had the same; else None."""

    said: tuple[Piece, ...]
    """What is new in the request; what the model said itself is not."""

    answer: tuple[Piece, ...]
    finish_reason: str | None
    error: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    purpose: Purpose = "turn"
