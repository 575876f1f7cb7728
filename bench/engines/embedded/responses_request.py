"""What a request of OpenAI's Responses API asks for, read into the same form as a chat request.

The items of one answer (its reasoning, its message, its calls) become one assistant message, as chat clients send it,
so both APIs make the same prompt of the same conversation and stand at the same turn of a script. Items and tools that
a model without server-side tools knows nothing of (web search, tool namespaces, compaction ...) are passed over.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from bench.engines.embedded.chat_request import (
    ChatRequest,
    Message,
    Tool,
    ToolCall,
    limit_of,
    name_of,
    read_object,
    role_of,
    text_of,
    typed,
)
from bench.engines.embedded.refusal import bad_request

_TEXTS = ("input_text", "output_text", "text")
_REASONS = ("reasoning_text", "summary_text", "text")
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Item type -> the key with the text that the model wrote."""


def read_responses_request(body: bytes) -> ChatRequest:
    """Raises Refusal (400) naming the part that is missing or of the wrong type."""
    data = read_object(body)
    typed(data, "model", str, None)
    for key in ("previous_response_id", "conversation"):
        if data.get(key) is not None:
            raise bad_request(f"'{key}' names what this engine does not keep; send the whole input.", param=key)
    instructions = typed(data, "instructions", str, "")
    messages = [Message(role="system", content=instructions)] if instructions else []
    given = data.get("input")
    if isinstance(given, str) and given:
        messages.append(Message(role="user", content=given))
    elif isinstance(given, list) and given:
        messages += _messages(given)
    else:
        raise bad_request("'input' must be a text or a list with at least one item.", param="input")
    tools = typed(data, "tools", list, [])
    return ChatRequest(
        messages=tuple(messages),
        tools=() if data.get("tool_choice") == "none" else _tools(tools),
        stream=typed(data, "stream", bool, False),
        include_usage=True,
        max_tokens=limit_of(data, "max_output_tokens"),
        parallel_calls=typed(data, "parallel_tool_calls", bool, False),
    )


def _messages(items: list[Any]) -> list[Message]:
    """An answer goes on over its items in the order reasoning, message, calls; what steps back in it is the next one."""
    messages: list[Message] = []
    reached = _PARTS_END
    for index, item in enumerate(items):
        message = _message(item, f"input[{index}]")
        if message is None:
            continue
        part = _part(message)
        if part < _PARTS_END and (reached < part or reached == part == _CALL_PART):
            messages[-1] = _together(messages[-1], message)
        else:
            messages.append(message)
        reached = part
    return messages


_CALL_PART = 2
_PARTS_END = 3


def _part(message: Message) -> int:
    """Which part of an answer an item is; `_PARTS_END` if it is none."""
    if message.role != "assistant":
        return _PARTS_END
    return _CALL_PART if message.calls else 0 if message.reasoning else 1


def _together(first: Message, second: Message) -> Message:
    return replace(
        first,
        content=first.content + second.content,
        reasoning=first.reasoning + second.reasoning,
        calls=first.calls + second.calls,
    )


def _message(item: Any, where: str) -> Message | None:
    """One item; None for one that is passed over."""
    if not isinstance(item, dict):
        raise bad_request(f"'{where}' must be an object.", param=where)
    kind = typed(item, "type", str, "message", where)
    if kind == "message":
        return Message(role=role_of(item, where), content=text_of(item.get("content"), f"{where}.content", _TEXTS))
    if kind == "reasoning":
        said = [text_of(item.get(key), f"{where}.{key}", _REASONS) for key in ("content", "summary")]
        reasoning = said[0] or said[1]
        return Message(role="assistant", content="", reasoning=reasoning) if reasoning else None
    if kind in _CALLS:
        call = ToolCall(name=name_of(item, where), arguments=typed(item, _CALLS[kind], str, "", where))
        return Message(role="assistant", content="", calls=(call,))
    if kind == "local_shell_call":
        call = ToolCall(name="local_shell", arguments=_dumped(typed(item, "action", dict, {}, where), where))
        return Message(role="assistant", content="", calls=(call,))
    if kind in _OUTPUTS:
        return Message(role="tool", content=text_of(item.get("output"), f"{where}.output", _TEXTS))
    if kind == "item_reference":
        raise bad_request(f"'{where}' refers to an item; this engine keeps none, send the item itself.", param=where)
    return None


def _tools(items: list[Any]) -> tuple[Tool, ...]:
    """The functions; their source is written as chat clients write it."""
    tools = []
    for index, item in enumerate(items):
        where = f"tools[{index}]"
        if not isinstance(item, dict):
            raise bad_request(f"'{where}' must be an object.", param=where)
        if item.get("type") == "function":
            source = {"type": "function", "function": {key: value for key, value in item.items() if key != "type"}}
            parameters = typed(item, "parameters", dict, {}, where)
            tools.append(Tool(name=name_of(item, where), parameters=parameters, source=source))
    return tuple(tools)


def _dumped(action: dict[str, Any], where: str) -> str:
    try:
        return json.dumps(action, ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise bad_request(f"'{where}.action' is nested too deeply.", param=where) from error
