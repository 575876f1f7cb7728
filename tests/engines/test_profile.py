"""Profiles as files that people edit: what is wrong is said with file, line and key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engines.profile import PROFILES, LaunchProfile, TimedFigure, list_profiles, read_profile, value_at
from bench.errors import FileFormatError, UsageError
from bench.yaml_file import load_model

GOOD = """\
title: Some engine
simulated: false
model: none
programs:
  - command: some-engine
install: get it
argv: [--port, "{port}"]
ready: {path: /health, loading: [503], seconds: 5}
stop_seconds: 1
response_fields:
  ttft_seconds: {path: timings.ttft_ms, unit: ms}
unavailable:
  prefill_seconds: not told
  decode_seconds: not told
  queue_seconds: not told
  drafted_tokens: not told
  accepted_tokens: not told
  computed_prompt_tokens: not told
"""


def problem_of(tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        load_model(path, LaunchProfile)
    return caught.value


def test_every_profile_here_reads_and_says_something_of_every_timing():
    assert {"embedded", "llama-server"} <= set(list_profiles())
    for name in list_profiles():
        contract = read_profile(name).contract(name)
        assert contract.name == name
        assert set(TimedFigure.__args__) <= set(contract.response_fields) | set(contract.unavailable)
        assert set(contract.includes) <= set(contract.response_fields)


def test_only_the_embedded_engine_is_simulated():
    assert [name for name in list_profiles() if read_profile(name).simulated] == ["embedded"]


def test_an_unknown_engine_is_answered_with_those_that_exist():
    with pytest.raises(UsageError, match="unknown engine 'ollama'; there are: embedded, llama-server"):
        read_profile("ollama")
    assert (PROFILES / "embedded.yaml").is_file()


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("stop_seconds: 1", "stop_seconds: 1\nmemory_error: []", 10, "unknown key 'memory_error'; known here: argv"),
        ("seconds: 5}", "seconds: 5, pause: 1}", 8, "unknown key 'ready.pause'; known here: loading, path, seconds"),
        ("stop_seconds: 1\n", "", 1, "key 'stop_seconds' is missing"),
        ("simulated: false", "simulated: 'no'", 2, "key 'simulated': expected a valid boolean, got 'no'"),
        ("seconds: 5}", "seconds: 0}", 8, "key 'ready.seconds'"),
        ("  - command: some-engine", "  - command: a\n    module: b", 5, "needs either 'command'"),
        ('"{port}"', '"{prot}"', 7, "unknown placeholder {prot}; known: host, port"),
        ("unit: ms", "unit: hours", 11, "key 'response_fields.ttft_seconds.unit'"),
        ("  queue_seconds: not told\n", "", 1, "'queue_seconds' must stand either under 'response_fields' or"),
        ("  ttft_seconds:", "  tfft_seconds:", 11, "tfft_seconds"),
        ("stop_seconds: 1", "stop_seconds: 1\nmemory_errors: ['(']", 10, "not a regular expression"),
        ("simulated: false", "simulated: false\n  model: none", 3, "not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_profile_is_said_with_file_line_and_key(tmp_path, old, new, line, says):
    assert old in GOOD
    problem = problem_of(tmp_path, GOOD.replace(old, new))
    assert says in problem.problem
    assert problem.line == line
    assert str(problem).startswith(f"{tmp_path / 'bad.yaml'}:{line}: ")


def test_a_value_is_found_at_its_dotted_key():
    models = {"data": [{"meta": {"n_ctx": 4096}}]}
    assert value_at(models, "data.0.meta.n_ctx") == 4096
    assert value_at(models, "data.1.meta.n_ctx") is None
    assert value_at(models, "data.meta") is None
    assert value_at(models, "data.0.meta.n_ctx.more") is None


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(JSON, st.text(alphabet="0a1.-", max_size=8))
def test_no_document_and_no_key_raise(document, key):
    value_at(document, key)
