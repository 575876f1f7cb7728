"""From a turn of the script to the tokens that the engine will generate for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.engines.embedded.chat_request import Tool, ToolCall
from bench.engines.embedded.chat_template import Token, assistant_tokens
from bench.engines.embedded.script_play import Fault, Turn
from bench.engines.embedded.tool_rendering import joined, render


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A whole answer. Marks stand in `tokens` too, but only the others are output."""

    tokens: tuple[Token, ...]
    finish_reason: str
    """`tool_calls` or `stop`, if it is not cut."""

    @property
    def output(self) -> list[Token]:
        """The sampled tokens, in order: what is counted, streamed and limited."""
        return [token for token in self.tokens if token.channel != "mark"]

    def state_after(self, output_tokens: int) -> list[str]:
        """All tokens, marks included, whose state exists once so many output tokens are generated."""
        left = output_tokens
        state = []
        for token in self.tokens:
            if token.channel != "mark":
                left -= 1
            if left < 0:
                break
            state.append(token.text)
        return state


def answer_of(turn: Turn, tools: Sequence[Tool], *, parallel: bool = False) -> Answer:
    """An intent that no offered tool can carry out is said in the answer's text instead.

    `parallel`: the client may run the calls of one answer at the same time.
    """
    rendered = render(joined(turn.intents, tools) if parallel else turn.intents, tools)
    lines = [turn.say] if turn.say else []
    if rendered.impossible:
        lines += [f"No tool here can do this: {intent.summary}" for intent in rendered.impossible]
    calls = _faulty(rendered.calls, turn.fault)
    return Answer(
        tokens=tuple(assistant_tokens(turn.think, "\n".join(lines), calls)),
        finish_reason="tool_calls" if calls else "stop",
    )


def _faulty(calls: tuple[ToolCall, ...], fault: Fault | None) -> tuple[ToolCall, ...]:
    """The calls of a turn whose fault lies in them: the last one's arguments end early, or one too many."""
    if fault is not None and fault.kind == "cut-call" and calls:
        arguments = calls[-1].arguments
        return (*calls[:-1], replace(calls[-1], arguments=arguments[: len(arguments) * 3 // 4]))
    if fault is not None and fault.kind == "unknown-tool":
        return (*calls, ToolCall(name=fault.name, arguments="{}"))
    return calls
