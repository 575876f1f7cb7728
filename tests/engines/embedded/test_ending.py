from __future__ import annotations

from bench.engines.embedded.chat_request import Message
from bench.engines.embedded.ending import as_it_ends
from bench.engines.embedded.script_play import Fault, Intent, Turn

ASKED = (
    Message(role="system", content="You help."),
    Message(role="user", content="Finish by `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."),
)
LAST = Turn(say="Done.")


def test_a_last_turn_ends_as_the_instructions_want_it():
    turn = as_it_ends(LAST, ASKED)
    assert turn.say == "Done."
    assert [(one.verb, one.command) for one in turn.intents] == [("run", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")]


def test_all_other_turns_stay_as_they_are():
    working = Turn(intents=(Intent(verb="run", command="ls"),))
    broken = Turn(fault=Fault(kind="empty"))
    assert as_it_ends(working, ASKED) is working
    assert as_it_ends(broken, ASKED) is broken
    assert (
        as_it_ends(LAST, (Message(role="user", content="Build it."), Message(role="assistant", content="Yes."), *ASKED))
        is LAST
    )
