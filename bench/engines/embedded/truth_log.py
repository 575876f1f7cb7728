"""What the engine really did, one JSON line a request to the model: for tests that ask how far a reported figure is off.

A line is written before the last bytes of the answer are sent, so whoever has read an answer to its end finds its
line. Refused and aborted requests have one too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TruthLine:
    """Counts are tokens. None: the request did not come that far.

    Seconds are modelled ones; instants (`*_at`) are real seconds of the machine's monotonic clock.
    """

    session: str | None
    """The session header as it came."""

    response_id: str
    stream: bool
    turn: int | None = None
    """Place in the script's session: the model's answers in the request."""

    prompt_tokens: int | None = None
    """Whole prompt, cached part included."""

    cached_tokens: int | None = None
    cached_ram_tokens: int | None = None
    cached_ssd_tokens: int | None = None
    output_tokens: int | None = None
    """Reasoning included."""

    reasoning_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    decode_steps: int | None = None
    queue_seconds: float | None = None
    restore_seconds: float | None = None
    prefill_seconds: float | None = None
    ttft_seconds: float | None = None
    """Restore and prefill; not the queue."""

    decode_seconds: float | None = None
    """From the first token on."""

    chunks: int = 0
    """Events of the stream, `[DONE]` not counted; 0 of an answer in one piece."""

    finish_reason: str | None = None
    error: dict[str, Any] | None = None
    """Status, type, code and message of a refusal; of an error inside a stream the status is 200."""

    aborted: bool = False
    """The client went away, the engine was stopped, or a fault broke the answer off before its end was said."""

    fault: str | None = None
    """Kind of the script's fault that this request landed on."""

    received_at: float
    first_token_at: float | None = None
    ended_at: float


class TruthLog:
    """Appends lines and flushes each. Without a path it keeps nothing. Safe for threads."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("a", encoding="utf-8")
        self._lock = Lock()

    def write(self, line: TruthLine) -> None:
        if self._file is None:
            return
        text = json.dumps(asdict(line), separators=(",", ":"))
        with self._lock:
            self._file.write(text + "\n")
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
