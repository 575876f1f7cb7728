"""How is an agent's command put into a box? The same for a session, for the probe before it, and for doctor's attacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.agents.adapters import Adapter, AgentCommand, Place
from bench.agents.door import behind_door, url_inside
from bench.agents.home import make_home
from bench.contracts import Box, Mount

_HOME_INSIDE = "/agent"


def place_of(adapter: Adapter, box: Box, *, project: Path, home: Path, url: str) -> Place:
    """Where the agent will find things. `home` is its own folder on the host, `url` leads out of the box."""
    return Place(
        project=box.project_path(project),
        home=box.mount_path(_own(home)),
        url=url_inside(url, speaks_unix=adapter.speaks_unix),
        mounted=box.mount_path,
    )


def placed(command: AgentCommand, adapter: Adapter, box: Box, *, home: Path, url: str) -> AgentCommand:
    """The command as the box starts it: its home made anew and mounted, a door before it where it needs one."""
    make_home(home, command.files, command.executable)
    command = replace(command, mounts=(*command.mounts, _own(home)))
    return behind_door(command, box, url, speaks_unix=adapter.speaks_unix)


def _own(home: Path) -> Mount:
    return Mount(source=home, target=_HOME_INSIDE, writable=True)
