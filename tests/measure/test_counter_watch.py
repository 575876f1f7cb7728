"""Reading a metrics page at the right moments, from a real socket that plays what a test lays out."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine_profile import MetricSeries, MetricsPage
from bench.errors import EvidenceError
from bench.measure.counter_watch import CounterWatch
from bench.measure.scrape_lines import Reading, ReadingLines, iterate_scrapes
from bench.spec import REPOSITORY

METRICS = MetricsPage(
    path="/metrics",
    series={
        "output_tokens": MetricSeries(names=("tokens_total",), unit="tokens"),
        "finished_requests": MetricSeries(names=("finished_total",), unit="tokens"),
    },
    late_seconds=0,
    read_seconds=20,
)


def text_answer(text: str, status: str = "200 OK", *, more: int = 0) -> list[bytes]:
    body = text.encode()
    return [f"HTTP/1.1 {status}\r\nContent-Length: {len(body) + more}\r\n\r\n".encode() + body]


def page(tokens: int, finished: int) -> list[bytes]:
    return text_answer(f'tokens_total {tokens}.0\nother 1\nfinished_total{{reason="stop"}} {finished}.0\n')


@pytest.fixture
def watched(engine, profile, tmp_path) -> Callable[..., tuple]:
    """Starts an engine that plays pages; gives it and a watch on it that is not entered yet."""

    def start(*plays, api_key: str | None = None, **changes) -> tuple:
        played = engine(*plays)
        told = replace(profile, metrics=replace(METRICS, **changes))
        path = tmp_path / "metrics.jsonl"
        return played, CounterWatch("127.0.0.1", played.port, told, path, engine_process=1, api_key=api_key), path

    return start


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.002)


def scrapes(path) -> list:
    return list(iterate_scrapes(path, METRICS, warn=pytest.fail))


def values(path) -> list:
    return [(one.values.get("output_tokens"), one.values.get("finished_requests")) for one in scrapes(path)]


def test_a_reading_before_the_first_request_and_one_after_each(watched, play):
    played, watch, path = watched(page(0, 0), page(5, 1), page(9, 2))
    with watch:
        for number in (1, 2):
            watch.began(play.label(), number, 0.0)
            watch.ended(play.label(), number, 0.0)
            until(lambda wanted=number + 1: len(scrapes(path)) == wanted)
    assert values(path) == [(0, 0), (5, 1), (9, 2)]
    told = scrapes(path)
    instants = [at for one in told for at in (one.asked_at, one.answered_at)]
    assert instants == sorted(instants)
    assert {one.engine_process for one in told} == {1}
    assert all("GET /metrics HTTP/1.1" in one.head and "Authorization" not in one.head for one in played.played)


def test_what_ended_just_before_the_end_is_still_read(watched, play):
    _, watch, path = watched(page(0, 0), page(5, 1))
    with watch:
        watch.ended(play.label(), 0, 0.0)
    assert values(path) == [(0, 0), (5, 1)]


def test_a_late_engine_is_read_until_it_counts(watched, play):
    _, watch, path = watched(page(0, 0), page(0, 0), page(5, 0), page(5, 1), page(99, 99), late_seconds=60)
    with watch:
        watch.ended(play.label(), 0, 0.0)
    assert values(path) == [(0, 0), (0, 0), (5, 0), (5, 1)]


def test_a_late_engine_is_read_until_it_could_be_no_later(watched, play):
    _, watch, path = watched(page(3, 3), late_seconds=0.1)
    with watch:
        watch.ended(play.label(), 0, 0.0)
    assert len(values(path)) > 2
    assert set(values(path)) == {(3, 3)}


def test_reading_again_ends_when_the_next_request_begins_and_what_is_owed_stays_owed(watched, play):
    played, watch, path = watched(page(0, 0), page(0, 0), page(0, 0), page(5, 1), page(9, 2), late_seconds=60)
    with watch:
        watch.ended(play.label(), 0, 0.0)
        until(lambda: len(played.played) == 2)
        watch.began(play.label(), 1, 0.0)
        watch.ended(play.label(), 1, 0.0)
    assert values(path)[-1] == (9, 2)


def test_an_engine_without_a_finished_counter_is_read_at_once_and_when_it_can_be_no_later(watched, play):
    _, watch, path = watched(text_answer("tokens_total 0\n"), text_answer("tokens_total 5\n"), late_seconds=0.1)
    with watch:
        watch.ended(play.label(), 0, 0.0)
    assert values(path) == [(0, None), (5, None), (5, None)]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (text_answer("not here", "501 Not Implemented"), "the page answers HTTP 501: 'not here'"),
        (text_answer("<html></html>\n"), "no metrics page"),
        (text_answer("other 1\n"), "none of the profile's counters"),
        (text_answer(""), "the page is empty"),
        (text_answer("tokens_total 5\n", more=3), "came broken: the connection was closed before its end"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\xff\xfe a"], "no UTF-8"),
        ([b"HTTP/1.0 200 OK\r\n\r\ntokens_total 5"], "cut off"),
        ([b"ssh-2.0\r\n"], "came broken"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"], "came broken"),
        ([], "came broken"),
        (["reset"], "the page cannot be read"),
        ([b"HTTP/1.1 200 OK\r\n\r\n", *[b"# " + b"x" * 1_000_000 + b"\n"] * 17], "larger than 16,777,216 bytes"),
    ],
)
def test_a_page_that_cannot_be_had_is_a_lost_reading(watched, answer, says):
    _, watch, path = watched(answer)
    with watch:
        pass
    [told] = scrapes(path)
    assert told.values == {}
    assert says in told.problem


def test_a_page_that_blocks_is_a_lost_reading(watched):
    released = threading.Event()
    _, watch, path = watched([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", released], read_seconds=0.1)
    with watch:
        released.set()
    assert [one.problem for one in scrapes(path)] == ["the page did not come within 0.1 s"]


def test_bytes_that_trickle_do_not_put_the_limit_off(engine, profile, tmp_path):
    trickle = [part for _ in range(40) for part in (_waiting(0.05), b"# x\n")]
    played = engine([b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", *trickle])
    told = replace(profile, metrics=replace(METRICS, read_seconds=0.3))
    with CounterWatch("127.0.0.1", played.port, told, tmp_path / "metrics.jsonl", engine_process=1):
        pass
    assert [one.problem for one in scrapes(tmp_path / "metrics.jsonl")] == ["the page did not come within 0.3 s"]


class _waiting(threading.Event):  # noqa: N801 - a part of a play
    """A part that lets time pass."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def wait(self, timeout: float | None = None) -> bool:
        super().wait(self._seconds)
        return True


