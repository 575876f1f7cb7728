"""Is an engine's prefix cache empty when a segment begins, and how is that known? Asked before the first session."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from bench.contracts import Progress, ProgressSink
from bench.engine_profile import CacheReset, EngineProfile
from bench.engines.engine_http import Answer
from bench.engines.profile import value_at

_CHAT = "/v1/chat/completions"
_RESET_SECONDS = 30.0
"""How long an engine may say that it is too busy to empty its cache."""

_PAUSE_SECONDS = 0.25
_ASK_SECONDS = 120.0
_NOT_NOW = (400, 409, 423, 425, 429, 500, 503)
"""Statuses that a busy engine answers; any other means that there is no such address."""

_PROBE_WORDS = 120
"""Random words of a probe: over 500 tokens, several blocks of any engine's cache."""


@dataclass(frozen=True, kw_only=True)
class CacheState:
    """What the first session of a segment finds in the engine's prefix cache."""

    kind: Literal["cold", "salted", "warm"]
    """`cold`: empty. `salted`: perhaps not empty, but no prompt of this run can be in it. `warm`: some may be."""

    how: str
    """How that is known, or why it is not better."""

    salt: str | None
    """A line that every prompt of the run begins with; None: no salt is needed."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.how}"


class ProvableEngine(Protocol):
    """What of an engine's handle is needed here; `LaunchedEngine` and `AttachedEngine` have it."""

    owned: bool
    profile: EngineProfile
    model: str
    disk_cache: Path | None
    """Folder of a cache that outlives the process; None: there is none."""

    warm_arg: str | None
    """An argument of a person with which a new process may find an old cache."""

    def ask(self, method: str, path: str, body: object = None, *, seconds: float = 5.0) -> Answer: ...


def prove_cold(engine: ProvableEngine, *, segment: int, earlier_salt: str | None, progress: ProgressSink) -> CacheState:
    """Empties or proves the cache at the beginning of a segment (1, 2 ...), before anything is asked of the engine.

    `earlier_salt`: the salt that earlier segments of this run used; prompts keep it. Never raises for what an engine
    does: where nothing can be proved the state says so.
    """
    if engine.owned:
        trouble, how = _fresh_process(engine.disk_cache, engine.warm_arg)
        if trouble is None:
            return CacheState(kind="cold", how=how, salt=earlier_salt)
    else:
        trouble = "an attached engine may know prompts of others"
    reset = engine.profile.reset
    if reset is not None:
        progress(Progress(text=f"{engine.profile.title}: emptying its prefix cache"))
        failed, how = _reset_and_prove(engine, reset)
        if failed is None:
            return CacheState(kind="cold", how=how, salt=earlier_salt)
        trouble = f"{trouble}; {failed}"
    else:
        trouble = f"{trouble}; its cache cannot be emptied over HTTP"
    if segment > 1:
        return CacheState(kind="warm", how=f"{trouble}; earlier segments of this run may be in it", salt=earlier_salt)
    return CacheState(
        kind="salted",
        how=f"{trouble}; every prompt begins with a line of this run's own. What an agent sends before it "
        "(its system prompt, its tools) may be warm",
        salt=f"Run {secrets.token_hex(8)}.",
    )


def _fresh_process(disk_cache: Path | None, warm_arg: str | None) -> tuple[str | None, str]:
    """Why a new process may find an old cache, or None and how it is known that it does not."""
    if warm_arg is not None:
        return f"'{warm_arg}' lets a new process use an old cache", ""
    if disk_cache is None:
        return None, "a fresh process without a cache on disk"
    left = _files(disk_cache)
    if left:
        return f"its disk cache was not empty at the start: {left} files", ""
    return None, "a fresh process, its disk cache seen empty"


def _files(folder: Path) -> int:
    """How many files lie in a folder at any depth; 0 where it does not exist."""
    return sum(1 for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def _reset_and_prove(engine: ProvableEngine, reset: CacheReset) -> tuple[str | None, str]:
    """Why the cache was not emptied, or None and how it is known that it was.

    The proof: a prompt of random words is asked twice, which the cache must show the second time; after the reset
    it is asked again, and nothing of it may be cached.
    """
    probe = " ".join(secrets.token_hex(3) for _ in range(_PROBE_WORDS))
    _probe(engine, probe)
    known = _probe(engine, probe)
    failed = _reset(engine, reset)
    if failed is not None:
        return failed, ""
    call = f"{reset.method} {reset.path}"
    if not known:
        return None, f"reset by {call}, on the engine's word: it shows no cached tokens that could prove it"
    after = _probe(engine, probe)
    if after is None:
        return f"after {call} the engine no longer tells its cached tokens", ""
    if after > 0:
        return f"{call} left {after} of {known} cached tokens", ""
    return None, f"reset by {call}, proved: a prompt with {known} cached tokens had 0 afterwards"


def _reset(engine: ProvableEngine, reset: CacheReset) -> str | None:
    """Asks for the reset until the engine is not busy. Why it was not done, or None."""
    give_up = time.monotonic() + _RESET_SECONDS
    call = f"{reset.method} {reset.path}"
    while True:
        answer = engine.ask(reset.method, reset.path, seconds=_RESET_SECONDS)
        if answer.status == 200 and (reset.expect is None or re.search(reset.expect, answer.text)):
            return None
        said = "does not answer" if answer.status is None else f"answers HTTP {answer.status}"
        if answer.status != 200 and answer.status not in _NOT_NOW:
            return f"{call} {said}"
        if time.monotonic() > give_up:
            return f"{call} still {said} after {_RESET_SECONDS:.0f} s: the engine is busy"
        time.sleep(_PAUSE_SECONDS)


def _probe(engine: ProvableEngine, text: str) -> int | None:
    """Cached tokens that the engine reports for this prompt; None where it reports none."""
    question = {
        "model": engine.model,
        "max_tokens": 1,
        "temperature": 0,
        "messages": [{"role": "user", "content": text}],
    }
    answer = engine.ask("POST", _CHAT, question, seconds=_ASK_SECONDS)
    if answer.status != 200:
        return None
    usage = value_at(answer.json(), "usage")
    places = ("prompt_tokens_details.cached_tokens", "cached_tokens")
    found = (value_at(usage, place) for place in places)
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool)), None)
