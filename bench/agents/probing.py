"""Does an agent start in this box, in the version that is wanted? Asked before anything is measured."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.agents.adapters import Adapter, AgentCommand
from bench.agents.placing import place_of, placed
from bench.contracts import Box, BoxPlan
from bench.errors import MissingPartError

PROBE_SECONDS = 60.0
_NOWHERE = "http://127.0.0.1:9"
"""What a probe is told of the model: it asks nothing."""

_SAID_BYTES = 20_000
_SHOWN_CHARACTERS = 600


def probe(adapter: Adapter, *, box: Box, home: Path, seconds: float = PROBE_SECONDS) -> str:
    """The version that the agent printed when it was started in this box, without a relay.

    `home` is where its own folder is made anew. An agent that has no probe is believed. Main thread only.
    Raises MissingPartError where it does not print `adapter.version`: what it said last, and what to do.
    """
    command = adapter.probe(place_of(adapter, box, project=home, home=home, url=_NOWHERE))
    if command is None:
        return adapter.version
    seen = _run(placed(command, adapter, box, home=home, url=_NOWHERE), box, seconds)
    if seen.code == 0 and adapter.version in seen.out.split():
        return adapter.version
    raise MissingPartError(_what_is_wrong(adapter, seen, _node(box) if command.argv[0] == "node" else None))


@dataclass(frozen=True, kw_only=True)
class _Seen:
    code: int | None
    """None: it did not end in time."""

    out: str
    err: str
    seconds: float

    @property
    def last_words(self) -> str:
        """What it printed last, errors before all else; the middle of much is left out."""
        lines = [line.strip() for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        told = next((line for line in lines if "Error" in line), "")
        words = " … ".join(dict.fromkeys(line for line in (told, *lines[-2:]) if line))
        return words[:_SHOWN_CHARACTERS] or "nothing"


def _run(command: AgentCommand, box: Box, seconds: float) -> _Seen:
    plan = BoxPlan(argv=command.argv, project=None, mounts=command.mounts, env=command.env)
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(command.stdin)
        stdin.seek(0)
        boxed = box.start(plan, stdin=stdin, stdout=out, stderr=err)
        try:
            code = boxed.process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            boxed.end()
        return _Seen(code=code, out=_tail(out), err=_tail(err), seconds=seconds)


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, 2)
    file.seek(max(0, size - _SAID_BYTES))
    return file.read().decode("utf-8", "replace")


def _node(box: Box) -> str:
    """What the box's Node says of itself."""
    seen = _run(AgentCommand(argv=("node", "--version")), box, PROBE_SECONDS)
    return seen.out.strip()[:40] or "of unknown version"


def _what_is_wrong(adapter: Adapter, seen: _Seen, node: str | None) -> str:
    again = f"rm -r .agents/{adapter.name}, then run: make agent-{adapter.name}"
    within = f" with this box's Node {node}" if node else " in this box"
    if seen.code is None:
        return (
            f"the agent {adapter.name} did not tell its version within {seen.seconds:g} s{within}; "
            f"it said: {seen.last_words}; try again with less going on, or {again}"
        )
    if seen.code == 0 and seen.out.strip():
        said = seen.out.strip()[:80]
        return f"the agent {adapter.name} calls itself '{said}', {adapter.version} is wanted; {again}"
    newer = "for a newer Node: .venv/bin/pip install --upgrade playwright; else " if node else ""
    return (
        f"the agent {adapter.name} {adapter.version} does not start{within} "
        f"(exit code {seen.code}; it said: {seen.last_words}); {newer}{again}"
    )
