from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.engines.embedded.answers import answer_of
from bench.engines.embedded.chat_request import read_chat_request
from bench.engines.embedded.chat_template import MARKS, assistant_tokens, prompt_tokens
from bench.engines.embedded.script_play import Intent, Turn
from bench.engines.embedded.tokeniser import LONGEST_TOKEN, tokenise

TEXT = st.one_of(st.text(), st.text(alphabet="ab 1\n.<|>_äß\t漢🙂\u0301"))
SHELL = {"type": "function", "function": {"name": "bash", "parameters": {"properties": {"command": {}}}}}


@settings(deadline=None)
@given(TEXT)
def test_tokens_joined_are_the_text(text):
    tokens = tokenise(text)
    assert "".join(tokens) == text
    assert all(1 <= len(token) <= LONGEST_TOKEN for token in tokens)


@settings(deadline=None)
@given(TEXT, st.data())
def test_a_text_cut_between_tokens_has_the_same_tokens(text, data):
    tokens = tokenise(text)
    count = data.draw(st.integers(0, len(tokens)))
    assert tokenise("".join(tokens[:count])) == tokens[:count]


def test_no_text_is_a_mark():
    assert min(map(len, MARKS)) > LONGEST_TOKEN


def test_a_word_is_cut_into_pieces_that_keep_their_space():
    assert tokenise("return  totals[12345];\n\n") == ["retur", "n", "  ", "total", "s", "[", "123", "45", "];", "\n\n"]


def request_of(*messages):
    return read_chat_request(json.dumps({"messages": list(messages), "tools": [SHELL]}).encode())


@settings(deadline=None)
@given(think=TEXT, say=TEXT, commands=st.lists(TEXT, max_size=3))
def test_an_answer_sent_back_is_what_was_generated(think, say, commands):
    user = {"role": "user", "content": "go"}
    before = request_of(user)
    turn = Turn(think=think, say=say, intents=tuple(Intent(verb="run", command=text) for text in commands))
    answer = answer_of(turn, before.tools)
    calls = [{"function": {"name": "bash", "arguments": json.dumps({"command": text})}} for text in commands]
    message = {"role": "assistant", "content": say, "reasoning_content": think, "tool_calls": calls}
    after = request_of(user, message, {"role": "tool", "content": "ok"})
    generated = prompt_tokens(before) + answer.state_after(len(answer.output))
    assert prompt_tokens(after)[: len(generated)] == generated


@settings(deadline=None)
@given(think=st.text(min_size=1), say=TEXT)
def test_without_its_reasoning_only_the_prompt_is_shared(think, say):
    user = {"role": "user", "content": "go"}
    prompt = prompt_tokens(request_of(user))
    after = prompt_tokens(request_of(user, {"role": "assistant", "content": say}))
    assert after[: len(prompt)] == prompt
    assert "<|think|>" not in after


@settings(deadline=None)
@given(think=TEXT, say=TEXT, cut=st.integers(1, 30))
def test_the_state_of_a_cut_answer_holds_exactly_its_output(think, say, cut):
    answer = answer_of(Turn(think=think, say=say or "x", intents=()), ())
    cut = min(cut, len(answer.output))
    state = [text for text in answer.state_after(cut) if text not in MARKS]
    assert state == [token.text for token in answer.output[:cut]]


def test_content_in_parts_is_the_same_prompt():
    parts = [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]
    assert prompt_tokens(request_of({"role": "user", "content": parts})) == prompt_tokens(
        request_of({"role": "user", "content": "Hello there"})
    )


def test_marks_are_no_output():
    channels = {token.channel for token in assistant_tokens("hm", "yes", ())}
    assert channels == {"mark", "reasoning", "content"}
