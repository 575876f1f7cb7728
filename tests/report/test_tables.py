"""Tables say what the record says, and nothing in a record can steer a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.records.schema import RequestRecord
from bench.report import tables
from bench.report.columns import written


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.064, "s", "3.064 s"),
        (0.00123, "s", "1.23 ms"),
        (0.0, "s", "0.000 s"),
        (37_590.0, "s", "626.5 min"),
        (25_155_774 / 29_156_876, "ratio", "86.28 %"),
        (346_605 / 550_069, "ratio", "63.01 %"),
        (40.14, "tok/s", "40.14 tok/s"),
        (197.86 * (1 << 30), "bytes", "197.86 GiB"),
        (4_001_102, "tokens", "4,001,102 tokens"),
        (8, "1", "8"),
        (None, "s", "-"),
    ],
)
def test_values_are_written_with_their_units(value, unit, text):
    assert written(value, unit) == text


def test_the_line_of_hidden_cases_names_every_group(small_record):
    assert (
        tables.cases_line(small_record.cases) == "hidden acceptance cases: model 1 of 2, page not run (not judged yet)"
    )


def test_the_summary_shows_figures_reasons_and_missed_cases(small_record):
    text = tables.summary(small_record)
    assert "simulated times" in text
    assert "3.064 s" in text
    assert "- not measured: TTFT: n is under 50" in text
    assert "miss.unrelated" in text
    assert "one response reported no usage" in text
    assert "\x1b" not in text


def test_a_measured_record_does_not_say_simulated(small_record):
    assert "simulated" not in tables.summary(replace(small_record, simulated=False)).splitlines()[1]


def test_sessions_are_listed_and_below_them_why_some_were_not_done(small_record):
    lines = tables.sessions(small_record).splitlines()
    assert lines[-1] == "001 engine-error (memory): no memory"
    assert lines[0] == tables.SIMULATED
    assert lines[1].split() == ["no.", "role", "task", "try", "outcome", "reqs", "output", "wall"]
    done = replace(small_record.sessions[0], outcome="done", kind=None, reason="")
    assert len(tables.sessions(replace(small_record, sessions=(done,))).splitlines()) == 4
    assert tables.SIMULATED not in tables.sessions(replace(small_record, simulated=False))


def test_sessions_that_ended_alike_are_told_in_one_line(small_record):
    row = small_record.sessions[0]
    rows = [replace(row, session=number, retry=number - 5) for number in range(5, 21)]
    other = replace(row, session=2, reason="another")
    again = replace(row, session=23)
    lines = tables.sessions(replace(small_record, sessions=(row, other, *rows, again))).splitlines()
    assert lines[-2:] == [
        "sessions 001, 005-020, 023 engine-error (memory): no memory",
        "002 engine-error (memory): another",
    ]
    assert "1 r15" in lines[-5]
    assert lines[-3].startswith("try: the attempt; r1, r2: its retries")


def test_the_list_tells_runs_apart_one_line_each(small_record):
    pi = {**small_record.identity, "agent": "pi", "agent_args": "--thinking=high\n--skill=a"}
    builtin = {**small_record.identity, "agent": "builtin", "agent_args": ""}
    idle = tuple(replace(case, outcome="not-run", reason="no engine") for case in small_record.cases)
    records = [
        replace(small_record, identity=pi),
        "x: no record yet",
        replace(small_record, run_id="two", end="blocked", identity=builtin, cases=idle),
    ]
    run_id = small_record.run_id
    assert tables.runs(records) == [
        f"{run_id}  complete  sound  pi --thinking=high --skill=a  model 1 of 2",
        "x: no record yet",
        f"{'two':<{len(run_id)}}  blocked   sound  {'builtin':<28}  not scored",
    ]
    assert tables.runs([]) == []


def test_the_widest_sessions_fit_a_terminal(small_record):
    parts = dict.fromkeys(("seconds", "engine_seconds", "waiting_seconds", "tool_seconds", "agent_seconds"), 999.9)
    widest = replace(
        small_record.sessions[0],
        role="final-reviewer",
        attempt=2,
        retry=1,
        requests=1_234,
        prompt_tokens=9_999_999,
        output_tokens=1_999_999,
        reason="because\x1b[31m " + "x" * 1000,
        **parts,
    )
    long = replace(widest, session=2, **dict.fromkeys(parts, 360_000.0))
    short = replace(widest, session=3, **dict.fromkeys(parts, 0.0004))
    text = tables.sessions(replace(small_record, sessions=(widest, long, short)))
    rows = text.splitlines()[1:]
    assert max(len(row) for row in rows[:5]) <= 120
    assert rows[2].split()[-10:] == ["999.9", "s"] * 5
    assert rows[3].split()[-2:] == ["100.0", "h"]
    assert rows[4].split()[-2:] == ["0", "ms"]
    assert rows[5] == "try: the attempt; r1, r2: its retries, begun again after an engine error and never charged"
    assert all(len(row) < 400 and row.isprintable() for row in rows)


def test_parts_stand_beside_each_other_below_the_totals(small_record):
    def part(name, scope, value, unit):
        return replace(small_record.figures[0], id=name, scope=scope, value=value, unit=unit, group="token")

    record = replace(
        small_record,
        figures=(
            *small_record.figures,
            part("served_requests", "role:builder", 1_200, "requests"),
            part("ttft_median", "role:builder", 2.5, "s"),
            part("served_requests", "role:reviewer", 3, "requests"),
            part("ttft_median", "role:reviewer", None, "s"),
            part("served_requests", "prompt:2k-8k", 7, "requests"),
        ),
    )
    text = tables.summary(record)
    by_role = text.split("By role (decode in tok/s)\n")[1].split("\n\n")[0].splitlines()
    assert by_role[0].split("  ")[0] == "part"
    assert "TTFT" in by_role[0]
    assert "accepted" not in by_role[0]
    assert by_role[2].split() == ["builder", "1,200", "2.500", "s"]
    assert by_role[3].split() == ["reviewer", "3", "-"]
    assert "By prompt length in tokens (decode in tok/s)\npart   requests\n-----  --------\n2k-8k         7" in text
    assert text.index("TTFT") < text.index("By role")
    assert "served_requests" not in text


def test_a_record_without_parts_has_no_table_of_them(small_record):
    assert "By role" not in tables.summary(small_record)


def test_requests_are_listed_one_row_each():
    one = RequestRecord(
        **{
            **dict.fromkeys(RequestRecord.__dataclass_fields__),
            "session": 7,
            "index": 2,
            "role": "builder",
            "task": "T003",
            "prompt_tokens": 113_626,
            "cached_tokens": 0,
            "output_tokens": 80,
            "ttft_seconds": 19.18,
            "decode_seconds": 2.0,
            "drafted_tokens": 40,
            "accepted_tokens": 30,
            "finish_reason": "stop",
            "source": "engine-log",
            "purpose": "turn",
        }
    )
    failed = replace(one, index=3, error="HTTP 400\x1b[31m" + "x" * 100, decode_seconds=None, drafted_tokens=None)
    _, _, first, second = tables.requests([one, failed], simulated=False).splitlines()
    assert first.split() == [
        "007",
        "2",
        "builder",
        "T003",
        "113,626",
        "0",
        "80",
        "19.180",
        "s",
        "40.00",
        "30/40",
        "stop",
        "engine-log",
        "-",
    ]
    assert second.split()[9:11] == ["-", "-"]
    assert "\x1b" not in second
    assert len(second) < 200
