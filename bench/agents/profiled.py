"""Starts a coding agent that a profile describes, and reads what it left by the module that the profile names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.agents.adapters import AgentCommand, AgentEvents, Place
from bench.agents.agent_profile import (
    PROFILES,
    AgentProfile,
    ConfigFile,
    Value,
    fill,
    fill_structure,
    read_agent_profile,
)
from bench.agents.installed import InstalledPackage
from bench.agents.installed_distribution import InstalledDistribution
from bench.agents.toml_text import toml_text
from bench.contracts import Mount, SessionRequest
from bench.errors import MissingPartError, UsageError
from bench.spec import REPOSITORY, AgentSpec

PROMPT_FILE = "prompt/prompt.md"
"""In the home of an agent that reads its prompt from a file."""


class ProfiledAgent:
    """See `adapters.Adapter`."""

    speaks_unix = False

    def __init__(
        self, name: str, profile: AgentProfile, package: InstalledPackage | InstalledDistribution | None = None
    ) -> None:
        self.name = name
        self.api: str = profile.api
        self._profile = profile
        self._package = package or package_of(name, profile)
        self.version = self._package.version
        self._mount = Mount(source=self._package.modules, target=f"/tools/{name}/{self._package.modules.name}")

    @property
    def configuration(self) -> Mapping[str, Any]:
        profile = self._profile
        digest = hashlib.sha256((PROFILES / self.name / "profile.yaml").read_bytes()).hexdigest()
        return {
            "package": f"{self._package.package}@{self.version}",
            "checked": profile.checked,
            "api": profile.api,
            "sampling": dict(profile.sampling),
            "not_pinned": dict(profile.not_pinned),
            "retries": profile.retries,
            "window_if_unknown": profile.window_if_unknown,
            "profile_sha256": digest,
        }

    def check_installed(self) -> None:
        try:
            self._package.check()
        except MissingPartError as error:
            raise MissingPartError(f"{error}{self._untried}") from error

    @property
    def _untried(self) -> str:
        """What a person should know before the trouble of installing it."""
        untried = self._profile.checked == "documentation"
        return (
            f" (no session of {self._profile.title} was run with this profile, which follows documentation)"
            if untried
            else ""
        )

    def probe(self, place: Place) -> AgentCommand:
        values = self._values(place)
        return AgentCommand(
            argv=tuple(fill(word, values) for word in self._profile.version_argv),
            mounts=(self._mount,),
            env={name: fill(text, values) for name, text in self._profile.env.items()},
            files={path: _content(file, values) for path, file in self._profile.files.items()},
        )

    def command(self, request: SessionRequest, place: Place) -> AgentCommand:
        profile = self._profile
        values = self._values(place, request)
        # A prompt may quote what a model wrote, lone surrogates included.
        prompt = request.prompt.encode("utf-8", "replace")
        by_file = {PROMPT_FILE: prompt} if profile.prompt == "file" else {}
        return AgentCommand(
            argv=tuple(fill(word, values) for word in profile.argv),
            mounts=(self._mount,),
            env={name: fill(text, values) for name, text in profile.env.items()},
            stdin=b"" if by_file else prompt,
            files={**{path: _content(file, values) for path, file in profile.files.items()}, **by_file},
            keeps=dict(profile.keeps),
            noise=tuple(start.encode() for start in profile.noise),
        )

    def read_events(self, folder: Path, session: int) -> AgentEvents:
        events: AgentEvents = import_module(f"bench.agents.{self._profile.reader}").read_events(folder, session)
        return events

    def _values(self, place: Place, request: SessionRequest | None = None) -> dict[str, Value]:
        """What stands for the words in braces; a probe, which asks no model, gets what any session could have."""
        packages = place.mounted(self._mount)
        program = getattr(self._package, "program_path", "")
        seconds = int(request.seconds) + 60 if request else 60  # the session's own limit comes first
        return {
            **{str(name): value for name, value in self._profile.sampling.items()},
            "model": request.model if request else "none",
            "url": place.url,
            "home": place.home,
            "project": place.project,
            "packages": packages,
            "program": f"{packages}/{program}",
            "session": f"session-{request.label.session:03d}" if request else "probe",
            "prompt_file": f"{place.home}/{PROMPT_FILE}",
            "context_window": (request.context_window if request else None) or self._profile.window_if_unknown,
            "output_tokens": request.output_tokens_per_request if request else 1,
            "seconds": seconds,
            "milliseconds": seconds * 1000,
        }


def open_agent(spec: AgentSpec) -> ProfiledAgent:
    """Raises UsageError for any argument: a profile fixes all that decides how its agent behaves."""
    if spec.args:
        raise UsageError(
            f"the agent {spec.name} takes no arguments, got: {' '.join(spec.args)}; "
            f"what it is told stands in fixtures/agents/{spec.name}/profile.yaml"
        )
    return ProfiledAgent(spec.name, read_agent_profile(spec.name))


def package_of(
    name: str, profile: AgentProfile, *, checkout: Path = REPOSITORY
) -> InstalledPackage | InstalledDistribution:
    """What is, or is to be, installed in a checkout of this repository."""
    package = profile.package
    if package.npm is not None and package.program is not None:
        return InstalledPackage(agent=name, package=package.npm, program=package.program, checkout=checkout)
    return InstalledDistribution(agent=name, package=str(package.pip), checkout=checkout)


def _content(file: ConfigFile, values: Mapping[str, Value]) -> bytes:
    if file.as_toml is not None:
        return toml_text(fill_structure(file.as_toml, values)).encode()
    if file.as_json is not None:
        return (json.dumps(fill_structure(file.as_json, values), indent=1) + "\n").encode()
    return fill(file.text or "", values).encode("utf-8", "replace")
