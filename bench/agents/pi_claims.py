"""What Pi says of one model call, in the one meaning of `UsageRecord`; the same in its event stream and session file.

Pi's counts mean: `input` is what was neither read from the cache nor written to it, `cacheWrite` what was written, so
the prompt is `input + cacheRead + cacheWrite`; `output` includes reasoning. Zeros stand for both nothing and not told:

* a response whose counts are all 0 was answered without usage; none of its counts is known
* `reasoning` 0 beside thinking that is there was not told; version 0.73 never tells it
"""

from __future__ import annotations

import re
from typing import Any

from bench.agents.told import count, final, mapping, mappings, name, text
from bench.records.schema import UsageRecord

FAILED = ("error", "aborted")
_NO_SUCH_TOOL = re.compile(r"Tool .{1,200} not found")


class PiClaims:
    """Collects the claims of one session, in order."""

    def __init__(self, session: int) -> None:
        self.claims: list[UsageRecord] = []
        self.tool_calls = 0
        self.nested = 0
        """Tool results that carry usage of model calls of their own."""

        self.stop: str | None = None
        """Stop reason of the last assistant message."""

        self.error = ""
        """What it said, if it failed."""

        self.text = ""
        """Its text."""

        self._session = session
        self._turns = 0
        """Answers in a row, up to the last one, whose tool calls were all unusable; the last one's not yet counted."""

        self._calls = self._unusable = 0
        """Tool calls of the last answer, and how many of them could be of no use."""

    @property
    def unusable_turns(self) -> int:
        """See `AgentEvents.unusable_turns`. Version 0.73 repairs arguments that end too early, and tells nothing."""
        return self._turns + 1 if self._calls and self._unusable >= self._calls else 0

    @property
    def nested_said(self) -> str | None:
        return (
            f"{self.nested} tool results carry the usage of calls of their own, which is not counted"
            if self.nested
            else None
        )

    def message(self, message: dict[str, Any]) -> bool:
        """Takes one message; True if it is an assistant's, which is a claim."""
        if message.get("role") == "toolResult":
            self.nested += bool(mapping(message.get("usage")))
            self._unusable += message.get("isError") is True and bool(_NO_SUCH_TOOL.match(_said(message)))
        if message.get("role") != "assistant":
            return False
        parts = mappings(message.get("content"))
        calls = [part for part in parts if part.get("type") == "toolCall"]
        self.tool_calls += len(calls)
        self._turns = self.unusable_turns
        self._calls, self._unusable = len(calls), sum("argumentsError" in call for call in calls)
        self.text = final("\n".join(final(part.get("text")) for part in parts if part.get("type") == "text"))
        thought = any(part.get("type") == "thinking" and part.get("thinking") for part in parts)
        self.stop = name(message.get("stopReason"))
        failed = self.stop in FAILED
        self.error = text(message.get("errorMessage")) or "not said" if failed else ""
        self._claim(
            mapping(message.get("usage")),
            thought=thought,
            response_id=name(message.get("responseId")),
            stop_reason=self.stop,
            error=self.error if failed else None,
        )
        return True

    def beside(self, holder: dict[str, Any], kind: str) -> bool:
        """A model call that is no message of the conversation, where it tells its usage; False where it does not."""
        usage = mapping(holder.get("usage"))
        if usage:
            response_id = name(holder.get("responseId"))
            self._claim(usage, thought=False, response_id=response_id, stop_reason=kind, error=None)
        return bool(usage)

    def _claim(
        self,
        usage: dict[str, Any],
        *,
        thought: bool,
        response_id: str | None,
        stop_reason: str | None,
        error: str | None,
    ) -> None:
        fresh, written, cached = (count(usage.get(key)) for key in ("input", "cacheWrite", "cacheRead"))
        output, reasoning = count(usage.get("output")), count(usage.get("reasoning"))
        if not fresh and not written and not cached:
            fresh = cached = None  # no prompt is empty
            output = output or None
        if output is None or (reasoning is not None and (reasoning > output or (reasoning == 0 and thought))):
            reasoning = None
        self.claims.append(
            UsageRecord(
                session=self._session,
                index=len(self.claims),
                response_id=response_id,
                input_tokens=None if fresh is None else fresh + (written or 0),
                cached_tokens=cached,
                output_tokens=output,
                reasoning_tokens=reasoning,
                stop_reason=stop_reason,
                error=error,
            )
        )


def _said(message: dict[str, Any]) -> str:
    """The first text of a message."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return next((text(mapping(part).get("text")) for part in parts), "")
