from __future__ import annotations

import json
import shutil
import tomllib
from types import SimpleNamespace

import pytest

from bench.agents.adapters import AgentEvents, Place, agent_names, open_adapter
from bench.agents.agent_profile import PROFILES, profiled_agents, read_agent_profile
from bench.agents.profiled import ProfiledAgent, package_of
from bench.errors import MissingPartError, UsageError
from bench.spec import AgentSpec
from tests.agents.hostile_streams import is_sound

LONG = "Build it. " * 20_000
"""More than an argument may hold."""


@pytest.fixture
def place():
    return Place(project="/box", home="/agent", url="http://127.0.0.1:8127", mounted=lambda mount: mount.target)


@pytest.fixture
def started(make_request, place):
    """The command of one session of an agent."""

    def start(name, prompt="Build it.", **more):
        request = make_request(prompt)
        if more:
            request = SimpleNamespace(
                **{**{key: getattr(request, key) for key in request.__dataclass_fields__}, **more}
            )
        return open_adapter(AgentSpec(name=name)).command(request, place)

    return start


def test_every_profile_is_an_agent():
    assert agent_names() == (
        "aider",
        "builtin",
        "claude-code",
        "codex",
        "mini-swe-agent",
        "opencode",
        "pi",
        "qwen-code",
    )


@pytest.mark.parametrize("name", profiled_agents())
def test_no_agent_takes_arguments(name):
    with pytest.raises(
        UsageError, match=f"the agent {name} takes no arguments, got: --fast; what it is told stands in"
    ):
        open_adapter(AgentSpec(name=name, args=("--fast",)))


@pytest.mark.parametrize("name", profiled_agents())
def test_what_is_told_of_it_is_told_in_the_record(name):
    adapter = open_adapter(AgentSpec(name=name))
    told = json.loads(json.dumps(adapter.configuration))
    assert told["package"].endswith(f"@{adapter.version}")
    assert {*told["sampling"], *told["not_pinned"]} == {"temperature", "top_p", "seed"}
    assert told["api"] == adapter.api
    assert len(told["profile_sha256"]) == 64


@pytest.mark.parametrize("name", profiled_agents())
def test_an_agent_that_is_not_installed_says_how_and_whether_it_was_ever_tried(name, tmp_path):
    profile = read_agent_profile(name)
    package = package_of(name, profile, checkout=tmp_path)
    (tmp_path / "fixtures" / "agents").mkdir(parents=True)
    shutil.copytree(PROFILES / name, tmp_path / "fixtures" / "agents" / name)
    with pytest.raises(MissingPartError) as caught:
        ProfiledAgent(name, profile, package).check_installed()
    assert str(caught.value).startswith(f"the agent {name} is not installed; run: make agent-{name}")
    assert ("was run with this profile" in str(caught.value)) == (name in {"aider", "claude-code"})


@pytest.mark.parametrize("name", profiled_agents())
def test_a_long_prompt_is_no_argument(started, name):
    command = started(name, LONG)
    assert sum(map(len, command.argv)) < 5_000
    assert LONG.encode() in {command.stdin, *command.files.values()}


@pytest.mark.parametrize("name", profiled_agents())
def test_a_command_and_its_files_name_nothing_of_the_host(started, name):
    command = started(name)
    told = "\n".join([*command.argv, *command.env.values(), *(file.decode() for file in command.files.values())])
    (mount,) = command.mounts
    assert str(mount.source) not in told
    assert mount.target in told
    assert all(not path.startswith(("/", "..")) for path in command.files)
    assert not mount.writable


@pytest.mark.parametrize("name", profiled_agents())
def test_a_probe_is_short_and_asks_no_model(name, place):
    probe = open_adapter(AgentSpec(name=name)).probe(place)
    assert probe.stdin == b""
    assert probe.mounts


@pytest.mark.parametrize("name", profiled_agents())
def test_an_empty_evidence_folder_is_read_without_a_fault(tmp_path, name):
    read = open_adapter(AgentSpec(name=name)).read_events(tmp_path, 1)
    assert isinstance(read, AgentEvents)
    assert is_sound(read)
    assert (read.usage, read.end) == ((), None)
    assert read.damage


def test_codex_is_told_all_in_its_own_form(started):
    told = tomllib.loads(started("codex", model='a"b', context_window=None).files["codex/config.toml"].decode())
    assert told["model"] == 'a"b'
    assert told["model_context_window"] == 128_000
    provider = told["model_providers"]["local"]
    assert (provider["base_url"], provider["request_max_retries"]) == ("http://127.0.0.1:8127/v1", 0)


def test_opencode_is_told_all_in_its_own_form(started):
    told = json.loads(started("opencode").files["opencode.json"])
    (model,) = told["provider"]["local"]["models"].values()
    assert model["limit"] == {"context": 4096, "output": 256}
    assert (model["options"], told["agent"]["build"]) == ({"seed": 1}, {"temperature": 0.6, "top_p": 0.95})


def test_mini_swe_agent_is_told_all_in_its_own_form(started):
    told = json.loads(started("mini-swe-agent").files["engine.yaml"])["model"]["model_kwargs"]
    assert told == {
        "temperature": 0.6,
        "top_p": 0.95,
        "seed": 1,
        "max_tokens": 256,
        "timeout": 90,
        "max_retries": 0,
        "num_retries": 0,
    }
