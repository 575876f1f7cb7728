"""The registry of agents, and how the embedded one is started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.agents.adapters import Place, agent_names, open_adapter
from bench.errors import UsageError
from bench.spec import AgentSpec


def test_an_unknown_agent_is_refused_with_those_that_exist():
    with pytest.raises(UsageError, match=r"unknown agent 'nobody'; there are: .*builtin, .*pi"):
        open_adapter(AgentSpec(name="nobody"))


@pytest.mark.parametrize("name", agent_names())
def test_every_agent_says_who_it_is(name):
    adapter = open_adapter(AgentSpec(name=name))
    assert (adapter.name, bool(adapter.version)) == (name, True)


def test_the_builtin_agent_takes_no_arguments():
    with pytest.raises(UsageError, match="takes no arguments, got: --fast"):
        open_adapter(AgentSpec(name="builtin", args=("--fast",)))


def test_the_builtin_command_holds_the_limits_and_the_prompt(bare_box, make_request):
    request = make_request("fünf \ud800")
    place = Place(project="/box", home="/agent", url="unix:///run/relay.sock", mounted=bare_box.mount_path)
    command = open_adapter(AgentSpec(name="builtin")).command(request, place)
    (mount,) = command.mounts
    assert command.argv[:4] == ("python3", "-I", "-S", str(mount.source))
    assert command.argv[4:] == (
        "--url", "unix:///run/relay.sock", "--model", "tiny", "--max-tokens", "256", "--max-requests", "20",
        "--context-window", "4096",
    )  # fmt: skip
    assert (mount.target, mount.writable) == ("/tools/agent/agent_main.py", False)
    assert command.stdin == "fünf ?".encode()


def test_naming_the_agents_imports_none_of_them():
    code = (
        "import sys, bench.agents.adapters as a; a.agent_names(); print('bench.agents.builtin.adapter' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
