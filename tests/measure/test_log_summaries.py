from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine_profile import LogSummary
from bench.engines.profile import read_profile
from bench.errors import EvidenceError
from bench.measure.log_summaries import LINE_BYTES, read_summaries
from bench.spec import REPOSITORY

ONE_LINE = LogSummary(
    lines=(
        (
            r"done: id=(?P<response_id>\S+) prompt=(?P<prompt_tokens>\S+) cached=(?P<cached_tokens>\S+) "
            r"output=(?P<output_tokens>\S+) drafted=(?P<drafted_tokens>\S+) accepted=(?P<accepted_tokens>\S+) "
            r"ttft=(?P<ttft_ms>\S+) ms decode=(?P<decode_seconds>\S+) s"
        ),
    ),
    starts="listening",
)
THREE_LINES = LogSummary(
    lines=(
        r"task (?P<key>\d+) \| prompt = (?P<prompt_tokens>\d+)",
        r"task (?P<key>\d+) \| drafts = (?P<accepted_tokens>\d+) of (?P<drafted_tokens>\d+)",
        r"task (?P<key>\d+) \| output = (?P<output_tokens>\d+)",
    ),
    starts=None,
)


def done(name="a", *, prompt="1000", cached="800", output="50", drafted="30", accepted="20", ttft="12.5", decode="1.5"):
    return (
        f"done: id={name} prompt={prompt} cached={cached} output={output} drafted={drafted} accepted={accepted} "
        f"ttft={ttft} ms decode={decode} s\n"
    )


@pytest.fixture
def read(tmp_path):
    def read_log(content, summary=ONE_LINE, **more):
        path = tmp_path / "engine.log"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        read_log.told = []
        return read_summaries(path, summary, warn=read_log.told.append, **more)

    return read_log


def test_a_line_becomes_a_summary_in_seconds_and_tokens(read):
    [one] = read("hello\n" + done())
    assert (one.engine_process, one.order, one.line, one.response_id) == (1, 0, 2, "a")
    assert (one.prompt_tokens, one.cached_tokens, one.output_tokens) == (1000, 800, 50)
    assert (one.drafted_tokens, one.accepted_tokens) == (30, 20)
    assert (one.ttft_seconds, one.decode_seconds, one.prefill_seconds) == (0.0125, 1.5, None)
    assert read.told == []


def test_launches_are_told_apart_and_counted_from_where_one_says(read):
    text = "listening\n" + done("a") + done("b") + "listening\nlistening\n" + done("c")
    found = read(text, engine_process_start=4)
    assert [(one.response_id, one.engine_process, one.order) for one in found] == [
        ("a", 4, 0),
        ("b", 4, 1),
        ("c", 6, 0),
    ]
    assert [one.engine_process for one in read(done("a") + "listening\n" + done("b"))] == [1, 2]


def test_colours_progress_bars_and_bad_bytes_do_not_hide_a_summary(read):
    text = b"\x1b[32mINFO\x1b[0m \xff\xfe 10%\r55%\r\x1b]0;title\x07 " + done().encode()[:-1] + b"\r\n"
    assert len(read(text)) == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cached": "1001"}, (None, None, 50, 30, 20, 0.0125)),
        ({"cached": "-"}, (1000, None, 50, 30, 20, 0.0125)),
        ({"accepted": "31"}, (1000, 800, 50, None, None, 0.0125)),
        ({"prompt": "1,000"}, (1000, 800, 50, 30, 20, 0.0125)),
        ({"prompt": "1,00"}, (None, 800, 50, 30, 20, 0.0125)),
        ({"output": "-5"}, (1000, 800, None, 30, 20, 0.0125)),
        ({"output": "5e1"}, (1000, 800, None, 30, 20, 0.0125)),
        ({"output": "100000001"}, (1000, 800, None, 30, 20, 0.0125)),
        ({"output": "٣"}, (1000, 800, None, 30, 20, 0.0125)),
        ({"ttft": "nan"}, (1000, 800, 50, 30, 20, None)),
        ({"ttft": "1_0"}, (1000, 800, 50, 30, 20, None)),
        ({"ttft": "1e12"}, (1000, 800, 50, 30, 20, None)),
        ({"ttft": "-1"}, (1000, 800, 50, 30, 20, None)),
    ],
)
def test_what_cannot_be_believed_is_none(read, changes, expected):
    [one] = read(done(**changes))
    told = (one.prompt_tokens, one.cached_tokens, one.output_tokens, one.drafted_tokens, one.accepted_tokens)
    assert (*told, one.ttft_seconds) == expected


def test_a_summary_without_any_count_is_none(read):
    assert read(done(prompt="-", output="-")) == ()
    assert read.told == ["engine.log: 1 x summary without a count that can be believed"]


def test_a_torn_last_line_is_left_out(read):
    assert [one.response_id for one in read(done("a") + done("b")[:-1])] == ["a"]
    assert read.told == ["engine.log: 1 x last line without an end, left out"]


