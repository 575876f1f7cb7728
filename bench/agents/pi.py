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
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from bench.agents.adapters import AgentCommand, AgentEvents, Place
from bench.agents.installed import InstalledPackage
from bench.agents.pi_events import NOISE, SESSION_FILE, read_pi_events
from bench.agents.pi_settings import ASSUMED_WINDOW, THINKING_LEVELS, models_json, settings_json
from bench.agents.skill import Skill, read_skill
from bench.contracts import Mount, SessionRequest
from bench.errors import UsageError
from bench.spec import AgentSpec

SAMPLING: Mapping[str, float | int] = {"temperature": 0.6, "top_p": 0.95, "seed": 1}
"""Sent with every request unless `--sampling` says otherwise; an engine's own defaults would differ from engine to engine."""

_NOT_SAMPLING = frozenset(
    (
        "model",
        "messages",
        "stream",
        "stream_options",
        "store",
        "n",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "reasoning_effort",
    )
)
"""What a request says besides: Pi would write `--sampling` over it, and over a limit of the run."""

_PACKAGE = InstalledPackage(agent="pi", package="@earendil-works/pi-coding-agent", program="dist/bundle/cli.js")
_INSIDE = "/tools/pi/node_modules"
_OPTIONS = "--thinking=LEVEL, --sampling=NAME=NUMBER, --assumed-window=TOKENS and --skill=DIR"
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
    assumed_window: int = ASSUMED_WINDOW
    """Tokens that one request may take, where the engine does not report it."""

    skills: tuple[Path, ...] = ()
    """Folders."""


class PiAgent:
    """See `adapters.Adapter`."""

    name = "pi"
    speaks_unix = False
    api = "/v1/chat/completions"

    def __init__(self, options: PiOptions) -> None:
        self.version = _PACKAGE.version
        self._options = options

    @property
    def configuration(self) -> Mapping[str, Any]:
        return {
            "package": f"{_PACKAGE.package}@{self.version}",
            "thinking": self._options.thinking,
            "sampling": dict(self._options.sampling),
            "window_if_unknown": self._options.assumed_window,
            "skills": [asdict(skill.identity) for skill in self._skills],
        }

    @cached_property
    def _skills(self) -> tuple[Skill, ...]:
        """Read when they are wanted: evidence can be read without them. Raises UsageError."""
        skills = tuple(read_skill(folder) for folder in self._options.skills)
        names = [skill.identity.name for skill in skills]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"--skill: two skills are named '{doubled[0]}'; their names must differ")
        return skills

    def check_installed(self) -> None:
        _PACKAGE.check()
        _ = self._skills

    def probe(self, place: Place) -> AgentCommand:
        return AgentCommand(
            argv=("node", *self._program(place), "--version"), mounts=(_package_mount(),), env=_environment(place)
        )

    def command(self, request: SessionRequest, place: Place) -> AgentCommand:
        label = request.label
        name = " ".join(part for part in (f"{label.session:03d}", label.role, label.task) if part)
        window = request.context_window or self._options.assumed_window
        kept = f"sessions/session-{label.session:03d}.jsonl"
        skills = (word for skill in self._skills for word in ("--skill", f"{place.home}/{_skill_place(skill)}"))
        argv = (
            *("node", *self._program(place), "--mode", "json", *_QUIET, *skills),
            *("--provider", "local", "--model", request.model, "--thinking", self._options.thinking),
            *("--session", f"{place.home}/{kept}", "--name", name),
        )
        return AgentCommand(
            argv=argv,
            mounts=(_package_mount(),),
            env=_environment(place),
            stdin=request.prompt.encode("utf-8", "replace"),
            files={
                "config/models.json": _json(
                    models_json(request, window=window, url=place.url, sampling=self._options.sampling)
                ),
                "config/settings.json": _json(settings_json(request, window=window)),
                "sessions/.keep": b"",
                "home/.keep": b"",
                **{
                    f"{_skill_place(skill)}/{name}": text
                    for skill in self._skills
                    for name, text in skill.files.items()
                },
            },
            executable=frozenset(
                f"{_skill_place(skill)}/{name}" for skill in self._skills for name in skill.executable
            ),
            keeps={SESSION_FILE: kept},
            noise=NOISE,
        )

    def read_events(self, folder: Path, session: int) -> AgentEvents:
        return read_pi_events(folder, session)

    def _program(self, place: Place) -> tuple[str, ...]:
        return (f"{place.mounted(_package_mount())}/{_PACKAGE.program_path}",)


def open_agent(spec: AgentSpec) -> PiAgent:
    return PiAgent(read_options(spec.args))


def read_options(args: tuple[str, ...]) -> PiOptions:
    """Reads what stands in `_OPTIONS`. Raises UsageError."""
    parser = _Parser(prog="--agent-arg of pi", add_help=False, allow_abbrev=False)
    parser.add_argument("--thinking", choices=THINKING_LEVELS, default="medium")
    parser.add_argument("--sampling", type=_sampling, action="append", default=[])
    parser.add_argument("--assumed-window", type=_window, default=ASSUMED_WINDOW)
    parser.add_argument("--skill", type=Path, action="append", default=[])
    given = parser.parse_args(args)
    return PiOptions(
        thinking=given.thinking,
        sampling={**SAMPLING, **dict(given.sampling)},
        assumed_window=given.assumed_window,
        skills=tuple(given.skill),
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}; there are {_OPTIONS}")


def _sampling(text: str) -> tuple[str, float | int]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=NUMBER, got '{text}'")
    if name in _NOT_SAMPLING:
        raise argparse.ArgumentTypeError(
            f"'{name}' is no sampling; output is limited by --limit output_tokens_per_request=N"
        )
    try:
        number = json.loads(value)
    except ValueError:
        number = None
    if type(number) not in (int, float) or not abs(number) <= 1e9:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number")
    return name, number


def _window(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1_000 <= int(text[:12]) <= 100_000_000:
        raise argparse.ArgumentTypeError(f"expected tokens, 1000 or more, got '{text}'")
    return int(text)


def _environment(place: Place) -> dict[str, str]:
    return {
        "HOME": f"{place.home}/home",
        "PI_CODING_AGENT_DIR": f"{place.home}/config",
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
        "PI_TELEMETRY": "0",
        # No box outlives its session, so every one would write the cache of compiled code anew.
        "NODE_DISABLE_COMPILE_CACHE": "1",
    }


def _package_mount() -> Mount:
    return Mount(source=_PACKAGE.modules, target=_INSIDE)


def _skill_place(skill: Skill) -> str:
    """Relative to the agent's home."""
    return f"skills/{skill.identity.name}"


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
