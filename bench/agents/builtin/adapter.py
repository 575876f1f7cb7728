"""Starts the embedded agent in a box and reads its events.

Events of `agent_main.py`, one JSON object a line:

    session   agent, version, model, context_window
    request   index, messages (how many it sent)
    response  index, id, finish_reason, usage (as reported), text, tool_calls
    tool      index, name, ok, seconds, characters
    error     index, id, status, message, error_type
    end       reason (done, length, limit, engine-error, agent-error), detail, final_text, requests
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from bench.agents.adapters import EVENTS_FILE, AgentCommand, AgentEvents, Place, StreamEnd
from bench.agents.builtin.agent_main import NAME, TOOLS, VERSION, arguments_of
from bench.agents.event_lines import EventLines
from bench.contracts import Mount, SessionRequest
from bench.errors import UsageError
from bench.records.schema import UsageRecord
from bench.spec import AgentSpec

AGENT_FILE = Path(__file__).with_name("agent_main.py")
_INSIDE = "/tools/agent/agent_main.py"
_TEXT_CHARACTERS = 200_000
_NAME_CHARACTERS = 200
_SECONDS_MAX = 604_800
_TOKENS_MAX = 10**9
"""A count over this is no count."""


class BuiltinAgent:
    """See `adapters.Adapter`."""

    speaks_unix = True
    api = "/v1/chat/completions"

    def __init__(self) -> None:
        self.name = NAME
        digest = hashlib.sha256(AGENT_FILE.read_bytes()).hexdigest()
        self.version = f"{VERSION} (sha256 {digest[:12]})"

    @property
    def configuration(self) -> Mapping[str, Any]:
        return {}

    def check_installed(self) -> None:
        """It is part of the harness."""

    def probe(self, place: Place) -> AgentCommand | None:  # noqa: ARG002 - what starts the harness starts it
        return None

    def command(self, request: SessionRequest, place: Place) -> AgentCommand:
        mount = Mount(source=AGENT_FILE, target=_INSIDE)
        # -S: nothing of site-packages is needed, and looking for it is a good part of the start-up.
        argv = ["python3", "-I", "-S", place.mounted(mount), "--url", place.url, "--model", request.model]
        argv += ["--max-tokens", str(request.output_tokens_per_request), "--max-requests", str(request.requests)]
        if request.context_window is not None:
            argv += ["--context-window", str(request.context_window)]
        # A prompt may quote what a model wrote, lone surrogates included.
        return AgentCommand(argv=tuple(argv), mounts=(mount,), stdin=request.prompt.encode("utf-8", "replace"))

    def read_events(self, folder: Path, session: int) -> AgentEvents:
        return self.read_stream(folder / EVENTS_FILE, session)

    def read_stream(self, path: Path, session: int) -> AgentEvents:
        """Reads one file of events."""
        usage: list[UsageRecord] = []
        requests = tool_calls = unusable_turns = 0
        tool_seconds = 0.0
        unknown: Counter[str] = Counter()
        text, end, detail = "", None, ""
        lines = EventLines(path)
        for event in lines:
            match event.get("type"):
                case "request":
                    requests += 1
                case "response" | "error":
                    usage.append(_usage_record(event, session, len(usage)))
                    text = _text(event.get("text")) or text
                    unusable_turns = unusable_turns + 1 if _unusable(event.get("tool_calls")) else 0
                case "tool":
                    tool_calls += 1
                    tool_seconds += _seconds(event.get("seconds"))
                case "end":
                    reason = event.get("reason")
                    end = reason if reason in get_args(StreamEnd) else None
                    detail = _text(event.get("detail"))
                    text = _text(event.get("final_text"))
                case "session":
                    pass
                case other:
                    unknown[_text(other)[:_NAME_CHARACTERS] or "without a name"] += 1
        return AgentEvents(
            usage=tuple(usage),
            requests=requests,
            tool_calls=tool_calls,
            compactions=0,
            final_text=text,
            end=end,
            end_detail=detail,
            damage=lines.damage,
            tool_seconds=tool_seconds,
            unknown=dict(unknown),
            unusable_turns=unusable_turns,
        )


def open_agent(spec: AgentSpec) -> BuiltinAgent:
    if spec.args:
        raise UsageError(f"the builtin agent takes no arguments, got: {' '.join(spec.args)}")
    return BuiltinAgent()


def _usage_record(event: dict[str, Any], session: int, position: int) -> UsageRecord:
    usage = _mapping(event.get("usage"))
    prompt = _count(usage.get("prompt_tokens"))
    cached = _count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    fresh = prompt - cached if prompt is not None and cached is not None else None
    if fresh is not None and fresh < 0:
        fresh = cached = None
    index = _count(event.get("index"))
    failed = event.get("type") == "error"
    return UsageRecord(
        session=session,
        index=position if index is None else index,
        response_id=_text(event.get("id"))[:_NAME_CHARACTERS] or None,
        input_tokens=fresh,
        cached_tokens=cached,
        output_tokens=_count(usage.get("completion_tokens")),
        reasoning_tokens=_count(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        stop_reason=_text(event.get("finish_reason"))[:_NAME_CHARACTERS] or None,
        error=(_text(event.get("message"))[:4000] or "not said") if failed else None,
    )


def _unusable(calls: Any) -> bool:
    """Whether an answer has tool calls and none of them names a tool and has arguments that can be read."""
    if not isinstance(calls, list) or not calls:
        return False
    given = [_mapping(call) for call in calls]
    return not any(
        _text(call.get("name")) in TOOLS and arguments_of({"arguments": _text(call.get("arguments"))}) is not None
        for call in given
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _TOKENS_MAX else None


def _seconds(value: Any) -> float:
    return float(value) if type(value) in {int, float} and 0 <= value <= _SECONDS_MAX else 0.0


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """The end of a string that is not too long for anybody, without lone surrogates; empty when it is no string."""
    return value[-_TEXT_CHARACTERS:].encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""
