"""Which parts of a run have figures of their own? Roles, and classes of prompt length; the formulas stay the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from bench.contracts import Role
from bench.figures.run_evidence import Evidence
from bench.records.schema import RequestRecord

ScopeKind = Literal["role", "prompt"]

ROLES: tuple[Role, ...] = tuple(role for role in get_args(Role) if role != "preflight")

PROMPT_CLASSES: tuple[tuple[str, int | None], ...] = (
    ("<2k", 2_048),
    ("2k-8k", 8_192),
    ("8k-32k", 32_768),
    ("32k-128k", 131_072),
    ("128k+", None),
)
"""Name of a class and the prompt length at which the next one begins, in tokens of the whole prompt; k is 1,024."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """One part of a run: `role:builder`, `prompt:8k-32k`."""

    kind: ScopeKind
    part: str

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.part}"


SCOPES: tuple[Scope, ...] = (
    *(Scope(kind="role", part=role) for role in ROLES),
    *(Scope(kind="prompt", part=name) for name, _ in PROMPT_CLASSES),
)
"""In the order of a record."""


def prompt_class(tokens: int) -> str:
    """Name of the class that a prompt of so many tokens belongs to."""
    return next(name for name, end in PROMPT_CLASSES if end is None or tokens < end)


def within(request: RequestRecord, scope: Scope) -> bool:
    """Whether a request belongs to a part; one whose prompt length was not reported belongs to no class of prompts."""
    if scope.kind == "role":
        return request.role == scope.part
    return request.prompt_tokens is not None and prompt_class(request.prompt_tokens) == scope.part


def narrowed(evidence: Evidence, scope: Scope) -> Evidence:
    """The same run as if only the requests of one part had been made.

    The run as a whole stays known as `whole`: what is chosen for a run, such as the source of its timings, is chosen
    once for all of its parts.
    """
    return replace(
        evidence,
        requests=tuple(one for one in evidence.requests if within(one, scope)),
        whole=evidence.whole or evidence,
    )


def scopes_of(evidence: Evidence) -> tuple[Scope, ...]:
    """The parts to which at least one request to the model belongs."""
    return tuple(scope for scope in SCOPES if any(within(one, scope) for one in evidence.asked))
