"""Text of agents and projects, made fit for prompts and the journal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.loop.taming import tame


def test_plain_text_stays_as_it_is():
    assert tame("a\n\tb \u00e9 \U0001f600", 100) == "a\n\tb \u00e9 \U0001f600"
    assert tame("a\r\nb", 100) == "a\nb"


def test_of_too_long_a_text_head_and_tail_are_kept():
    assert (
        tame("a" * 30 + "b" * 1_000 + "c" * 60, 90) == "a" * 30 + "\n[... 1,000 characters left out ...]\n" + "c" * 60
    )


@given(st.text(st.characters(), max_size=300), st.integers(3, 200))
def test_the_result_is_always_writable_and_capped(text, characters):
    tamed = tame(text, characters)
    tamed.encode("utf-8")
    assert len(tamed) <= characters + 60
    assert not any(ord(char) < 32 and char not in "\n\t" for char in tamed)
