"""Reads the session file of Codex (`rollout-*.jsonl`; seen from its version 0.171.0): what each response used.

    token_usage_record  payload {response_id, usage {input_tokens, cached_input_tokens, output_tokens, ...}}
    response_item       payload {type: reasoning, message, function_call, ...}
    event_msg           payload {type: item_completed, item {type: CommandExecution, ...}, started_at_ms, completed_at_ms}
    compacted           the history was summarised

Its counts mean: `input_tokens` INCLUDES cached ones, `output_tokens` includes reasoning. Zeros stand for both nothing and
not told; a usage of zeros only was not told at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.agents.event_lines import EventLines
from bench.agents.told import Claims, count, covered, from_milliseconds, mapping, name, text, without

_NOT_CARRIED_OUT = ("unsupported call", "failed to parse function arguments")
"""How the output of a call begins that names no tool there is, or whose arguments cannot be read."""

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_TOOLS = ("CommandExecution", "FileChange", "McpToolCall")


class Rollout:
    """One session file of any quality."""

    def __init__(self, path: Path, session: int) -> None:
        self.there = path.exists()
        self.claims = Claims(session)
        self.compactions = self.tool_calls = 0
        self._spans: list[tuple[float, float]] = []
        self._thought = False
        self._calls = self._asked = self._unusable = self._turns = 0
        """Calls since the last usage record; calls of the answer that it closed, and how many of them nobody could
        carry out; such answers in a row before it."""

        lines = EventLines(path)
        for entry in lines if self.there else ():
            self._read(entry)
        self.damage = lines.damage

    @property
    def tool_seconds(self) -> float | None:
        return covered(self._spans) if self.there else None

    @property
    def unusable_turns(self) -> int:
        """See `AgentEvents.unusable_turns`."""
        return self._turns + 1 if self._asked and self._unusable >= self._asked else 0

    def _read(self, entry: dict[str, Any]) -> None:
        payload = mapping(entry.get("payload"))
        match entry.get("type"):
            case "token_usage_record":
                claim_usage(
                    self.claims,
                    mapping(payload.get("usage")),
                    response_id=name(payload.get("response_id")),
                    thought=self._thought,
                )
                self._thought = False
                self._turns = self.unusable_turns
                self._asked, self._calls, self._unusable = self._calls, 0, 0
            case "response_item":
                self._thought = self._thought or payload.get("type") == "reasoning"
                called = payload.get("type") in _CALLS
                self.tool_calls += called
                self._calls += called
                self._unusable += text(payload.get("output")).startswith(_NOT_CARRIED_OUT)
            case "compacted":
                self.compactions += 1
            case "event_msg" if mapping(payload.get("item")).get("type") in _TOOLS:
                begin, end = (from_milliseconds(payload.get(key)) for key in ("started_at_ms", "completed_at_ms"))
                if begin is not None and end is not None and begin <= end:
                    self._spans.append((begin, end))


def claim_usage(claims: Claims, usage: dict[str, Any], *, response_id: str | None, thought: bool) -> None:
    """Adds what one usage of Codex says; its zeros are taken for nothing only where that can be."""
    prompt, cached = count(usage.get("input_tokens")), count(usage.get("cached_input_tokens"))
    output, reasoning = count(usage.get("output_tokens")), count(usage.get("reasoning_output_tokens"))
    if not prompt:  # no prompt is empty: the answer came without usage
        prompt = cached = None
        output = output or None
    fresh = without(prompt, cached)
    claims.add(
        fresh=fresh,
        cached=None if fresh is None else cached,
        output=output,
        reasoning=None if output is None or (reasoning == 0 and thought) else reasoning,
        response_id=response_id,
    )
