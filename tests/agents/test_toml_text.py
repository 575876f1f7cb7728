from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.toml_text import toml_text

VALUE = st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
STRING = st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=12)
TABLE = st.recursive(
    st.dictionaries(STRING, VALUE | STRING | st.lists(VALUE | STRING, max_size=3), max_size=4),
    lambda inner: st.dictionaries(STRING, VALUE | STRING | inner, max_size=3),
    max_leaves=8,
)


@given(TABLE)
def test_what_is_written_is_read_again(table):
    assert tomllib.loads(toml_text(table)) == table


def test_it_looks_as_a_person_would_write_it():
    table = {"model": "m", "providers": {"local": {"url": "http://x", "retries": 0}}, "on": True, "empty": {}}
    assert toml_text(table) == ('model = "m"\non = true\n[providers.local]\nurl = "http://x"\nretries = 0\n[empty]\n')


def test_lone_surrogates_become_encodable():
    assert tomllib.loads(toml_text({"a": "x\udcff"})) == {"a": "x?"}


def test_what_toml_does_not_know_is_refused():
    with pytest.raises(TypeError, match="no TOML value: None"):
        toml_text({"a": None})
