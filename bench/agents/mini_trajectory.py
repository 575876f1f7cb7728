"""Reads the trajectories of mini-swe-agent (`*.json`, one file a session): it keeps the engine's own usage, unchanged."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from bench.agents.kept_sessions import KeptSession, SessionFiles, Span, unreadable
from bench.records.schema import UsageRecord

FILE_BYTES = 64_000_000
_TOKENS_MAX = 10**9
_NAME_CHARACTERS = 200
_FINISHED = "Submitted"


def read_trajectory(path: Path, session: int) -> KeptSession:
    """One trajectory of any quality; what is no whole JSON object gives nothing but its damage.

    Requests that failed are not in the file: only the name of what ended the session is.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return unreadable("it is no regular file")
            content = stream.read(FILE_BYTES + 1)
        data = json.loads(content) if len(content) <= FILE_BYTES else None
    except OSError as error:
        return unreadable(f"it cannot be read: {error.strerror}")
    except (ValueError, RecursionError):
        data = None
    messages = data.get("messages") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(messages, list):
        return unreadable(f"it is no JSON object with messages of at most {FILE_BYTES:,} bytes")
    answers = [one for one in messages if isinstance(one, dict) and one.get("role") == "assistant"]
    claims = tuple(_claim(_at(one, "extra", "response"), session, place) for place, one in enumerate(answers))
    ends = [at for one in messages if isinstance(one, dict) and (at := _seconds(_at(one, "extra").get("timestamp")))]
    status = str(_at(data, "info").get("exit_status") or "")[:_NAME_CHARACTERS]
    calls = [one.get("tool_calls") for one in answers]
    return KeptSession(
        started_at=min(ends, default=None),
        ended_at=max(ends, default=None),
        version=str(data.get("trajectory_format"))[:_NAME_CHARACTERS] if "trajectory_format" in data else None,
        model=next((str(model)[:_NAME_CHARACTERS] for one in answers if (model := _model(one))), None),
        claims=claims,
        spans=_spans(answers),
        tool_calls=sum(len(one) for one in calls if isinstance(one, list)),
        compactions=0,
        outcome="done" if status == _FINISHED else "interrupted",
        reason="" if status == _FINISHED else status or "the file does not say how the session ended",
        damage=None,
    )


def _claim(response: dict[str, Any], session: int, place: int) -> UsageRecord:
    prompt = _count(_at(response, "usage").get("prompt_tokens"))
    cached = _count(_at(response, "usage", "prompt_tokens_details").get("cached_tokens"))
    fresh = prompt - cached if prompt is not None and cached is not None else None
    if fresh is not None and fresh < 0:
        fresh = cached = None
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    return UsageRecord(
        session=session,
        index=place,
        response_id=_name(response.get("id")),
        input_tokens=fresh,
        cached_tokens=cached,
        output_tokens=_count(_at(response, "usage").get("completion_tokens")),
        reasoning_tokens=_count(_at(response, "usage", "completion_tokens_details").get("reasoning_tokens")),
        stop_reason=_name(first.get("finish_reason")),
        error=None,
    )


def _spans(answers: list[dict[str, Any]]) -> tuple[Span, ...] | None:
    """Only the instant of each answer is kept, so that a request is as short as a point."""
    ends = [_seconds(_at(one, "extra").get("timestamp")) for one in answers]
    known = [end for end in ends if end is not None]
    return tuple((end, end) for end in known) if len(known) == len(ends) else None


def _model(answer: dict[str, Any]) -> Any:
    return _at(answer, "extra", "response").get("model")


def _at(value: Any, *keys: str) -> dict[str, Any]:
    """The mapping below a path of keys, empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _seconds(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 < value < 10**11 else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _TOKENS_MAX else None


def _name(value: Any) -> str | None:
    return value[:_NAME_CHARACTERS].encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else None


FILES = SessionFiles(patterns=("*.json",), read=read_trajectory)
