"""How does an agent learn that the model is done? Most by an answer without tool calls, some by a command that they name.

mini-swe-agent accepts no answer without a call; its instructions ask for `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`.
A model that is asked like this does it, and so does a script's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.engines.embedded.chat_request import Message
from bench.engines.embedded.script_play import Intent, Turn

_COMMAND = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_INSTRUCTIONS = 2
"""How many messages at the beginning may hold them: a system prompt and the first prompt."""


def as_it_ends(turn: Turn, messages: Sequence[Message]) -> Turn:
    """The turn itself, or, where it ends its session and the instructions want it, with the command that says so."""
    if turn.intents or turn.fault or not any(_COMMAND in message.content for message in messages[:_INSTRUCTIONS]):
        return turn
    return replace(turn, intents=(Intent(verb="run", command=_COMMAND),))
