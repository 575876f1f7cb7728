"""What a script's fault does to an answer: it is refused, held back, or ended in a way that no good answer ends.

`refuse`      an HTTP error before anything is sent; the prompt is not computed
`reset`       a TCP RST
`cut`         an orderly end of the stream without finish reason, usage and `[DONE]`; half of a plain body
`error-event` an error object inside a stream that began with 200; a plain answer becomes status 500
`stall`       nothing more comes until the client is gone
`keep-alive`  the same, with a comment in the stream every 0.2 s
`exit`        the engine's process ends
`no-usage`    a whole answer without usage and timings
`length`      the answer ends early, with the finish reason `length`
`empty`       the answer ends at once, with the finish reason `stop`
`cut-call`    the last call's arguments end in the middle (`answers.py`)
`unknown-tool` a call of a tool that was not offered (`answers.py`)

A fault with `after_tokens` comes behind so many output tokens, or where the answer ends if that is earlier. With 0 a
break comes before the prompt is computed; `reset`, `stall` and `exit` then come before the headers, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from bench.engines.embedded.answer_writers import Connection, Writer
from bench.engines.embedded.outcome import Outcome
from bench.engines.embedded.refusal import Refusal
from bench.engines.embedded.script_play import Fault

KEEP_ALIVE_SECONDS = 0.2
_LOOK_SECONDS = 0.02
_EXIT_CODE = 1


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How an answer ends, as its truth tells it, and what is left to do on the wire once that is written."""

    say: Callable[[Outcome], None]
    chunks: int
    """Events that `say` adds."""

    finish_reason: str | None = None
    aborted: bool = False
    error: dict[str, Any] | None = None


def refusal_of(fault: Fault | None) -> Refusal | None:
    """The answer to a request whose turn is refused."""
    if fault is None or fault.kind != "refuse":
        return None
    return Refusal(
        fault.status, fault.type, fault.message, code=fault.code, retry_after_seconds=fault.retry_after_seconds
    )


def output_limit(fault: Fault | None, limit: int) -> int:
    """Output tokens that are given of `limit`."""
    if fault is None:
        return limit
    if fault.kind == "empty":
        return 0
    return min(limit, fault.after_tokens) if fault.breaks or fault.kind == "length" else limit


def begins_stream(fault: Fault) -> bool:
    """Whether a break that comes at once comes behind the headers."""
    return fault.kind in ("cut", "error-event", "keep-alive")


def hold(fault: Fault | None, writer: Writer, connection: Connection) -> None:
    """Of a stall: waits until the client is gone or the engine is stopped, which raises ClientGoneError."""
    if fault is not None and fault.kind in ("stall", "keep-alive"):
        _wait(connection, comments=fault.kind == "keep-alive" and writer.streams)


def _wait(connection: Connection, *, comments: bool) -> NoReturn:
    due = time.monotonic()
    while True:
        connection.check()
        if comments and time.monotonic() >= due:
            connection.send_comment()
            due += KEEP_ALIVE_SECONDS
        time.sleep(_LOOK_SECONDS)


def ending(fault: Fault | None, writer: Writer, connection: Connection, finish_reason: str) -> Ending:
    """The end of an answer whose tokens are all given. `finish_reason`: what a good one would say."""
    kind = None if fault is None else fault.kind
    if fault is None or not fault.breaks:
        reason = {"length": "length", "empty": "stop"}.get(kind or "", finish_reason)
        say = _untold(writer) if kind == "no-usage" else writer.finish
        return Ending(say=say, chunks=_closing_chunks(writer, kind), finish_reason=reason)
    if kind == "error-event":
        said = {"message": fault.message, "type": fault.type, "param": None, "code": fault.code}
        status = 200 if writer.streams else 500
        error = {"status": status, "type": fault.type, "code": fault.code, "message": fault.message}
        return Ending(say=lambda _: writer.fail(said), chunks=int(writer.streams), error=error)
    if kind == "cut":
        return Ending(say=lambda _: writer.cut(), chunks=0, aborted=True)
    if kind == "exit":
        return Ending(say=lambda _: os._exit(_EXIT_CODE), chunks=0, aborted=True)
    return Ending(say=lambda _: connection.reset(), chunks=0, aborted=True)


def _untold(writer: Writer) -> Callable[[Outcome], None]:
    return lambda outcome: writer.finish(replace(outcome, usage=None, timings=None))


def _closing_chunks(writer: Writer, kind: str | None) -> int:
    return min(writer.closing_chunks, 1) if kind == "no-usage" else writer.closing_chunks
