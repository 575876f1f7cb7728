"""What a session is told: templates under prompts/, strictly rendered; brief and rules first, so that prefixes are shared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contracts import Role
from bench.errors import HarnessError

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent / "prompts"


def render(role: Role, values: Mapping[str, Any]) -> str:
    """The prompt of one session. Raises HarnessError where the template wants a value that is not given."""
    from jinja2 import TemplateError

    try:
        return _environment().get_template(f"{role}.md").render(**values)
    except TemplateError as error:
        raise HarnessError(f"{_FOLDER / role}.md: the prompt cannot be made ({error})") from error


def prompts_digest() -> str:
    """SHA-256 over all templates; it changes when any of them does."""
    digest = hashlib.sha256()
    for place in sorted(_FOLDER.glob("*.md")):
        digest.update(f"{place.name}\0".encode() + place.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    return Environment(
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        autoescape=select_autoescape(),  # escapes HTML templates only; prompts are Markdown
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
