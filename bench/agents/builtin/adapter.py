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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from bench.agents.adapters import EVENTS_FILE, AgentCommand, AgentEvents, Place, StreamEnd
from bench.agents.builtin.agent_main import NAME, TOOLS, VERSION, arguments_of
from bench.agents.event_lines import EventLines
from bench.agents.told import UnknownEvents, count, final, mapping, mappings, name, seconds, text, without
from bench.contracts import Mount, SessionRequest
from bench.errors import UsageError
from bench.records.schema import UsageRecord
from bench.spec import AgentSpec

AGENT_FILE = Path(__file__).with_name("agent_main.py")
_INSIDE = "/tools/agent/agent_main.py"


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
        unknown = UnknownEvents()
        words, end, detail = "", None, ""
        lines = EventLines(path)
        for event in lines:
            match event.get("type"):
                case "request":
                    requests += 1
                case "response" | "error":
                    usage.append(_usage_record(event, session, len(usage)))
                    words = final(event.get("text")) or words
                    unusable_turns = unusable_turns + 1 if _unusable(event.get("tool_calls")) else 0
                case "tool":
                    tool_calls += 1
                    tool_seconds += seconds(event.get("seconds")) or 0.0
                case "end":
                    reason = event.get("reason")
                    end = reason if reason in get_args(StreamEnd) else None
                    detail = text(event.get("detail"))
                    words = final(event.get("final_text"))
                case "session":
                    pass
                case other:
                    unknown.note(other)
        return AgentEvents(
            usage=tuple(usage),
            requests=requests,
            tool_calls=tool_calls,
            compactions=0,
            final_text=words,
            end=end,
            end_detail=detail,
            damage=lines.damage,
            tool_seconds=tool_seconds,
            retries=0,  # it never asks again
            unknown=dict(unknown),
            unusable_turns=unusable_turns,
        )


def open_agent(spec: AgentSpec) -> BuiltinAgent:
    if spec.args:
        raise UsageError(f"the builtin agent takes no arguments, got: {' '.join(spec.args)}")
    return BuiltinAgent()


def _usage_record(event: dict[str, Any], session: int, position: int) -> UsageRecord:
    usage = mapping(event.get("usage"))
    prompt = count(usage.get("prompt_tokens"))
    cached = count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    fresh = without(prompt, cached)
    index = count(event.get("index"))
    failed = event.get("type") == "error"
    return UsageRecord(
        session=session,
        index=position if index is None else index,
        response_id=name(event.get("id")),
        input_tokens=fresh,
        cached_tokens=None if fresh is None else cached,
        output_tokens=count(usage.get("completion_tokens")),
        reasoning_tokens=count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        stop_reason=name(event.get("finish_reason")),
        error=(text(event.get("message")) or "not said") if failed else None,
    )


def _unusable(calls: Any) -> bool:
    """Whether an answer has tool calls and none of them names a tool and has arguments that can be read."""
    given = mappings(calls)
    return bool(given) and not any(
        text(call.get("name")) in TOOLS and arguments_of({"arguments": final(call.get("arguments"))}) is not None
        for call in given
    )
