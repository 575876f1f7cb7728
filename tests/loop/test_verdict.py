"""The verdict line: what counts, what does not, and that nothing else is ever an ACCEPT."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.loop.verdict import Verdict, read_verdict


@pytest.mark.parametrize(
    ("text", "verdict", "reasons"),
    [
        ("VERDICT: ACCEPT", "ACCEPT", ""),
        ("All checks pass.\nVERDICT: ACCEPT\n\n  \n", "ACCEPT", "All checks pass."),
        ("1. a\n2. b\n\nVERDICT: CHANGES", "CHANGES", "1. a\n2. b"),
        ("fine\r\nVERDICT: ACCEPT\r\n", "ACCEPT", "fine"),
        ("**VERDICT: ACCEPT**", "ACCEPT", ""),
        ("**VERDICT:** ACCEPT", "ACCEPT", ""),
        ("`VERDICT: CHANGES`", "CHANGES", ""),
        ("ok\n```\nVERDICT: ACCEPT\n```", "ACCEPT", "ok\n```"),
        ("VERDICT: ACCEPT\nno, wait:\n1. wrong\nVERDICT: CHANGES", "CHANGES", "VERDICT: ACCEPT\nno, wait:\n1. wrong"),
    ],
)
def test_verdicts(text, verdict, reasons):
    assert read_verdict(text) == Verdict(verdict=verdict, reasons=reasons)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n \n",
        "***",
        "looks good",
        "VERDICT: ACCEPT.",
        "VERDICT: ACCEPTED",
        "verdict: accept",
        "VERDICT:ACCEPT",
        "VERDICT : ACCEPT",
        "VERDICT: ACCEPT or VERDICT: CHANGES",
        "My VERDICT: ACCEPT",
        "> VERDICT: ACCEPT",
        "VERDICT: ACCEPT\nThat is all.",
        "VERDICT: NOT ACCEPT",
        "VERDICT: ACCEPT\n<promise>COMPLETE</promise>",
        "VERDICT:\nACCEPT",
    ],
)
def test_no_verdict(text):
    assert read_verdict(text) is None


@given(st.text(), st.sampled_from(["VERDICT: ACCEPT", "VERDICT: CHANGES", ""]))
def test_an_accept_always_stands_on_the_last_line(text, line):
    found = read_verdict(f"{text}\n{line}" if line else text)
    if line:
        assert found is not None
        assert f"VERDICT: {found.verdict}" == line
    elif found is not None:
        assert f"VERDICT: {found.verdict}" in text.translate(str.maketrans("", "", "*_`"))
