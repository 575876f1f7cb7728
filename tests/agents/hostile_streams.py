"""Event streams of no good will, for the readers of all agents: any JSON in the places that a reader looks at."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import strategies as st

from bench.agents.adapters import AgentEvents

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def objects(*names: str, depth: int = 2):
    """JSON objects with these keys (and values that may be such objects again), or anything."""
    value = JSON if depth == 0 else JSON | objects(*names, depth=depth - 1) | st.lists(JSON, max_size=2)
    return st.dictionaries(st.sampled_from(names), value, max_size=6)


def events(kinds: tuple[str, ...], *names: str):
    """Some events of these kinds, with any of these keys."""
    one = st.builds(
        lambda kind, rest: {**rest, "type": kind, "event": kind}, st.sampled_from(kinds) | JSON, objects(*names)
    )
    return st.lists(one, max_size=6)


def write(path: Path, entries) -> Path:
    path.write_bytes("".join(json.dumps(entry) + "\n" for entry in entries).encode("utf-8", "surrogatepass"))
    return path


def is_sound(read: AgentEvents) -> bool:
    """Whether nothing impossible is said; encodes all of it."""
    repr(read).encode()
    for place, one in enumerate(read.usage):
        told = (one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens)
        assert one.index == place
        assert all(number is None or number >= 0 for number in told)
        assert one.reasoning_tokens is None or one.output_tokens is None or one.reasoning_tokens <= one.output_tokens
    assert read.requests >= len(read.usage)
    assert read.tool_calls >= 0
    assert read.tool_seconds is None or read.tool_seconds >= 0
    read.final_text.encode()
    return True
