import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.scoring.case import BadReply
from bench.scoring.node_module import Answer, call, get, make, parse_reply

NONCE = "7f"
STEPS = [make("createCache", {}, name="cache"), call("cache", "submit", {}, watch=True), get("cache", "usedBytes")]
ANSWERS = [{"value": None}, {"value": {"kind": "miss"}, "args": [{}]}, {"threw": "Error: no"}]


def line(**changes):
    return json.dumps({"nonce": NONCE, "answers": ANSWERS} | changes).encode() + b"\n"


def parse(text):
    return parse_reply(text, nonce=NONCE, steps=STEPS)


def test_a_whole_reply():
    assert parse(line()) == ANSWERS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "without a reply"),
        (line()[:-1], "one line"),
        (line() + line(), "one line"),
        (line() + b"x", "one line"),
        (b"\n", "not JSON"),
        (b"{}\n", "nonce"),
        (b"[]\n", "nonce"),
        (line(nonce="8e"), "nonce"),
        (b'{"nonce": "7f", "answers": [NaN]}\n', "NaN is no number"),
        (b"[" * 100_000 + b"\n", "not JSON"),
        (b"9" * 10_000 + b"\n", "not JSON"),
        (b"\xff\n", "not JSON"),
        (line(failure="SyntaxError: x\x1b"), r"could not be loaded: 'SyntaxError: x\\x1b'"),
        (line(answers=None), "an answer for every step"),
        (line(answers=ANSWERS[:2]), "an answer for every step"),
        (line(answers=[*ANSWERS, {"value": 1}]), "an answer for every step"),
        (line(answers=[ANSWERS[0], {"value": 1}, ANSWERS[2]]), "does not tell its arguments"),
        (line(answers=[{}, *ANSWERS[1:]]), "createCache has neither"),
        (line(answers=[[], *ANSWERS[1:]]), "createCache has neither"),
        (line(answers=[{"threw": 3}, *ANSWERS[1:]]), "createCache has neither"),
    ],
)
def test_anything_else_is_a_bad_reply(text, reason):
    with pytest.raises(BadReply, match=reason):
        parse(text)


@given(st.binary() | st.builds(lambda text, at: line()[:at] + text, st.binary(), st.integers(0, 200)))
def test_no_bytes_break_the_reading(text):
    try:
        answers = parse(text)
    except BadReply:
        return
    assert len(answers) == len(STEPS)


def test_an_error_tells_only_when_a_case_looks():
    answer = Answer(step="cache.entries", data={"threw": "TypeError: \x1b[2J"})
    with pytest.raises(BadReply, match=r"cache\.entries threw 'TypeError: \\x1b\[2J'"):
        _ = answer.value
