"""What was said in a session, turn by turn? The relay's exchanges, each reduced to what is new in it.

Agents send their whole history with every request. What is new is what no earlier request of the session has at that
place; a few conversations are followed at once, since an agent asks beside its main one (a title, a summary).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from bench.engine_profile import EngineProfile
from bench.measure.answer_pieces import answer_pieces
from bench.measure.exchange import error_of, iterate_in_order, read_answer, request_record
from bench.measure.exchange_line import Exchange
from bench.measure.reported import read_counts
from bench.measure.request_pieces import Request, read_request
from bench.measure.stream import AnswerReader
from bench.records.conversation import History, Piece, Turn
from bench.records.schema import Purpose

_CONVERSATIONS = 16

_MOST_MARKS = 100_000

_Mark = int
"""Stands for a piece: of what was said no more is held."""


@dataclass(frozen=True)
class _Conversation:
    index: int
    """Of the exchange that was its last."""

    marks: tuple[_Mark, ...]
    answer: frozenset[_Mark]


def iterate_turns(
    path: Path,
    profile: EngineProfile | None,
    *,
    purposes: Mapping[int, Purpose],
    warn: Callable[[str], None],
) -> Iterator[Turn]:
    """The turns of one `exchanges.jsonl` in the order in which they were asked, a few exchanges in memory at a time.

    `profile` says where an engine tells its cached tokens; None: where most do. `purposes`: what requests were for, by
    index, where that is known. Raises EvidenceError as `iterate_in_order` does, after the turns that could be read.
    """
    followed: list[_Conversation] = []
    systems: set[_Mark] = {hash("")}
    heard: set[_Mark] = set()
    for exchange in iterate_in_order(path, warn=warn):
        request = read_request(exchange.request)
        answer = answer_pieces(exchange.response, streamed=exchange.streamed)
        pieces = tuple(piece for piece in request.pieces if piece.kind != "thinking")  # agents keep it or drop it
        marks = tuple(map(_mark, pieces))
        before, shared = _nearest(followed, marks)
        history = _history(request, before, shared, len(marks), first=not followed)
        if before is not None and history in ("grown", "same"):
            followed.remove(before)
        # In a history that only grew all that is new was said just now, be it the same words as before.
        old = before.answer if before is not None and history == "grown" else heard
        said = tuple(piece for piece, mark in zip(pieces[shared:], marks[shared:], strict=True) if mark not in old)
        yield _turn(
            exchange,
            profile,
            request,
            history=history,
            before=before,
            kept=shared,
            repeated=0 if history == "grown" else len(pieces) - shared - len(said),
            system=None if hash(request.system) in systems else request.system,
            said=said if request.understood else _unread(exchange),
            answer=answer,
            purpose=purposes.get(exchange.index, "turn"),
        )
        if request.understood:
            spoken = frozenset(map(_mark, answer))
            followed = [*followed[1 - _CONVERSATIONS :], _Conversation(exchange.index, marks, spoken)]
            systems.add(hash(request.system))
            if len(heard) < _MOST_MARKS:
                heard |= {*marks, *spoken}


def _mark(piece: Piece) -> _Mark:
    text = piece.text.strip()
    if piece.kind == "call":
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(
                json.loads(text), sort_keys=True
            )  # agents write arguments anew: other spaces, another order
    # Calls answer with the same words often: which call it was makes the difference.
    return hash((piece.kind, piece.name, text, piece.call if piece.kind == "result" else ""))


def _nearest(followed: list[_Conversation], marks: tuple[_Mark, ...]) -> tuple[_Conversation | None, int]:
    """The conversation that a history has most in common with, the newest of several, and how many pieces that is."""
    nearest, most = None, 0
    for one in reversed(followed):
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one.marks, marks, strict=False)))
        if shared > most:
            nearest, most = one, shared
    return nearest, most


def _history(request: Request, before: _Conversation | None, shared: int, length: int, *, first: bool) -> History:
    if before is None:
        return "first" if first or not request.understood else "grown" if request.continues else "other"
    if shared < len(before.marks):
        return "changed"
    return "same" if shared == length else "grown"


def _unread(exchange: Exchange) -> tuple[Piece, ...]:
    length = len(exchange.request)
    return (Piece(kind="other", text=f"a body of {length:,} bytes in which no prompt was found"),) if length else ()


def _turn(
    exchange: Exchange,
    profile: EngineProfile | None,
    request: Request,
    *,
    history: History,
    before: _Conversation | None,
    kept: int,
    repeated: int,
    system: str | None,
    said: tuple[Piece, ...],
    answer: tuple[Piece, ...],
    purpose: Purpose,
) -> Turn:
    read = read_answer(exchange)
    error = error_of(exchange, read)
    prompt, cached, output, reasoning = _counts(exchange, read, profile, whole=error is None)
    return Turn(
        index=exchange.index,
        method=exchange.method,
        path=exchange.path,
        status=exchange.status,
        model=request.model,
        started_at=exchange.started_at,
        seconds=exchange.ended_at - exchange.sent_at,
        history=history,
        after=None if before is None else before.index,
        kept=kept,
        dropped=0 if before is None else len(before.marks) - kept,
        repeated=repeated,
        system=system,
        said=said,
        answer=answer,
        finish_reason=read.finish_reason,
        error=error,
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
        reasoning_tokens=reasoning,
        purpose=purpose,
    )


def _counts(
    exchange: Exchange, read: AnswerReader, profile: EngineProfile | None, *, whole: bool
) -> tuple[int | None, int | None, int | None, int | None]:
    """Tokens of prompt, cached, output, reasoning: those of the record where the engine's profile is known."""
    if profile is None:
        counts = read_counts(read, exchange.path, whole=whole, computed=None)
        return counts.prompt, counts.cached, counts.output, counts.reasoning
    record = request_record(exchange, profile)
    return record.prompt_tokens, record.cached_tokens, record.output_tokens, record.reasoning_tokens
