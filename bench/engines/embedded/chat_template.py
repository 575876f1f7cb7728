"""Renders messages and tools to the tokens of a prompt, and an answer to the tokens that generate it.

Both use one function for assistant messages, so an answer that is sent back as history becomes exactly the tokens
that were generated: the next prompt begins with the whole state of the last request. Reasoning belongs to a message
if the client sends it back as `reasoning_content`; a client that leaves it out shares the state only up to the end of
the last prompt. Ids of tool calls are not rendered. Arguments are rendered compactly, whatever spacing they came in.

Marks (`<|user|>`, `<|end|>` ...) are placed by the template, not sampled: they count as prompt tokens where they stand
in a prompt, never as output tokens. A tool's name is one token of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from bench.engines.embedded.chat_request import ChatRequest, ToolCall
from bench.engines.embedded.refusal import bad_request
from bench.engines.embedded.tokeniser import tokenise

Channel = Literal["mark", "reasoning", "content", "name", "arguments"]

END = "<|end|>"
_ASSISTANT = "<|assistant|>"
_CALL = "<|call|>"
MARKS = (END, _ASSISTANT, _CALL, "<|think|>", "<|/think|>", "<|system|>", "<|user|>", "<|tool|>", "<|tools|>")


class Token(NamedTuple):
    """A token of an assistant message and the place where a client is shown it."""

    text: str
    channel: Channel
    call: int = 0
    """Index of the tool call that a `name` or `arguments` token belongs to."""


def prompt_tokens(request: ChatRequest) -> list[str]:
    """The whole prompt, up to the mark after which the assistant speaks. Raises Refusal for tools it cannot list."""
    tokens: list[str] = []
    if request.tools:
        listed = _listed(request)
        tokens += ["<|tools|>", *tokenise(listed), END]
    for message in request.messages:
        if message.role == "assistant":
            tokens.append(_ASSISTANT)
            tokens += (token.text for token in assistant_tokens(message.reasoning, message.content, message.calls))
        else:
            role = "system" if message.role == "developer" else message.role
            tokens += [f"<|{role}|>", *tokenise(message.content), END]
    tokens.append(_ASSISTANT)
    return tokens


def _listed(request: ChatRequest) -> str:
    try:
        return json.dumps([tool.source for tool in request.tools], ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise bad_request("'tools' is nested too deeply.", param="tools") from error


def assistant_tokens(reasoning: str, content: str, calls: Sequence[ToolCall]) -> Iterator[Token]:
    """What follows the assistant's mark, its end mark included."""
    if reasoning:
        yield Token("<|think|>", "mark")
        yield from (Token(text, "reasoning") for text in tokenise(reasoning))
        yield Token("<|/think|>", "mark")
    yield from (Token(text, "content") for text in tokenise(content))
    for index, call in enumerate(calls):
        yield Token(_CALL, "mark")
        yield Token(call.name, "name", index)
        yield Token("<|call|>", "mark")
        yield from (Token(text, "arguments", index) for text in tokenise(compact(call.arguments)))
    yield Token(END, "mark")


def compact(arguments: str) -> str:
    """JSON without spaces between its parts; text that is no JSON stays as it is."""
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments
