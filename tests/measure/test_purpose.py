"""What was each request for? Conversations as agents really send them, in the three forms, and any bytes at all."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bench.contracts import SessionLabel
from bench.measure.exchange_line import Exchange
from bench.measure.purpose import PurposeReader

LABEL = SessionLabel(run_id="r", session=1, role="builder", task=None, attempt=1, retry=0)
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
SYSTEM = {"role": "system", "content": "You are a coding agent."}
TASK = {"role": "user", "content": "Build the thing that the brief describes."}


def exchange(index, body, answer="", path="/v1/chat/completions"):
    response = json.dumps({"choices": [{"message": {"content": answer}}]}).encode()
    return Exchange(
        label=LABEL,
        index=index,
        engine_process=1,
        method="POST",
        path=path,
        status=200,
        streamed=False,
        started_at=1.0,
        sent_at=1.0,
        first_byte_at=None,
        ended_at=2.0,
        fault=None,
        request=body if isinstance(body, bytes) else json.dumps(body).encode(),
        response=response,
        response_bytes=len(response),
        redacted=False,
        arrivals=(),
    )


class Session:
    """Requests in their order; what each was for."""

    def __init__(self):
        self._reader = PurposeReader()
        self._count = 0

    def ask(self, body, *, answer="", failed=False, finish="tool_calls"):
        self._reader.take(exchange(self._count, body, answer), failed=failed, finish_reason=finish)
        self._count += 1

    @property
    def purposes(self):
        found = self._reader.purposes()
        return [found.get(index, "turn") for index in range(self._count)]


def chat(messages, *, tools=TOOLS, system=SYSTEM, **more):
    return {"model": "m", "messages": [system, *messages], "tools": tools, "stream": True, **more}


def worked(number, said="I shall look at part {} of it.", result="These are the contents of file {}."):
    """A call of a tool and what came of it."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": f'{{"n":{number}}}'}}
    return [
        {"role": "assistant", "content": said.format(number), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": result.format(number) * 20},
    ]


def grown(turns):
    return [TASK, *(message for number in range(turns) for message in worked(number))]


def flattened(turns):
    """The conversation as one text, as Pi and opencode give it to the model that sums it up."""
    parts = [f"[{one['role']}]: {one['content']}" for one in grown(turns)]
    return [{"role": "user", "content": "<conversation>\n" + "\n\n".join(parts) + "\n</conversation>\nSum it up."}]


SUMMARY = "The agent looked at five parts."
SHORTENED = [{"role": "user", "content": f"What came before, in short:\n<summary>\n{SUMMARY}\n</summary>"}]


def test_a_summary_without_tools_and_a_history_that_begins_with_it():
    session = Session()
    for turns in range(6):
        session.ask(chat(grown(turns)))
    session.ask(chat(flattened(4), tools=[], system={"role": "system", "content": "You sum up."}), answer=SUMMARY)
    for turns in range(2):
        session.ask(chat([*SHORTENED, *grown(5)[-2:], *grown(turns)[1:]]))
    assert session.purposes == ["turn"] * 6 + ["compaction"] + ["turn"] * 2


def test_a_summary_of_the_first_message_alone_is_known_by_the_history_that_it_begins():
    """Pi in a window that the first result overflows: nothing that model or tools said is in the summary's request."""
    session = Session()
    session.ask(chat([TASK]))
    asked = [{"role": "user", "content": f"# Conversation\n{TASK['content']}"}]
    session.ask(chat(asked, tools=[]), answer=SUMMARY, finish="stop")
    session.ask(chat([*SHORTENED, *worked(0, result="A long result. " * 99)]))
    assert session.purposes == ["turn", "compaction", "turn"]


def test_two_summaries_at_once_and_one_that_failed():
    session = Session()
    for turns in range(4):
        session.ask(chat(grown(turns)))
    session.ask(chat(flattened(3), tools=None), failed=True)
    session.ask(chat(flattened(3), tools=None), answer=SUMMARY)
    session.ask(chat(flattened(2), tools=None), answer=SUMMARY)
    session.ask(chat(SHORTENED))
    assert session.purposes[4:] == ["compaction", "retry", "compaction", "turn"]


def test_a_summary_that_never_succeeded_is_one_although_the_history_stayed():
    session = Session()
    for turns in range(3):
        session.ask(chat(grown(turns)))
    session.ask(chat(flattened(2), tools=[]), failed=True)
    session.ask(chat(grown(3)))
    assert session.purposes == ["turn"] * 3 + ["compaction", "turn"]


def test_the_whole_history_with_one_more_demand():
    """Codex: the same instructions, the history, a demand for a summary, no tools; then a history of its own making."""
    demand = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Sum it up."}]}
    task = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Build it."}]}

    def items(turns):
        return [
            task,
            *(
                item
                for n in range(turns)
                for item in (
                    {"type": "reasoning", "summary": [], "encrypted_content": "x" * 50},
                    {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": f"c{n}"},
                    {"type": "function_call_output", "call_id": f"c{n}", "output": f"contents of file {n}\n" * 30},
                )
            ),
        ]

    def responses(items, tools=TOOLS):
        return {"model": "m", "instructions": "You are a coding agent.", "input": items, "tools": tools, "stream": True}

    session = Session()
    for turns in range(4):
        session.ask(responses(items(turns)), finish="completed")
    session.ask(responses([*items(4), demand], tools=[]), answer=SUMMARY, finish="completed")
    bridge = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"So far: {SUMMARY}"}]}
    session.ask(responses([task, bridge]), finish="completed")
    assert session.purposes == ["turn"] * 4 + ["compaction", "turn"]


def test_a_summary_that_offers_tools_is_known_by_the_history_that_it_begins():
    """Claude Code: tools and system as ever, the history, a demand; marks of the cache move from message to message."""

    def marked(messages):
        first, last = messages[:-1], messages[-1]
        return [*first, {**last, "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}]

    task = {"role": "user", "content": [{"type": "text", "text": "Build it."}]}

    def messages(turns):
        return [
            task,
            *(
                message
                for n in range(turns)
                for message in (
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {}}],
                    },
                    {
                        "role": "user",
                        "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": f"file {n}\n" * 40}],
                    },
                )
            ),
        ]

    def body(messages):
        return {"model": "m", "system": [{"type": "text", "text": "You are."}], "tools": TOOLS, "messages": messages}

    session = Session()
    for turns in range(1, 5):
        session.ask(body(marked(messages(turns))), finish="tool_use")
    session.ask(body([*messages(5), {"role": "user", "content": "Sum it up."}]), answer=SUMMARY, finish="end_turn")
    session.ask(body([{"role": "user", "content": f"This goes on from: {SUMMARY}"}]), finish="tool_use")
    assert session.purposes == ["turn"] * 4 + ["compaction", "turn"]


def test_titles_and_pages_are_beside_the_conversation():
    session = Session()
    title = [{"role": "user", "content": "Make a title of this."}, TASK]
    session.ask(chat(title, tools=[]), answer="A thing", finish="stop")
    for turns in range(3):
        session.ask(chat(grown(turns)))
    page = [{"role": "user", "content": "What does this page say?\n" + "A page about something else. " * 50}]
    session.ask(chat(page, tools=[]), answer="Something else.", finish="stop")
    session.ask(chat(grown(3)))
    assert session.purposes == ["side", "turn", "turn", "turn", "side", "turn"]


def test_a_summary_after_which_the_conversation_goes_on_as_it_was_is_beside_it():
    session = Session()
    for turns in range(3):
        session.ask(chat(grown(turns)))
    session.ask(chat(flattened(2), tools=[]), answer=SUMMARY, finish="stop")
    session.ask(chat(grown(3)))
    assert session.purposes == ["turn", "turn", "turn", "side", "turn"]


def test_the_same_again_after_a_failure_is_a_retry_however_it_is_asked():
    session = Session()
    session.ask(chat(grown(1)), failed=True)
    session.ask(chat(grown(1), stream=False))
    session.ask(chat(grown(2)), failed=True)
    session.ask(chat(grown(2), tools=[*TOOLS, *TOOLS], max_tokens=9), failed=True)
    session.ask(chat(grown(2)))
    session.ask(chat(grown(2)))  # after one that succeeded, nobody knows why
    session.ask(chat(grown(3)))
    assert session.purposes == ["turn", "retry", "turn", "retry", "retry", "turn", "turn"]


def test_a_request_that_was_trimmed_after_it_failed_is_another_one():
    """Codex leaves out the oldest messages, one more each time, until a summary's request fits the window."""
    session = Session()
    rules = [{"role": "developer", "content": f"Rule {number}."} for number in range(3)]
    session.ask(chat(grown(2)))
    for left_out in range(3):
        session.ask(chat([*rules[left_out:], *grown(2), TASK], tools=[]), failed=True)
    session.ask(chat([*rules[2:], *grown(2), TASK], tools=[]), answer=SUMMARY, finish="stop")
    session.ask(chat([TASK, *SHORTENED]))
    assert session.purposes == ["turn", "compaction", "compaction", "compaction", "retry", "turn"]


