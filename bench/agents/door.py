"""How does an agent that speaks no unix sockets reach the relay from its box? By a door on the box's own loopback."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.agents.adapters import AgentCommand
from bench.contracts import Box, Mount

_DOOR_FILE = Path(__file__).with_name("door_main.py")
_PORT = 8127
"""Within the box's own network, where nothing else listens; the same in every session."""

_UNIX = "unix://"


def url_inside(url: str, *, speaks_unix: bool) -> str:
    """The base URL that an agent is told, given the one that leads out of its box."""
    return f"http://127.0.0.1:{_PORT}" if url.startswith(_UNIX) and not speaks_unix else url


def behind_door(command: AgentCommand, box: Box, url: str, *, speaks_unix: bool) -> AgentCommand:
    """The command, started by the door where it needs one."""
    if speaks_unix or not url.startswith(_UNIX):
        return command
    door = Mount(source=_DOOR_FILE, target="/tools/door/door_main.py")
    argv = ("python3", "-I", "-S", box.mount_path(door), str(_PORT), url.removeprefix(_UNIX), *command.argv)
    return replace(command, argv=argv, mounts=(*command.mounts, door))
