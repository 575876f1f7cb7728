"""Starts the Pi coding agent: one fresh process a session, everything pinned, nothing discovered.

Pi (npm `@earendil-works/pi-coding-agent`) has no limits of its own that a benchmark could use, so it is given none:
the harness ends it. It does not ask again after a failure (`settings.json`), so that every request is one that the
conversation needed. Its event stream (standard output) is the evidence; the session file, which it could write
itself, is only compared with it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from bench.agents.adapters import AgentCommand, AgentEvents, Place
from bench.agents.installed import InstalledPackage
from bench.agents.pi_events import NOISE, SESSION_FILE, read_pi_events
from bench.agents.pi_settings import THINKING_LEVELS, models_json, settings_json
from bench.agents.skill import Skill, read_skill
from bench.contracts import Mount, SessionRequest
from bench.errors import UsageError
from bench.spec import AgentSpec

SAMPLING: Mapping[str, float | int] = {"temperature": 0.6, "top_p": 0.95, "seed": 1}
"""Sent with every request unless `--sampling` says otherwise; an engine's own defaults would differ from engine to engine."""

_PACKAGE = InstalledPackage(agent="pi", package="@earendil-works/pi-coding-agent", program="dist/bundle/cli.js")
_INSIDE = "/tools/pi/node_modules"
_QUIET = (
    "--no-extensions",
    "--no-mcp",
    "--no-skills",
    "--no-prompt-templates",
    "--no-themes",
    "--no-context-files",
    "--no-approve",
)


@dataclass(frozen=True, kw_only=True)
class PiOptions:
    """What a person may choose."""

    thinking: str = "medium"
    sampling: Mapping[str, float | int]
    skills: tuple[Skill, ...] = ()


class PiAgent:
    """See `adapters.Adapter`."""

    name = "pi"
    speaks_unix = False

    def __init__(self, options: PiOptions) -> None:
        self.version = _PACKAGE.version
        self._options = options

    @property
    def configuration(self) -> Mapping[str, Any]:
        return {
            "package": f"{_PACKAGE.package}@{self.version}",
            "thinking": self._options.thinking,
            "sampling": dict(self._options.sampling),
            "skills": [asdict(skill.identity) for skill in self._options.skills],
        }

    def check_installed(self) -> None:
        _PACKAGE.check()

    def probe(self, place: Place) -> AgentCommand:
        return AgentCommand(
            argv=("node", *self._program(place), "--version"), mounts=self._mounts(), env=_environment(place)
        )

    def command(self, request: SessionRequest, place: Place) -> AgentCommand:
        label = request.label
        name = " ".join(part for part in (f"{label.session:03d}", label.role, label.task) if part)
        skills = (word for skill in self._options.skills for word in ("--skill", place.mounted(_skill_mount(skill))))
        argv = (
            *("node", *self._program(place), "--mode", "json", *_QUIET, *skills),
            *("--provider", "local", "--model", request.model, "--thinking", self._options.thinking),
            *("--session-dir", f"{place.home}/sessions", "--session-id", f"session-{label.session:03d}"),
            *("--name", name),
        )
        return AgentCommand(
            argv=argv,
            mounts=self._mounts(),
            env=_environment(place),
            stdin=request.prompt.encode("utf-8", "replace"),
            files={
                "config/models.json": _json(models_json(request, url=place.url, sampling=self._options.sampling)),
                "config/settings.json": _json(settings_json(request)),
                "sessions/.keep": b"",
                "home/.keep": b"",
            },
            keeps={SESSION_FILE: "sessions/*.jsonl"},
            noise=NOISE,
        )

    def read_events(self, folder: Path, session: int) -> AgentEvents:
        return read_pi_events(folder, session)

    def _program(self, place: Place) -> tuple[str, ...]:
        return (f"{place.mounted(_package_mount())}/{_PACKAGE.program_path}",)

    def _mounts(self) -> tuple[Mount, ...]:
        return (_package_mount(), *(_skill_mount(skill) for skill in self._options.skills))


def open_agent(spec: AgentSpec) -> PiAgent:
    return PiAgent(read_options(spec.args))


def read_options(args: tuple[str, ...]) -> PiOptions:
    """Reads `--thinking LEVEL`, `--sampling NAME=NUMBER`, `--skill DIR`. Raises UsageError."""
    parser = _Parser(prog="--agent-arg of pi", add_help=False, allow_abbrev=False)
    parser.add_argument("--thinking", choices=THINKING_LEVELS, default="medium")
    parser.add_argument("--sampling", type=_sampling, action="append", default=[])
    parser.add_argument("--skill", type=Path, action="append", default=[])
    given = parser.parse_args(args)
    skills = tuple(read_skill(folder) for folder in given.skill)
    names = [skill.identity.name for skill in skills]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"two skills are named '{doubled[0]}'; their names must differ")
    return PiOptions(thinking=given.thinking, sampling={**SAMPLING, **dict(given.sampling)}, skills=skills)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}; there are --thinking=LEVEL, --sampling=NAME=NUMBER and --skill=DIR")


def _sampling(text: str) -> tuple[str, float | int]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=NUMBER, got '{text}'")
    try:
        number = json.loads(value)
    except ValueError:
        number = None
    if type(number) not in (int, float) or not abs(number) <= 1e9:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number")
    return name, number


def _environment(place: Place) -> dict[str, str]:
    return {
        "HOME": f"{place.home}/home",
        "PI_CODING_AGENT_DIR": f"{place.home}/config",
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
        "PI_TELEMETRY": "0",
    }


def _package_mount() -> Mount:
    return Mount(source=_PACKAGE.modules, target=_INSIDE)


def _skill_mount(skill: Skill) -> Mount:
    return Mount(source=skill.folder, target=f"/tools/skills/{skill.identity.name}")


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
