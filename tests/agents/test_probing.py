"""Does the agent start in this box? With the real Pi, with an older Node, and with programs that answer wrongly."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import pytest

from bench.agents.adapters import AgentCommand, open_adapter
from bench.agents.pi import PiAgent, read_options
from bench.agents.probing import probe
from bench.contracts import Mount
from bench.errors import EvidenceError, MissingPartError
from bench.spec import AgentSpec
from tests.agents.boxed_session import the_box
from tests.agents.npm_agents import require_agent

OLD_NODE = """\
#!/bin/sh
[ "$1" = --version ] && echo v20.20.2 && exit
echo "SyntaxError: The requested module 'node:module' does not provide an export named 'enableCompileCache'" >&2
echo "Node.js v20.20.2" >&2
exit 1
"""


@dataclass
class Pebble:
    """An agent whose probe is a shell command."""

    script: str | None
    name: str = "pebble"
    version: str = "1.2.3"
    speaks_unix: bool = False

    def probe(self, place):
        argv = ("/bin/sh", "-c", self.script)
        files = {"config/a": b"1.2.3"}
        return None if self.script is None else AgentCommand(argv=argv, env={"OWN": place.home}, files=files)


def refused(adapter, box, home, **more):
    with pytest.raises(MissingPartError) as caught:
        probe(adapter, box=box, home=home, **more)
    return str(caught.value)


def test_pi_starts_in_the_box(tmp_path):
    require_agent("pi")
    adapter = open_adapter(AgentSpec(name="pi"))
    assert probe(adapter, box=the_box(), home=tmp_path / "home") == adapter.version


def test_pi_with_an_old_node_says_that_it_is_the_node(tmp_path):
    """A box whose Node is a program that says and does what Node 20 says and does."""
    require_agent("pi")
    old = tmp_path / "node"
    old.write_text(OLD_NODE, encoding="utf-8")
    old.chmod(0o755)
    box = copy.copy(the_box())
    box._interpreters = replace(box._interpreters, node=old)
    said = refused(open_adapter(AgentSpec(name="pi")), box, tmp_path / "home")
    assert said.startswith("the agent pi 1.6.0 does not start with this box's Node v20.20.2 (exit code 1; it said: Syn")
    assert "enableCompileCache" in said
    assert said.endswith(
        "for a newer Node: .venv/bin/pip install --upgrade playwright; else rm -r .agents/pi, then run: make agent-pi"
    )


def test_a_broken_installation_is_told(tmp_path):
    """One of Pi's files is torn, in the box alone."""
    require_agent("pi")
    (tmp_path / "torn").write_text("export function main(", encoding="utf-8")

    class Broken(PiAgent):
        def probe(self, place):
            command = super().probe(place)
            program = Mount(source=tmp_path / "torn", target=command.argv[1].replace("cli.js", "cli-runtime.js"))
            return replace(command, mounts=(*command.mounts, program))

    said = refused(Broken(read_options(())), the_box(), tmp_path / "home")
    assert "SyntaxError" in said
    assert "make agent-pi" in said


def test_an_agent_without_a_probe_is_believed(tmp_path):
    assert probe(Pebble(None), box=the_box(), home=tmp_path / "home") == "1.2.3"
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    "script", ["echo pebble 1.2.3 built yesterday", 'cat "$OWN/config/a"', "echo 1.2.3; echo no >&2"]
)
def test_the_version_may_stand_anywhere_in_what_it_prints(tmp_path, script):
    assert probe(Pebble(script), box=the_box(), home=tmp_path / "home") == "1.2.3"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 1.2.30", "the agent pebble calls itself '1.2.30', 1.2.3 is wanted; rm -r .agents/pebble, then run: make agent-pebble"),
        ("true", "does not start in this box (exit code 0; it said: nothing)"),
        ("echo 1.2.3; exit 3", "the agent pebble 1.2.3 does not start in this box (exit code 3; it said: 1.2.3); rm -r"),
        ("echo 'Error: no such module' >&2; echo at x >&2; echo at y >&2; echo at z >&2; exit 1", "it said: Error: no such module … at y … at z"),
        ("exit 1", "it said: nothing"),
        ("kill -9 $$", "(exit code 137; it said: nothing)"),
        ("head -c 300000000 /dev/zero; exit 1", "does not start in this box"),
    ],
)  # fmt: skip
def test_what_it_did_instead_is_told(tmp_path, script, said):
    assert said in refused(Pebble(script), the_box(), tmp_path / "home")


def test_an_agent_that_does_not_end_is_ended(tmp_path):
    said = refused(Pebble("echo waiting; exec sleep 100"), the_box(), tmp_path / "home", seconds=0.5)
    assert said.startswith("the agent pebble did not tell its version within 0.5 s in this box; it said: waiting; try")


def test_a_home_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EvidenceError, match="the agent's folder cannot be written"):
        probe(Pebble("echo 1.2.3"), box=the_box(), home=tmp_path / "file" / "home")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