def test_nobody_there_is_a_lost_reading(profile, tmp_path, play, engine):
    played = engine(page(0, 0))
    told = replace(profile, metrics=METRICS)
    with CounterWatch("127.0.0.1", played.port, told, tmp_path / "metrics.jsonl", engine_process=1) as watch:
        played.close()
        watch.ended(play.label(), 0, 0.0)
    played.close = lambda: None
    assert "the page cannot be read" in scrapes(tmp_path / "metrics.jsonl")[1].problem


def test_the_key_is_sent_and_kept_nowhere(watched, play):
    said = 'other{key="s3cret"} 1\ntokens_total{key="s3cret"} 5\n'
    played, watch, path = watched(text_answer("no s3cret", "401 No"), text_answer(said), api_key="s3cret")
    with watch:
        watch.ended(play.label(), 0, 0.0)
    assert all("Authorization: Bearer s3cret\r\n" in one.head + "\r\n" for one in played.played)
    assert "s3cret" not in path.read_text()
    assert values(path) == [(None, None), (5, None)]


def test_leaving_with_an_error_waits_for_no_page(watched, play):
    never = threading.Event()
    played, watch, path = watched(page(0, 0), [never], read_seconds=3600, late_seconds=3600)

    def broken() -> None:
        with watch:
            watch.ended(play.label(), 0, 0.0)
            until(lambda: len(played.played) == 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    never.set()
    assert len(scrapes(path)) == 2


def test_an_engine_without_a_page_is_not_watched(profile, play, tmp_path):
    with CounterWatch("127.0.0.1", 9, profile, tmp_path / "metrics.jsonl", engine_process=1) as watch:
        watch.began(play.label(), 0, 0.0)
        watch.ended(play.label(), 0, 0.0)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_our_fault(profile, play, engine, tmp_path):
    played = engine(page(0, 0))
    told = replace(profile, metrics=METRICS)
    place = tmp_path / "there"
    with pytest.raises(EvidenceError, match="cannot be written"):
        CounterWatch("127.0.0.1", played.port, told, place / "metrics.jsonl", engine_process=1).__enter__()
    place.mkdir()

    def losing_its_folder() -> None:
        with CounterWatch("127.0.0.1", played.port, told, place / "metrics.jsonl", engine_process=1) as watch:
            (place / "metrics.jsonl").unlink()
            place.rmdir()
            watch.ended(play.label(), 0, 0.0)

    with pytest.raises(EvidenceError, match="cannot be written"):
        losing_its_folder()


def test_the_next_launch_goes_on_in_the_same_file_behind_a_torn_line(watched, profile, tmp_path):
    played, watch, path = watched(page(1, 1), page(2, 2))
    with watch:
        pass
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"format":1,"engine')
    warnings: list[str] = []
    assert len(list(iterate_scrapes(path, METRICS, warn=warnings.append))) == 1
    assert len(warnings) == 1
    told = replace(profile, metrics=METRICS)
    with CounterWatch("127.0.0.1", played.port, told, path, engine_process=2):
        pass
    assert [(one.engine_process, dict(one.values)) for one in scrapes(path)] == [
        (1, {"output_tokens": 1, "finished_requests": 1}),
        (2, {"output_tokens": 2, "finished_requests": 2}),
    ]


@pytest.mark.parametrize("line", [b"{}\n", b"nonsense\n", b'{"format":2}\n', b"\xff\n", b"[]\n", b'{"format":1}\n'])
def test_a_damaged_line_is_said(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(line)
    with pytest.raises(EvidenceError, match="line 1 is damaged"):
        scrapes(path)


def test_no_file_has_no_readings(tmp_path):
    assert scrapes(tmp_path / "metrics.jsonl") == []


def test_numbers_without_their_page_are_damage(tmp_path):
    line = {"format": 1, "engine_process": 1, "asked_at": 0, "answered_at": 1, "numbers": ["1"]}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(EvidenceError, match="line 1 is damaged"):
        scrapes(tmp_path / "metrics.jsonl")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
KEYS = ("engine_process", "asked_at", "answered_at", "page", "numbers", "lost")


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), JSON | st.just(1) | st.just(["a 1"])), max_size=3))
def test_any_line_is_a_reading_or_damage(tmp_path_factory, made):
    path = tmp_path_factory.getbasetemp() / "any-metrics.jsonl"
    path.write_text("".join(json.dumps({"format": 1, **one}) + "\n" for one in made))
    with contextlib.suppress(EvidenceError):
        for one in iterate_scrapes(path, METRICS, warn=pytest.fail):
            assert one.asked_at <= one.answered_at
            assert one.values or one.problem