def test_an_overlong_line_is_passed_over(read):
    assert [one.line for one in read(b"x" * (3 * LINE_BYTES) + done().encode() + done().encode())] == [2]
    assert read.told == [f"engine.log: 1 x line over {LINE_BYTES:,} bytes"]


@pytest.mark.parametrize("cut", range(10, 90, 7))
def test_a_line_that_two_writers_share_gives_no_summary(read, cut):
    assert read(done("a", prompt="7777")[:cut] + done("b")) in ((), read(done("b")))
    assert all(one.prompt_tokens == 1000 for one in read(done("a", prompt="7777")[:cut] + done("b")))


@pytest.mark.parametrize(
    "text", ["prompt=1 cachprompt=2 x output=3\n", "prompt=1 output=1 prompt=2 output=2\n", "prompt=1 x output=3\n"]
)
def test_a_pattern_with_gaps_does_not_join_what_two_writers_wrote(read, text):
    gaps = LogSummary(lines=(r"prompt=(?P<prompt_tokens>\d+).*output=(?P<output_tokens>\d+)",), starts=None)
    found = read(text, gaps)
    assert [(one.prompt_tokens, one.output_tokens) for one in found] == ([(1, 3)] if text.count("prompt") == 1 else [])
    assert read.told == [] if found else ["engine.log: 1 x line in which two summaries are mixed"]


def test_two_whole_summaries_on_one_line_are_two(read):
    assert [one.response_id for one in read(done("a")[:-1] + " " + done("b"))] == ["a", "b"]


def test_lines_of_one_request_are_joined_by_their_key(read):
    text = """task 1 | prompt = 10
task 2 | prompt = 20
task 2 | drafts = 3 of 4
task 2 | output = 2
task 1 | output = 1
"""
    told = [(one.prompt_tokens, one.output_tokens, one.accepted_tokens, one.line) for one in read(text, THREE_LINES)]
    assert told == [(20, 2, 3, 4), (10, 1, None, 5)]


def test_lines_without_a_beginning_or_an_end_give_nothing_and_are_said(read):
    text = "task 1 | drafts = 3 of 4\ntask 1 | output = 1\ntask 2 | prompt = 20\ntask 2 | prompt = 21\ntask 2 | output = 2\ntask 3 | prompt = 9\n"
    assert [(one.prompt_tokens, one.output_tokens) for one in read(text, THREE_LINES)] == [(21, 2)]
    assert sorted(read.told) == [
        "engine.log: 1 x summary without its beginning",
        "engine.log: 2 x summary that was begun and not completed",
    ]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((r"(?P<speed>\d+)",), "unknown group 'speed'"),
        ((r"(?P<prompt_tokens>\d+)", r"(?P<output_tokens>\d+)"), "needs a group 'key'"),
    ],
)
def test_patterns_that_mean_nothing_are_refused(read, lines, words):
    with pytest.raises(EvidenceError, match=words):
        read("", LogSummary(lines=lines, starts=None))


def test_a_log_that_is_not_there_is_an_evidence_error(tmp_path):
    with pytest.raises(EvidenceError, match="cannot be read"):
        read_summaries(tmp_path / "none.log", ONE_LINE, warn=print)


def test_a_recorded_log_of_llama_server():
    log = REPOSITORY / "fixtures" / "recordings" / "llama-server-b10068" / "server.log"
    summary = read_profile("llama-server").contract("llama-server").log_summary
    found = read_summaries(log, summary, warn=lambda _: None)
    whole = [one for one in found if one.output_tokens is not None]
    assert len(whole) >= 3
    assert all(one.cached_tokens < one.prompt_tokens for one in whole)
    assert all(one.decode_seconds > 0 for one in whole)


PIECES = st.sampled_from(
    (
        done("a"),
        done("b", prompt="7", cached="3"),
        done("c")[:40],
        "listening\n",
        "\r",
        "\n",
        "\x1b[3",
        "noise ",
        "\x00\xff",
    )
)


@given(st.lists(PIECES | st.text(max_size=30), max_size=12), st.integers(0, 400))
def test_any_log_is_read_without_a_fault_or_a_wrong_count(tmp_path_factory, pieces, cut):
    path = tmp_path_factory.mktemp("log") / "engine.log"
    content = "".join(pieces).encode("utf-8", "surrogateescape")
    path.write_bytes(content[:-cut] if cut else content)
    known = {("a", 1000, 800), ("b", 7, 3), ("c", 1000, 800)}
    found = read_summaries(path, ONE_LINE, warn=lambda _: None)
    for place, one in enumerate(found):
        if one.response_id in ("a", "b") and one.output_tokens == 50:
            assert (one.response_id, one.prompt_tokens, one.cached_tokens) in known
        assert place == 0 or one.order in (0, found[place - 1].order + 1)


@given(st.binary(max_size=500))
def test_any_bytes_are_read_without_a_fault(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("log") / "engine.log"
    path.write_bytes(content)
    read_summaries(path, THREE_LINES, warn=lambda _: None)
