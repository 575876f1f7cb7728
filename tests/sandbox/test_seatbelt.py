"""The macOS profile as text: it cannot be run here."""

import re
from pathlib import Path

import pytest

from bench.contracts import BoxPlan, Mount, RelayAddress
from bench.errors import HarnessError, MissingPartError, UsageError
from bench.sandbox.interpreters import Interpreters
from bench.sandbox.seatbelt import SeatbeltBox, open_seatbelt, profile

TOOLS = Interpreters(
    python_prefix=Path("/Users/me/.pyenv/versions/3.13"),
    python=Path("/Users/me/.pyenv/versions/3.13/bin/python3.13"),
    shared_library=False,
    node=Path("/Users/me/runcard/.venv/driver/node"),
)
SECRET = (Path("/Users/me/runcard"),)


def rules(text):
    """The rules in their order, each on one line."""
    depth, start, found = 0, 0, []
    for index, character in enumerate(re.sub(r'"(?:\\.|[^"\\])*"', lambda m: "x" * len(m.group()), text)):
        if character == "(":
            start = index if depth == 0 else start
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                found.append(" ".join(text[start : index + 1].split()))
    assert depth == 0
    return found


def text_of(**changes):
    settings = {"readable": [], "writable": [], "secret": SECRET, "interpreters": TOOLS, "port": None}
    return profile(**{**settings, **changes})


def test_everything_is_denied_that_is_not_named():
    found = rules(text_of())
    assert found[:2] == ["(version 1)", "(deny default)"]
    assert not [rule for rule in found if "network" in rule]
    assert not [rule for rule in found if rule.startswith("(allow file-write*")]
    assert "(allow signal (target same-sandbox))" in found


def test_homes_and_secrets_are_denied_before_what_is_shown_is_allowed():
    project = Path("/Users/me/runcard/results/run/project")
    found = rules(text_of(readable=[project], writable=[project]))
    denied = next(index for index, rule in enumerate(found) if rule.startswith("(deny file-read*"))
    allowed = next(index for index, rule in enumerate(found) if f'(subpath "{project}")' in rule)
    assert denied < allowed
    assert '(subpath "/Users")' in found[denied]
    assert '(subpath "/Users/me/runcard")' in found[denied]
    assert f'(allow file-write* (subpath "{project}"))' in found


def test_the_network_is_one_port():
    assert text_of(port=4321).count("network") == 1
    assert '(allow network-outbound (remote ip "localhost:4321"))' in rules(text_of(port=4321))


def test_a_path_cannot_leave_its_quotes():
    hostile = Path('/tmp/a") (allow default) ("\\')
    found = rules(text_of(readable=[hostile]))
    assert "(allow default)" not in found
    with pytest.raises(HarnessError, match="cannot name the path"):
        text_of(readable=[Path("/tmp/a\n(allow default)")])


def test_a_plan_becomes_a_command(tmp_path):
    project, scratch, agent = tmp_path / "project", tmp_path / "scratch", tmp_path / "agent.py"
    box = SeatbeltBox("/usr/bin/sandbox-exec", TOOLS, SECRET)
    plan = BoxPlan(
        argv=("python3", str(agent)),
        project=project,
        writable=True,
        mounts=(Mount(source=agent, target="/tools/agent.py"),),
        relay=RelayAddress(socket=tmp_path / "r.sock", port=4000),
    )
    command = box.command(plan, scratch)
    assert command[:2] == ["/usr/bin/sandbox-exec", "-p"]
    assert command[-2:] == ["python3", str(agent)]
    written = next(rule for rule in rules(command[2]) if rule.startswith("(allow file-write* "))
    assert written == f'(allow file-write* (subpath "{scratch}") (subpath "{project}"))'
    assert "localhost:4000" in command[2]
    read_only = box.command(BoxPlan(argv=("true",), project=project), scratch)
    assert f'(allow file-write* (subpath "{scratch}"))' in rules(read_only[2])


def test_it_says_that_it_is_weaker_and_was_not_run():
    box = SeatbeltBox("/usr/bin/sandbox-exec", TOOLS, SECRET)
    assert box.isolation == "weaker"
    assert "weaker isolation, not run here" in box.name
    assert box.relay_url(RelayAddress(socket=Path("/x"), port=4000)) == "http://127.0.0.1:4000"


def test_a_plan_that_would_show_a_secret_is_refused(tmp_path):
    box = SeatbeltBox("/usr/bin/sandbox-exec", TOOLS, SECRET)
    with pytest.raises(UsageError, match="must not be seen"):
        box.command(BoxPlan(argv=("true",), project=Path("/Users/me")), tmp_path)


def test_a_machine_without_it_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPartError, match="--unsafe-no-sandbox"):
        open_seatbelt(())
