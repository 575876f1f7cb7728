"""A session as a person reads it: who, what was asked, what was answered, folded to what tells most.

All that agents and models wrote is indented, so that none of it can look like a line of ours; control characters are
made harmless. Lines are wrapped on a terminal only.
"""

from __future__ import annotations

import re
import textwrap
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from bench.records.conversation import Piece, Turn
from bench.records.schema import SessionRow
from bench.report.call_line import arguments_of, call_line
from bench.report.columns import written
from bench.report.tables import SIMULATED, plain

_FOLDS = {"system": 1, "user": 12, "result": 6, "thinking": 3, "events": 10}
"""Kind of a piece -> how many of its lines are shown; others whole."""

_OWN = ("text", "call")
_NAMED = 72
"""Characters of a call above its result."""

_LONGEST = 200
"""Characters of a line where its piece is folded."""

_INDENT = "    "
_NARROWEST = 20
"""Columns that a text has at least, however narrow the terminal."""

_STYLED = re.compile(r"(\x1b\[\d+m)?(.*?)(\x1b\[0m)?")
"""A line as `_styled` makes it."""

_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Colours and the like, which tools write also where nobody sees them."""

_CALLS = 4096
"""So many calls wait for their results."""

_STYLES = {"head": "1", "call": "32", "result": "36", "faint": "2", "note": "33", "error": "31"}


@dataclass(frozen=True, kw_only=True)
class Look:
    full: bool = False
    """Nothing is folded."""

    colour: bool = False
    width: int | None = None
    """Columns to wrap lines at; None: they stay as long as they are."""


class TranscriptText:
    """Writes one session, turn by turn; holds of it only which call a result belongs to."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._calls: OrderedDict[str, str] = OrderedDict()
        self._began: float | None = None
        self._before: int | None = None
        self._prompted = False

    def head(self, session: int, row: SessionRow | None, *, simulated: bool = False) -> Iterator[str]:
        """What the record says of the session; None: only its number is known, as it is of the preflight."""
        yield from self._fitted(self._head(session, row))
        if simulated:
            yield from self._fitted([self._styled(SIMULATED, "note")])

    def _head(self, session: int, row: SessionRow | None) -> Iterator[str]:
        if row is None:
            yield self._styled(_joined(f"session {session:03d}", None if session else "preflight"), "head")
            return
        tried = f"attempt {row.attempt}" + (f", retry {row.retry}" if row.retry else "")
        outcome = row.outcome + (f" ({row.kind})" if row.kind else "")
        yield self._styled(plain(_joined(f"session {session:03d}", row.role, row.task, tried, outcome)), "head")
        parts = {
            "engine": row.engine_seconds,
            "waiting": row.waiting_seconds,
            "tools": row.tool_seconds,
            "agent": row.agent_seconds,
        }
        spent = ", ".join(f"{name} {written(value, 's')}" for name, value in parts.items() if value is not None)
        yield _joined(
            f"{written(row.seconds, 's')}" + (f": {spent}" if spent else "") if row.seconds is not None else None,
            written(row.requests, "requests"),
            f"prompt {row.prompt_tokens:,}" if row.prompt_tokens is not None else None,
            f"output {row.output_tokens:,}" if row.output_tokens is not None else None,
            written(row.tool_calls, "tool calls"),
        )

    def turn(self, turn: Turn) -> Iterator[str]:
        """One exchange: what is new in its request, then the answer, then what it took."""
        yield from self._fitted(self._turn(turn))

    def _turn(self, turn: Turn) -> Iterator[str]:
        first, self._began = self._began is None, turn.started_at if self._began is None else self._began
        since = f"+{max(0.0, turn.started_at - self._began):,.1f} s"
        when = _instant(turn.started_at) if first else since
        asked = "" if turn.said or turn.answer or turn.system else f"{turn.method} {turn.path}"
        yield ""
        title = (
            f"── request {turn.index} · {_joined(when, asked, f'model {turn.model}' if first and turn.model else '')} "
        )
        yield self._styled(plain(title).ljust(min(78, self._look.width or 78), "─"), "head")
        for note in self._notes(turn):
            yield self._styled(note, "note")
        if turn.system is not None:
            yield from self._system(turn.system)
        for before, piece in zip((None, *turn.said), turn.said, strict=False):
            if piece.kind in _OWN and (before is None or before.kind not in _OWN):
                yield self._styled("said in the model's name by the agent", "note")
            yield from self._answered(piece) if piece.kind in _OWN else self._told(piece)
        for piece in turn.answer:
            yield from self._answered(piece)
        if turn.error is not None:
            yield self._styled("error", "error")
            yield from self._body(turn.error, None)
        yield self._styled(plain(_taken(turn)), "faint")
        self._before = turn.index

    def silent(self, events: str) -> Iterator[str]:
        """A session without an exchange: the end of the agent's own event stream is all that there is to read."""
        yield from self._fitted(self._silent(events))

    def _silent(self, events: str) -> Iterator[str]:
        yield ""
        yield "the relay kept no exchange of this session"
        if events.strip():
            yield "the agent's event stream, its end"
            yield from self._body(events, "events")

    def ending(self, row: SessionRow | None, stderr: str) -> Iterator[str]:
        """Why a session that was not done ended, and the last of what its agent wrote on standard error."""
        yield from self._fitted(self._ending(row, stderr))

    def _ending(self, row: SessionRow | None, stderr: str) -> Iterator[str]:
        yield ""
        if row is not None and row.reason:
            yield self._styled(plain(f"ended: {row.outcome}: {row.reason}"), "error")
        if stderr.strip():
            yield "standard error, its end"
            yield from self._body(stderr, None)

    def _notes(self, turn: Turn) -> Iterator[str]:
        if turn.purpose != "turn":
            yield f"for: {turn.purpose}"
        if turn.history == "same":
            yield f"the same again as request {turn.after}"
        elif turn.history == "changed":
            yield (
                f"history changed: the first {_pieces(turn.kept)} of request {turn.after} and no more of it"
                f" ({turn.dropped:,} gone){_again(turn.repeated)}"
            )
        elif turn.history == "other":
            anew = f"history begun anew{_again(turn.repeated)}"
            yield anew if turn.repeated else "another conversation: shares nothing with the requests before it"
        elif turn.after is not None and turn.after != self._before:
            yield f"goes on from request {turn.after}"

    def _system(self, text: str) -> Iterator[str]:
        yield self._styled(f"system, {len(text):,} characters" if text else "system: none any more", "faint")
        yield from self._body(text, "system", count=False, style="faint")

    def _told(self, piece: Piece) -> Iterator[str]:
        """A piece of a request."""
        match piece.kind:
            case "result":
                yield self._styled(f"← {self._calls.get(piece.call, 'result of a call that is not shown')}", "result")
            case "user":
                yield "user" if self._prompted else "prompt"
                self._prompted = True
            case "other":
                yield self._styled(f"[{plain(piece.text)[:_LONGEST]}]", "faint")
                return
        yield from self._body(piece.text, piece.kind)

    def _answered(self, piece: Piece) -> Iterator[str]:
        """A piece of an answer."""
        if piece.kind == "call":
            short = call_line(piece)
            self._calls[piece.call] = short if len(short) <= _NAMED else f"{short[:_NAMED]}…"
            if len(self._calls) > _CALLS:
                self._calls.popitem(last=False)
            yield self._styled(f"→ {short}", "call")
            for name, text in arguments_of(piece) if self._look.full else ():
                yield self._styled(f"  {name}", "faint")
                yield from self._body(text, None)
        elif piece.kind == "thinking":
            yield self._styled("thinking", "faint")
            yield from self._body(piece.text, "thinking", style="faint")
        else:
            yield "answer"
            yield from self._body(piece.text, None)

    def _body(self, text: str, kind: str | None, *, count: bool = True, style: str | None = None) -> Iterator[str]:
        """Untrusted text, indented; folded as its kind is, unless all is asked for."""
        lines = text.strip("\r\n").splitlines()
        most = None if self._look.full or kind is None else _FOLDS.get(kind)
        hidden = 0 if most is None else len(lines) - most
        if hidden == 1:
            most, hidden = len(lines), 0  # to say that a line is missing takes a line
        for line in lines[:most]:
            shown = plain(_ESCAPE.sub("", line.expandtabs(4)))
            if most is not None and len(shown) > _LONGEST:
                shown = f"{shown[:_LONGEST]} … {len(shown) - _LONGEST:,} more characters"
            for part in self._wrapped(shown):
                yield self._styled(f"{_INDENT}{part}".rstrip(), style)
        if hidden > 0 and count:
            yield self._styled(f"{_INDENT}… {hidden:,} more lines", "faint")

    def _wrapped(self, line: str) -> Iterable[str]:
        if self._look.width is None:
            return [line]
        room = max(_NARROWEST, self._look.width - len(_INDENT))
        return textwrap.wrap(line, room, replace_whitespace=False) or [""]

    def _fitted(self, lines: Iterable[str]) -> Iterator[str]:
        """Lines of ours that are wider than a terminal go on below, indented; untrusted text was wrapped before."""
        for line in lines:
            found = _STYLED.fullmatch(line)
            if self._look.width is None or found is None:
                yield line
                continue
            before, text, after = found.groups(default="")
            width = max(len(_INDENT) + _NARROWEST, self._look.width)
            for part in textwrap.wrap(text, width, subsequent_indent=_INDENT) if len(text) > width else [text]:
                yield f"{before}{part}{after}"

    def _styled(self, text: str, style: str | None) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and text and self._look.colour else text


def _taken(turn: Turn) -> str:
    """Finish reason, tokens, seconds; what is not known is left out."""
    prompt = None if turn.prompt_tokens is None else f"prompt {turn.prompt_tokens:,}"
    if prompt is not None and turn.cached_tokens is not None:
        prompt += f" ({turn.cached_tokens:,} cached)"
    output = None if turn.output_tokens is None else f"output {turn.output_tokens:,}"
    if output is not None and turn.reasoning_tokens:
        output += f" ({turn.reasoning_tokens:,} reasoning)"
    status = "no answer" if turn.status is None else None if turn.status == 200 else f"HTTP {turn.status}"
    return "· " + _joined(status, turn.finish_reason, prompt, output, written(turn.seconds, "s"))


def _pieces(count: int) -> str:
    return f"{count:,} piece{'' if count == 1 else 's'}"


def _again(count: int) -> str:
    return f"; {_pieces(count)} from before {'is' if count == 1 else 'are'} in it" if count else ""


def _instant(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"


def _joined(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)
