from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.agent_profile import (
    PLACEHOLDERS,
    PROFILES,
    AgentProfile,
    fill,
    fill_structure,
    profiled_agents,
    read_agent_profile,
)
from bench.errors import FileFormatError
from bench.yaml_file import load_model

GOOD = (PROFILES / "codex" / "profile.yaml").read_text()


def test_every_profile_is_whole():
    assert set(profiled_agents()) == {"aider", "claude-code", "codex", "mini-swe-agent", "opencode", "qwen-code"}
    for name in profiled_agents():
        profile = read_agent_profile(name)
        assert profile.checked == ("documentation" if name in {"aider", "claude-code"} else "run here")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: Codex CLI\n", "", "key 'title' is missing"),
        ("title: Codex CLI\n", "titel: Codex CLI\n", "unknown key 'titel'; known here: api, argv"),
        ("checked: run here", "checked: perhaps", "key 'checked': expected 'run here' or 'documentation'"),
        ("/v1/responses\n", "/v1/speech\n", "key 'api': expected '/v1/chat/completions'"),
        ("bin/codex.js}", "bin/codex.js, pip: codex}", "'package' needs either 'npm' and 'program', or 'pip'"),
        ("program: bin/codex.js}", "}", "'package' needs either 'npm' and 'program', or 'pip'"),
        ("{home}/codex", "{house}/codex", "unknown placeholder {house}; known: model, url"),
        ("  codex/config.toml:", "  ../config.toml:", "expected a path below the agent's home, got '../config.toml'"),
        ("  codex/config.toml:", "  /config.toml:", "expected a path below the agent's home, got '/config.toml'"),
        ("    toml:\n", "    text: x\n    toml:\n", "a file needs exactly one of 'text', 'json', 'toml'"),
        ("agent-rollout.jsonl:", "events.jsonl:", "String should match pattern"),
        (
            "reader: codex_events",
            "reader: any_events",
            "key 'reader': there is no bench/agents/any_events.py; known: aider_events",
        ),
        ("window_if_unknown: 128000", "window_if_unknown: 0", "expected greater than 0"),
        ("  seed: Codex sends none", "", "'seed' must stand under 'sampling' or, with why, under 'not_pinned'"),
        ("not_pinned:\n", "sampling: {seed: 1}\nnot_pinned:\n", "'seed' must stand under 'sampling' or"),
        (
            "not_pinned:\n  temperature: Codex sends none",
            "sampling: {temperature: 0.5}\nnot_pinned:",
            "'temperature' stands under 'sampling', but {temperature} is used nowhere",
        ),
        ('model: "{model}"', 'model: "{seed}"', "{seed} is used, but 'sampling' has no 'seed'"),
        ("prompt: stdin", "prompt: file", "'prompt: file' and {prompt_file} belong together"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, old, new, said):
    assert old in GOOD
    path = tmp_path / "profile.yaml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(FileFormatError) as caught:
        load_model(path, AgentProfile)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))


VALUES = dict.fromkeys(PLACEHOLDERS, "?") | {"model": "m{url}", "seconds": 7, "temperature": 0.6}


def test_words_are_filled_once_and_other_braces_stay():
    assert (
        fill("{model} {seconds}s {} {Model} {{task}} ${x:-}", VALUES | {"task": 1}) == "m{url} 7s {} {Model} {1} ${x:-}"
    )


def test_a_string_that_is_one_word_keeps_its_type():
    filled = fill_structure({"{model}": ["{seconds}", "{seconds} s", {"t": "{temperature}"}], "n": None}, VALUES)
    assert filled == {"m{url}": [7, "7 s", {"t": 0.6}], "n": None}


@given(st.text(alphabet="AB{}1", max_size=20))
def test_text_without_a_word_in_braces_is_never_changed(text):
    assert fill(text, VALUES) == text
