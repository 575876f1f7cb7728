"""What a chat completion request asks for: read from its JSON body, refused with a sentence where it is wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.engines.embedded.refusal import bad_request

_ROLES = ("system", "developer", "user", "assistant", "tool")
_LONGEST_NAME = 128


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call in the history; `arguments` is the text that the client sent."""

    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class Message:
    role: str
    content: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A function that the client offers, with the JSON schema of its arguments."""

    name: str
    parameters: dict[str, Any]
    source: dict[str, Any]
    """As it was sent; it is part of the prompt."""


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """The one form of a request, whichever API it came by."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    stream: bool
    include_usage: bool
    max_tokens: int | None
    parallel_calls: bool = False
    """The client says that it may run the calls of one answer at the same time."""

    @property
    def turn(self) -> int:
        """How many assistant messages the history holds: the place in a script."""
        return sum(message.role == "assistant" for message in self.messages)


def read_chat_request(body: bytes) -> ChatRequest:
    """Raises Refusal (400) naming the part that is missing or of the wrong type."""
    data = read_object(body)
    messages = typed(data, "messages", list, None)
    if not messages:
        raise bad_request("'messages' must be a list with at least one message.", param="messages")
    typed(data, "model", str, None)
    if typed(data, "n", int, 1) != 1:
        raise bad_request("'n' must be 1.", param="n")
    options = typed(data, "stream_options", dict, {})
    tools = typed(data, "tools", list, [])
    return ChatRequest(
        messages=tuple(_message(item, f"messages[{index}]") for index, item in enumerate(messages)),
        tools=()
        if data.get("tool_choice") == "none"
        else tuple(_tool(item, f"tools[{index}]") for index, item in enumerate(tools)),
        stream=typed(data, "stream", bool, False),
        include_usage=typed(options, "include_usage", bool, False),
        max_tokens=limit_of(data, "max_completion_tokens", "max_tokens"),
        parallel_calls=typed(data, "parallel_tool_calls", bool, False),
    )


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a request's body is. Raises Refusal (400) when it is none."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise bad_request("The body must be a JSON object.")
    return data


def typed(data: dict[str, Any], key: str, kind: type, default: Any, where: str = "") -> Any:
    """The value of a key; absent and null count as the default. True is no number."""
    value = data.get(key)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        names = {list: "a list", dict: "an object", str: "a string", bool: "true or false", int: "a whole number"}
        path = f"{where}.{key}" if where else key
        raise bad_request(f"'{path}' must be {names[kind]}.", param=path)
    return value


def limit_of(data: dict[str, Any], *keys: str) -> int | None:
    """The first of the keys that is there: how many output tokens the client wants at most."""
    for key in keys:
        value: int | None = typed(data, key, int, None)
        if value is not None:
            if value < 1:
                raise bad_request(f"'{key}' must be at least 1.", param=key)
            return value
    return None


def _message(item: Any, where: str) -> Message:
    if not isinstance(item, dict):
        raise bad_request(f"'{where}' must be an object.", param=where)
    role = role_of(item, where)
    calls = typed(item, "tool_calls", list, [], where) if role == "assistant" else []
    return Message(
        role=role,
        content=text_of(item.get("content"), f"{where}.content"),
        reasoning=typed(item, "reasoning_content", str, "", where) if role == "assistant" else "",
        calls=tuple(_call(call, f"{where}.tool_calls[{index}]") for index, call in enumerate(calls)),
    )


def role_of(item: dict[str, Any], where: str) -> str:
    role: str = typed(item, "role", str, "", where)
    if role not in _ROLES:
        raise bad_request(f"'{where}.role' must be one of {', '.join(_ROLES)}.", param=where)
    return role


def text_of(content: Any, where: str, kinds: Sequence[str] = ("text",)) -> str:
    """A message's content: a string, nothing, or a list of text parts, whose types are `kinds`."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    pieces = []
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) and part.get("type") in kinds else None
        if not isinstance(text, str):
            raise bad_request(f"'{where}' must be a string or a list of text parts; this engine reads text only.")
        pieces.append(text)
    return "".join(pieces)


def _call(item: Any, where: str) -> ToolCall:
    function = item.get("function") if isinstance(item, dict) else None
    if not isinstance(function, dict):
        raise bad_request(f"'{where}' must be an object with a 'function'.", param=where)
    return ToolCall(name=name_of(function, where), arguments=typed(function, "arguments", str, "", where))


def _tool(item: Any, where: str) -> Tool:
    function = item.get("function") if isinstance(item, dict) else None
    if not isinstance(function, dict):
        raise bad_request(f"'{where}' must be an object with a 'function'.", param=where)
    return Tool(name=name_of(function, where), parameters=typed(function, "parameters", dict, {}, where), source=item)


def name_of(function: dict[str, Any], where: str) -> str:
    """The name of a function that is offered or called."""
    name: str = typed(function, "name", str, "", where)
    if not 1 <= len(name) <= _LONGEST_NAME:
        raise bad_request(f"'{where}.function.name' must have 1 to {_LONGEST_NAME} characters.", param=where)
    return name
