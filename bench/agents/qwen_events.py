"""Reads Qwen Code's event stream (`qwen -o stream-json`; seen from its version 0.24.4): in Claude Code's form, with counts of another meaning.

`input_tokens` INCLUDES `cache_read_input_tokens`; reasoning is part of `output_tokens` and not told apart. An answer comes as
one event for each of its blocks, and only the last tells its usage; the others are all zeros. The ids of its messages are its own.
Its session file does tell reasoning, but as an estimate from the text where the engine told none, and nothing says which it is:
the file is not kept. Of second tries it tells those after an answer that broke off or was empty, each once or twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.agents.adapters import AgentEvents
from bench.agents.claude_events import Counts, read_claude_like
from bench.agents.told import count, without

_API_ERROR = "[API Error"


def read_events(folder: Path, session: int) -> AgentEvents:
    """What a session's event stream says, of any quality."""
    return read_claude_like(
        folder,
        session,
        qwen_counts,
        errors_begin=_API_ERROR,
        names_responses=False,
        tells_retries=False,
        tells_compactions=False,
    )


def qwen_counts(usage: dict[str, Any]) -> Counts:
    prompt, cached = count(usage.get("input_tokens")), count(usage.get("cache_read_input_tokens"))
    if not prompt:
        prompt = cached = None  # no prompt is empty
    fresh = without(prompt, cached)
    return Counts(
        fresh=fresh,
        cached=None if fresh is None else cached,
        output=count(usage.get("output_tokens")) or None,
        reasoning=None,
    )
