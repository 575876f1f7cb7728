"""How many answers in a row asked for what nobody could carry out, as each agent's stream tells it."""

from __future__ import annotations

import json

import pytest

from bench.agents.adapters import EVENTS_FILE, open_adapter
from bench.spec import AgentSpec


def builtin_turn(*calls):
    yield {"type": "response", "index": 0, "tool_calls": [{"name": name, "arguments": raw} for name, raw in calls]}
    yield from ({"type": "tool", "ok": False, "seconds": 0.1} for _ in calls)


def pi_turn(*calls):
    """As Pi 1.6 tells it: arguments that are no JSON are marked at the call, a tool that is unknown in the result."""
    content = []
    for name, raw in calls:
        readable = raw.endswith("}")
        told = {"arguments": json.loads(raw)} if readable else {"arguments": {}, "argumentsError": "cut"}
        content.append({"type": "toolCall", "id": "c", "name": name, **told})
    yield {"type": "message_end", "message": {"role": "assistant", "content": content, "stopReason": "toolUse"}}
    for name, _ in calls:
        known = name in ("bash", "read")
        said = "Command exited with code 1" if known else f"Tool {name} not found"
        result = {"role": "toolResult", "toolName": name, "content": [{"type": "text", "text": said}], "isError": True}
        yield {"type": "message_end", "message": result}


TURNS = {"builtin": builtin_turn, "pi": pi_turn}
GOOD = ("bash", '{"command": "false"}')
CUT = ("bash", '{"command": "echo h')
UNKNOWN = ("teleport", "{}")


@pytest.mark.parametrize("agent", TURNS)
@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([], 0),
        ([[]], 0),
        ([[GOOD]], 0),
        ([[CUT]], 1),
        ([[UNKNOWN]], 1),
        ([[UNKNOWN, CUT]], 1),
        ([[UNKNOWN, GOOD]], 0),
        ([[GOOD], [UNKNOWN], [CUT], [CUT, UNKNOWN]], 3),
        ([[UNKNOWN], [CUT], [GOOD], [CUT]], 1),
        ([[UNKNOWN], [CUT], []], 0),
    ],
)
def test_row(tmp_path, agent, turns, expected):
    lines = [json.dumps(event) for calls in turns for event in TURNS[agent](*calls)]
    (tmp_path / EVENTS_FILE).write_text("".join(f"{line}\n" for line in lines))
    assert open_adapter(AgentSpec(name=agent)).read_events(tmp_path, 1).unusable_turns == expected


@pytest.mark.parametrize("agent", TURNS)
@pytest.mark.parametrize("calls", [None, 7, "x", [None], [{"name": 3, "arguments": []}], {"name": "bash"}])
def test_calls_of_any_form_break_nothing(tmp_path, agent, calls):
    message = {"role": "assistant", "content": calls, "stopReason": "toolUse"}
    events = [{"type": "response", "tool_calls": calls}, {"type": "message_end", "message": message}]
    events.append({"type": "message_end", "message": {"role": "toolResult", "content": calls, "isError": True}})
    (tmp_path / EVENTS_FILE).write_text("".join(f"{json.dumps(event)}\n" for event in events))
    assert open_adapter(AgentSpec(name=agent)).read_events(tmp_path, 1).unusable_turns in (0, 1)