def test_readings_stay_small_and_come_back_exactly(tmp_path):
    recorded = (REPOSITORY / "fixtures" / "recordings" / "vllm-0.32.0" / "metrics-after.txt").read_text()
    counted = [one for one in recorded.splitlines() if one.startswith("vllm:") and "_created" not in one][:18]
    writer, reader, size = ReadingLines(), ReadingLines(), 0
    for number in range(1744):
        lines = tuple(f"{one.rpartition(' ')[0]} {number * 1.7 + place}" for place, one in enumerate(counted))
        reading = Reading(
            engine_process=1,
            asked_at=1000.0 + number / 7,
            answered_at=1000.001 + number / 7,
            lines=lines if number % 50 else (),
            lost=None if number % 50 else "the page did not come within 5 s",
        )
        line = writer.encode(reading)
        assert reader.decode(line) == reading
        size += len(line)
    assert size < 1_000_000


def test_lines_of_any_form_come_back_exactly():
    lines = ("# TYPE a counter", "a 1", "a\t1", 'a{b="c d"} 1 5', 'a{b="\0"} 2 # {x="y z"} 3', "# ", "a{} ")
    changed = (*lines[:1], "a 22", *lines[2:])
    writer, reader = ReadingLines(), ReadingLines()
    for one in (lines, changed, lines[:3], changed):
        reading = Reading(engine_process=1, asked_at=0.0, answered_at=1.0, lines=one, lost=None)
        assert reader.decode(writer.encode(reading)) == reading


def test_a_long_watch_holds_no_more_than_a_short_one(watched, play):
    played, watch, _ = watched(page(1, 1))
    sizes = []
    with watch:
        tracemalloc.start()
        try:
            for rounds in (40, 300):
                while len(played.played) < rounds:
                    watch.ended(play.label(), 0, 0.0)
                    time.sleep(0.001)
                ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/bench/measure/*")])
                sizes.append(sum(one.size for one in ours.statistics("filename")))
        finally:
            tracemalloc.stop()
    assert sizes[1] < sizes[0] + 100_000  # a page that just comes is held as well