def test_a_title_with_the_same_message_is_no_retry_of_the_first_turn():
    session = Session()
    session.ask(chat([TASK]), failed=True)
    session.ask(chat([TASK], tools=[], system={"role": "system", "content": "Make a title."}))
    session.ask(chat([TASK]))
    assert session.purposes == ["turn", "side", "retry"]


def test_requests_of_a_sub_agent_are_turns_of_its_own_conversation():
    """What the sub-agent answered last stands in the next request of its master, and in that of another sub-agent."""
    session = Session()
    found = "The sub-agent found three faults in the parser."
    work = [{"role": "user", "content": "Look for faults in the parser."}]
    session.ask(chat(grown(3)))
    session.ask(chat(work))
    session.ask(chat([*work, *worked(70)]), answer=found, finish="stop")
    session.ask(chat([*grown(3), *worked(8, result=found)]))
    session.ask(chat([{"role": "user", "content": f"Mend these. {found}"}]))
    session.ask(chat([*grown(3), *worked(8, result=found), *worked(9)]))
    assert session.purposes == ["turn"] * 6


def test_a_short_master_that_goes_on_with_its_sub_agents_answer_has_compacted_nothing():
    session = Session()
    found = "The sub-agent found three faults in the parser."
    work = [{"role": "user", "content": "Look for faults in the parser. " * 200}]
    session.ask(chat([TASK]))
    session.ask(chat(work), answer=found, finish="stop")
    session.ask(chat([TASK, *worked(0, result=found)]))
    assert session.purposes == ["turn"] * 3


def test_an_agent_without_tools_has_nothing_beside_its_conversation():
    session = Session()
    session.ask(chat([TASK], tools=None), finish="stop")
    session.ask(chat([{"role": "user", "content": "Write a commit message."}], tools=None), finish="stop")
    session.ask({"model": "m", "prompt": "Once upon"}, finish="stop")
    assert session.purposes == ["turn"] * 3


def test_requests_that_name_an_earlier_answer_are_turns():
    session = Session()
    session.ask({"input": "Build it.", "tools": TOOLS}, answer="I am at work on it now.", finish="completed")
    session.ask({"input": "I am at work on it now.", "tools": TOOLS, "previous_response_id": "r1"}, finish="completed")
    assert session.purposes == ["turn", "turn"]


TEXT = st.text(max_size=40)
MESSAGES = st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), TEXT), min_size=1, max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
ODD = st.fixed_dictionaries(
    {}, optional={"messages": JSON | st.lists(JSON), "input": JSON, "tools": JSON, "prompt": JSON, "system": JSON}
)


@given(MESSAGES, st.booleans())
def test_a_conversation_that_only_grows_is_all_turns(messages, with_tools):
    session = Session()
    told = [{"role": role, "content": text} for role, text in messages]
    for count in range(1, len(told) + 1):
        session.ask(chat(told[:count], tools=TOOLS if with_tools else []), answer=told[count - 1]["content"])
    assert session.purposes == ["turn"] * len(told)


@given(MESSAGES, st.integers(1, 4))
def test_a_failed_request_that_is_asked_again_is_a_retry_each_time(messages, times):
    session = Session()
    body = chat([{"role": role, "content": text} for role, text in messages])
    for _ in range(times + 1):
        session.ask(body, failed=True)
    assert session.purposes == ["turn"] + ["retry"] * times


@given(st.lists(st.tuples(st.binary(max_size=60) | ODD.map(lambda one: json.dumps(one).encode()), st.booleans())))
def test_any_bodies_have_a_purpose(bodies):
    session = Session()
    for body, failed in bodies:
        session.ask(body, failed=failed)
    assert set(session.purposes) <= {"turn", "retry", "side", "compaction"}


def test_bodies_that_nobody_can_read_are_turns():
    session = Session()
    deep = b'{"messages":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}"
    nested = b'{"messages":[' + b'{"content":' * 900 + b"1" + b"}" * 900 + b"]}"
    for body in (b"", b"\xff\xfe", b"[]", b'{"messages":3}', b'{"messages":[]}', deep, deep, nested, nested):
        session.ask(body)
    assert session.purposes == ["turn"] * 9
