"""What does a request ask? The messages of its body in one form, from chat, completions, responses and messages.

Bodies are the agent's to write: any bytes give something, or None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure.message_kinds import CALLS, RESULTS, SYSTEM_ROLES, THOUGHTS, TOOL_ROLES

_UNSAID = frozenset(
    {
        "type",
        "id",
        "status",
        "annotations",
        "cache_control",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "thinking",
        "signature",
        "encrypted_content",
    }
)
"""Keys that agents add to, and take from, messages that they send again."""

_OURS = ("assistant", *TOOL_ROLES, *CALLS, *RESULTS)
"""Roles and types of what model and tools said."""

_TEXT_CHARACTERS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestBody:
    """One request as far as its messages tell what it is for."""

    messages: Sequence[Any]
    """As they were sent, the system's left out; anything at all may stand in it."""

    systems: int
    """How many messages of the system's stood among them."""

    tools: int
    """How many tools it offers."""

    follows: bool
    """It names an earlier answer instead of sending the history again."""


def read_request_body(body: bytes) -> RequestBody | None:
    """The body in one form; None where it is no JSON object with messages."""
    try:
        found = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    said = next((found[key] for key in ("messages", "input", "prompt") if found.get(key) is not None), None)
    listed = said if isinstance(said, list) else [said] if isinstance(said, str) else None
    if listed is None:
        return None
    tools = found.get("tools")
    messages = [one for one in listed if not (isinstance(one, dict) and one.get("role") in SYSTEM_ROLES)]
    return RequestBody(
        messages=messages,
        systems=len(listed) - len(messages),
        tools=len(tools) if isinstance(tools, list) else 0,
        follows=isinstance(found.get("previous_response_id"), str),
    )


def gist(message: Any) -> int:
    """A number that two messages share if they say the same: role, texts, calls; not how they are marked or thought of."""
    return hash(tuple(_strings(message)))


def message_text(message: Any) -> str:
    """All that a message says, its parts joined by line ends; at most its first million characters."""
    parts, size = [], 0
    for text in _strings(message):
        parts.append(text)
        size += len(text)
        if size > _TEXT_CHARACTERS:
            break
    return "\n".join(parts)[:_TEXT_CHARACTERS]


def answered_texts(message: Any) -> Iterator[str]:
    """The texts in a message that came from the model or from a tool; none of what a person or the system said."""
    if not isinstance(message, dict):
        return
    content = message.get("content", message.get("output"))
    if message.get("role") in _OURS or message.get("type") in _OURS:
        yield from _strings(content)
    elif isinstance(content, list):  # the messages API puts what tools said into the user's message
        for block in content:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                yield from _strings(block.get("content"))


def _strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value, in one fixed order, whatever its depth; what is hidden or only marks is left out."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, dict):
            kind = one.get("type")
            if isinstance(kind, str) and kind in THOUGHTS:
                continue
            waiting.extend(part for key, part in reversed(one.items()) if key not in _UNSAID)
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield repr(one)
