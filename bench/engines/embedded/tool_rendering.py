"""Turns a script's intents into calls of whatever tools a request offers.

A tool is recognised by its name and by parameters that carry what the intent needs; parameters that it requires
beyond those are filled from their schema. Where no tool fits, the intent becomes a shell command; where there is no
shell either, it is reported as impossible. A client that runs calls at the same time gets one command instead of many.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from bench.engines.embedded.chat_request import Tool, ToolCall
from bench.engines.embedded.script_play import Intent

_TOOL_NAMES = {
    "write": ("write", "writefile", "createfile", "create", "filewrite", "fswrite", "writetofile", "savefile"),
    "edit": ("edit", "editfile", "strreplace", "replace", "replaceinfile", "fileedit", "fsedit", "searchreplace"),
    "read": ("read", "readfile", "view", "viewfile", "openfile", "fileread", "fsread", "cat"),
    "run": (
        *("bash", "shell", "run", "runcommand", "runshellcommand", "runbash", "runterminalcmd"),
        *("execute", "executecommand", "exec", "execcommand", "terminal", "localshell"),
    ),
}
_PARAMETERS = {
    "path": ("path", "file_path", "filePath", "filepath", "file", "filename", "absolute_path", "target_file"),
    "text": ("content", "contents", "text", "file_text", "data"),
    "old": ("old", "old_string", "oldString", "old_str", "oldText", "old_text", "search", "find"),
    "new": ("new", "new_string", "newString", "new_str", "newText", "new_text", "replace", "replacement"),
    "command": ("command", "cmd", "script", "code"),
}
_NEEDS = {"write": ("path", "text"), "edit": ("path", "old", "new"), "read": ("path",), "run": ("command",)}
_LONGEST_COMMAND_BYTES = 100_000
"""Linux takes at most 131,072 bytes as one argument of a program."""

_LONGEST_YIELD_MS = 30_000
"""Codex's shell answers with what a command said so far after this time at the latest; it takes no longer one."""

_EDITOR_COMMANDS = {"write": "create", "edit": "str_replace", "read": "view"}

_ABSOLUTE_ONLY = re.compile(r"relative paths are not supported|must start with '/'", re.IGNORECASE)
"""In the description of a path that a tool would refuse."""

_EDIT_PROGRAM = (
    "import sys; path, old, new = sys.argv[1:]; text = open(path, newline='').read(); "
    "count = text.count(old); "
    "sys.exit(f'{path}: the old text stands there {count} times') if count != 1 else "
    "open(path, 'w', newline='').write(text.replace(old, new))"
)


@dataclass(frozen=True, kw_only=True)
class Rendered:
    calls: tuple[ToolCall, ...]
    impossible: tuple[Intent, ...]
    """Intents for which the request offers no tool."""


def render(intents: Sequence[Intent], tools: Sequence[Tool]) -> Rendered:
    """One call for each intent, in order, as far as the offered tools allow."""
    calls = []
    impossible = []
    for intent in intents:
        call = _call(intent, tools) or _call(as_shell(intent), tools)
        if call is None:
            impossible.append(intent)
        else:
            calls.append(call)
    return Rendered(calls=tuple(calls), impossible=tuple(impossible))


def as_shell(intent: Intent) -> Intent:
    """The same intent as a shell command that keeps every character."""
    path = shlex.quote(intent.path)
    if intent.verb == "write":
        folder = PurePosixPath(intent.path).parent
        make = "" if folder == PurePosixPath() else f"mkdir -p {shlex.quote(str(folder))} && "
        command = f"{make}printf '%s' {shlex.quote(intent.text)} > {path}"
    elif intent.verb == "edit":
        words = (_EDIT_PROGRAM, intent.path, intent.old, intent.new)
        command = "python3 -c " + " ".join(shlex.quote(word) for word in words)
    elif intent.verb == "read":
        command = f"cat -- {path}"
    else:
        command = intent.command
    return Intent(verb="run", command=command)


def joined(intents: Sequence[Intent], tools: Sequence[Tool]) -> Sequence[Intent]:
    """The intents as few shell commands, which keep their order where calls run at the same time.

    Each stands in a subshell of its own and runs whatever came of those before it, as separate calls would. Without a
    shell the intents stay as they are.
    """
    if len(intents) < 2 or _call(Intent(verb="run", command="true"), tools) is None:
        return intents
    commands: list[str] = []
    for intent in intents:
        command = f"(\n{as_shell(intent).command}\n)"
        if commands and len((commands[-1] + command).encode("utf-8", "replace")) < _LONGEST_COMMAND_BYTES:
            commands[-1] += f"\n{command}"
        else:
            commands.append(command)
    return [Intent(verb="run", command=command) for command in commands]


def _call(intent: Intent, tools: Sequence[Tool]) -> ToolCall | None:
    for tool in tools:
        arguments = _arguments(intent, tool)
        if arguments is not None:
            text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
            return ToolCall(name=tool.name, arguments=text)
    return None


def _arguments(intent: Intent, tool: Tool) -> dict[str, Any] | None:
    """The arguments of a call that carries the intent out; None if this tool cannot."""
    properties = _properties(tool.parameters)
    name = re.sub(r"[^a-z0-9]", "", tool.name.lower())
    values: dict[str, Any] = {}
    editor_command = _editor_command(intent.verb, properties)
    if editor_command is not None and "str" in name:
        values["command"] = editor_command
    elif name not in _TOOL_NAMES[intent.verb]:
        return None
    needed = list(_NEEDS[intent.verb])
    edits = properties.get("edits")
    if intent.verb == "edit" and isinstance(edits, Mapping) and edits.get("type") == "array":
        item = _fill(intent, ["old", "new"], _mapping(edits.get("items")))
        if item is None:
            return None
        values["edits"] = [item]
        needed = ["path"]
    filled = _fill(intent, needed, tool.parameters, taken=values)
    return None if filled is None else {**values, **filled}


def _editor_command(verb: str, properties: Mapping[str, Any]) -> str | None:
    """`create`, `str_replace` or `view`, where one tool does all of these by a `command` parameter."""
    allowed = _mapping(properties.get("command")).get("enum")
    command = _EDITOR_COMMANDS.get(verb)
    return command if isinstance(allowed, list) and command in allowed else None


def _fill(
    intent: Intent, needed: Sequence[str], schema: Mapping[str, Any], taken: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Values for the needed parameters and for all others that the schema requires."""
    properties = _properties(schema)
    values: dict[str, Any] = {}
    for need in needed:
        key = next((name for name in _PARAMETERS[need] if name in properties), None)
        if key is None:
            return None
        value: Any = getattr(intent, need)
        if need == "path" and _ABSOLUTE_ONLY.search(str(_mapping(properties[key]).get("description"))):
            return None  # a script's paths are relative, and the engine knows no folder
        if need == "command" and _mapping(properties[key]).get("type") == "array":
            value = ["bash", "-lc", value]
        values[key] = value
    if "command" in needed and "yield_time_ms" in properties:
        values["yield_time_ms"] = _LONGEST_YIELD_MS
    required = schema.get("required")
    for key in required if isinstance(required, list) else ():
        if isinstance(key, str) and key not in values and key not in (taken or {}):
            values[key] = _filler(_mapping(properties.get(key)), intent)
    return values


def _filler(schema: Mapping[str, Any], intent: Intent) -> Any:
    """A harmless value of the type that a required parameter asks for."""
    if "default" in schema:
        return schema["default"]
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": False, "array": [], "object": {}}.get(str(kind), intent.summary[:80])


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(schema.get("properties"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
