"""From a turn of the script to the tokens that the engine will generate for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.engines.embedded.chat_request import Tool
from bench.engines.embedded.chat_template import Token, assistant_tokens
from bench.engines.embedded.script_play import Turn
from bench.engines.embedded.tool_rendering import render


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


def answer_of(turn: Turn, tools: Sequence[Tool]) -> Answer:
    """An intent that no offered tool can carry out is said in the answer's text instead."""
    rendered = render(turn.intents, tools)
    lines = [turn.say] if turn.say else []
    if rendered.impossible:
        lines += [f"No tool here can do this: {intent.summary}" for intent in rendered.impossible]
    return Answer(
        tokens=tuple(assistant_tokens(turn.think, "\n".join(lines), rendered.calls)),
        finish_reason="tool_calls" if rendered.calls else "stop",
    )
