"""Reads the trajectories of mini-swe-agent (`*.json`, one file a session): it keeps the engine's own usage, unchanged."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from bench.agents.kept_sessions import KeptSession, SessionFiles, Span, unreadable
from bench.agents.told import NAME_CHARACTERS, count, instant, mapping, name, without
from bench.records.schema import UsageRecord

FILE_BYTES = 64_000_000
FINISHED = "Submitted"
"""Exit status of a session that the agent itself ended as done."""


def read_trajectory(path: Path, session: int) -> KeptSession:
    """One trajectory of any quality; what is no whole JSON object gives nothing but its damage.

    Requests that failed are not in the file: only the name of what ended the session is.
    """
    data, damage = load_trajectory(path)
    if damage is not None:
        return unreadable(damage)
    messages = data["messages"]
    answers = [one for one in messages if isinstance(one, dict) and one.get("role") == "assistant"]
    answered = responses(messages)
    ends = [at for one in messages if isinstance(one, dict) and (at := instant(_at(one, "extra").get("timestamp")))]
    status = exit_status(data)
    calls = [one.get("tool_calls") for one in answers]
    return KeptSession(
        started_at=min(ends, default=None),
        ended_at=max(ends, default=None),
        version=str(data.get("trajectory_format"))[:NAME_CHARACTERS] if "trajectory_format" in data else None,
        model=next((str(model)[:NAME_CHARACTERS] for one in answers if (model := _model(one))), None),
        claims=claims_of(answered, session),
        spans=_spans(answered),
        tool_calls=sum(len(one) for one in calls if isinstance(one, list)),
        compactions=0,
        outcome="done" if status == FINISHED else "interrupted",
        reason="" if status == FINISHED else status or "the file does not say how the session ended",
        damage=None,
    )


def load_trajectory(path: Path) -> tuple[dict[str, Any], str | None]:
    """The file's object, whose `messages` is a list, or an empty one and what is wrong with the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return {}, "it is no regular file"
            content = stream.read(FILE_BYTES + 1)
        data = json.loads(content) if len(content) <= FILE_BYTES else None
    except OSError as error:
        return {}, f"it cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("messages"), list):
        return {}, f"it is no JSON object with messages of at most {FILE_BYTES:,} bytes"
    return data, None


def responses(messages: list[Any]) -> list[dict[str, Any]]:
    """Every message that holds an answer of the model; one that the agent could not use stands in its own complaint."""
    found = [one for one in messages if isinstance(one, dict)]
    return [one for one in found if one.get("role") == "assistant" or _at(one, "extra", "response")]


def exit_status(data: dict[str, Any]) -> str:
    """`Submitted`, the name of a limit or of an exception; empty where the session was still going on."""
    return str(_at(data, "info").get("exit_status") or "")[:NAME_CHARACTERS]


def asks_once(data: dict[str, Any]) -> bool:
    """Whether its settings allow no second try. What they say is all that the file tells of tries."""
    kwargs = _at(data, "info", "config", "model", "model_kwargs")
    return all(type(kwargs.get(key)) is int and kwargs[key] == 0 for key in ("max_retries", "num_retries"))


def claims_of(answered: list[dict[str, Any]], session: int) -> tuple[UsageRecord, ...]:
    return tuple(_claim(_at(one, "extra", "response"), session, place) for place, one in enumerate(answered))


def _claim(response: dict[str, Any], session: int, place: int) -> UsageRecord:
    prompt = count(_at(response, "usage").get("prompt_tokens"))
    cached = count(_at(response, "usage", "prompt_tokens_details").get("cached_tokens"))
    output = count(_at(response, "usage").get("completion_tokens"))
    reasoning = count(_at(response, "usage", "completion_tokens_details").get("reasoning_tokens"))
    if not prompt:  # no prompt is empty: litellm writes zeros where the engine told no usage
        prompt = cached = None
        output, reasoning = output or None, reasoning or None
    fresh = without(prompt, cached)
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    return UsageRecord(
        session=session,
        index=place,
        response_id=name(response.get("id")),
        input_tokens=fresh,
        cached_tokens=None if fresh is None else cached,
        output_tokens=output,
        reasoning_tokens=reasoning,
        stop_reason=name(first.get("finish_reason")),
        error=None,
    )


def _spans(answers: list[dict[str, Any]]) -> tuple[Span, ...] | None:
    """Only the instant of each answer is kept, so that a request is as short as a point."""
    ends = [instant(_at(one, "extra").get("timestamp")) for one in answers]
    known = [end for end in ends if end is not None]
    return tuple((end, end) for end in known) if len(known) == len(ends) else None


def _model(answer: dict[str, Any]) -> Any:
    return _at(answer, "extra", "response").get("model")


def _at(value: Any, *keys: str) -> dict[str, Any]:
    """The mapping below a path of keys, empty where there is none."""
    for key in keys:
        value = mapping(value).get(key)
    return mapping(value)


FILES = SessionFiles(patterns=("*.json",), read=read_trajectory)
