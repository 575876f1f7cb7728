"""What kinds of items stand in a request's history? Their names in the chat, completions, responses and messages APIs."""

from __future__ import annotations

SYSTEM_ROLES = ("system", "developer")

CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_use")
"""What the model asks tools for."""

RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_result")
"""What tools answered."""

TOOL_ROLES = ("tool", "function")
"""Roles of whole messages that are results."""

THOUGHTS = ("reasoning", "thinking", "redacted_thinking")
"""What the model thought; agents keep it, or drop it, when they send a history again."""
