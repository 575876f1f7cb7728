"""Every mistake in a YAML file is told with file, line, key and what was expected."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from bench.errors import FileFormatError, UsageError
from bench.yaml_file import load_mapping, load_model


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    sessions: int


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    title: str
    limits: Inner
    names: list[str] = []


def told(tmp_path, text: str) -> str:
    place = tmp_path / "w.yaml"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(FileFormatError) as caught:
        load_model(place, Outer)
    assert str(caught.value).startswith(str(place))
    return str(caught.value).removeprefix(str(place))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("title: a\nlimits:\n  sessions: 3\n  sesions: 4\n", 4, ("limits.sesions", "sessions")),
        ("title: a\nlimits:\n  sessions: many\n", 3, ("limits.sessions", "integer", "many")),
        ("title: a\nlimits:\n  sessions: true\n", 3, ("limits.sessions", "integer")),
        ("title: a\n", 1, ("limits", "missing")),
        ("title: a\nlimits:\n sessions: 1\n   x: 2\n", 4, ("not valid YAML",)),
        ("title: a\n\tlimits: 3\n", 2, ("not valid YAML",)),
        ("title: a\ntitle: b\nlimits: {sessions: 1}\n", 2, ("title", "twice")),
        ("title: a\nlimits: {sessions: 1}\nnames: [a, 3]\n", 3, ("names.1", "string")),
        ("- a\n- b\n", 1, ("mapping",)),
        ("", 1, ("mapping",)),
        ("title: !!python/object/apply:os.system [x]\nlimits: {sessions: 1}\n", 1, ("not valid YAML",)),
    ],
)
def test_each_mistake_names_its_line_and_key(tmp_path, text, line, words):
    message = told(tmp_path, text)
    assert message.startswith(f":{line}: ")
    for word in words:
        assert word in message


def test_a_good_file_is_read(tmp_path):
    place = tmp_path / "w.yaml"
    place.write_text("title: a\nlimits:\n  sessions: 3\n", encoding="utf-8")
    assert load_model(place, Outer).limits.sessions == 3
    assert load_mapping(place)[1][("limits", "sessions")] == 3


def test_a_file_that_is_missing_or_no_text_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        load_model(tmp_path / "none.yaml", Outer)
    place = tmp_path / "binary.yaml"
    place.write_bytes(b"title: \xff\xfe")
    with pytest.raises(FileFormatError, match="UTF-8"):
        load_model(place, Outer)


def test_deep_nesting_and_aliases_do_no_harm(tmp_path):
    place = tmp_path / "deep.yaml"
    place.write_text("a: " + "[" * 60 + "]" * 60, encoding="utf-8")
    with pytest.raises(FileFormatError, match="levels deep"):
        load_mapping(place)


@given(st.text(max_size=200))
def test_any_text_gives_data_or_a_file_format_error(tmp_path_factory, text):
    place = tmp_path_factory.mktemp("any") / "any.yaml"
    place.write_text(text, encoding="utf-8", errors="replace")
    with contextlib.suppress(FileFormatError):
        load_model(place, Outer)


def test_aliases_that_explode_are_refused(tmp_path):
    place = tmp_path / "bomb.yaml"
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    place.write_text("\n".join(levels), encoding="utf-8")
    with pytest.raises(FileFormatError, match="aliases written out"):
        load_mapping(place)
