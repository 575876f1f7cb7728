"""Reads a YAML file that a person edits into a pydantic model, and says file, line and key of what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from bench.errors import FileFormatError, UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

_MAX_BYTES = 4_000_000
_MOST_NODES = 200_000
_LOADER = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # libyaml's parser where PyYAML was built with it: ten times faster


def load_mapping(path: Path) -> tuple[dict[str, Any], dict[tuple[Any, ...], int]]:
    """Parses one YAML mapping.

    Returns the plain data and the 1-based line of every key path, e.g. `("limits", "sessions") -> 12`.
    Duplicate keys, bad indentation, anchors that explode and non-mappings are refused with their line.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise FileFormatError(path, f"larger than {_MAX_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise FileFormatError(path, f"is not UTF-8 (byte {error.start})") from error
    try:
        root = yaml.compose(text, Loader=_LOADER)
        if not isinstance(root, yaml.MappingNode):
            raise FileFormatError(path, "expected a mapping of keys to values", line=1)
        _refuse_explosion(path, root)
        lines: dict[tuple[Any, ...], int] = {}
        _note_lines(path, root, (), lines)
        data: dict[str, Any] = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise FileFormatError(path, f"not valid YAML: {error.problem or error.context}", line=line) from error
    except yaml.YAMLError as error:
        raise FileFormatError(path, f"not valid YAML: {error}") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f"not valid YAML: {error}") from error
    return data, lines


def load_model(path: Path, model: type[Model]) -> Model:
    """Parses and validates one YAML file; every problem names the file, its line, the key and what was expected."""
    from pydantic import ValidationError

    data, lines = load_mapping(path)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors()
        # A misspelt key is also a missing one; what stands in the file is the better thing to point at.
        first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
        line = _line_of(first["loc"], lines) if first["loc"] else None
        raise FileFormatError(path, _sentence(first, model), line=line) from error


def _refuse_explosion(path: Path, root: yaml.Node) -> None:
    """Raises FileFormatError where aliases, written out, would make a file far larger than it is."""
    left, waiting = _MOST_NODES, [root]
    while waiting:
        node = waiting.pop()
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            parts = node.value
        left -= len(parts)
        if left < 0:
            raise FileFormatError(path, f"more than {_MOST_NODES:,} values, aliases written out")
        waiting += parts


def _note_lines(
    path: Path, node: yaml.Node, at: tuple[Any, ...], lines: dict[tuple[Any, ...], int], depth: int = 0
) -> None:
    if depth > 40:
        raise FileFormatError(path, "nested more than 40 levels deep", line=node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key = getattr(key_node, "value", None)
            line = key_node.start_mark.line + 1
            if isinstance(key, str) and key in seen:
                raise FileFormatError(path, f"key '{key}' stands twice", line=line)
            if isinstance(key, str):
                seen.add(key)
                lines.setdefault((*at, key), line)
                _note_lines(path, value_node, (*at, key), lines, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines.setdefault((*at, index), item.start_mark.line + 1)
            _note_lines(path, item, (*at, index), lines, depth + 1)


def _line_of(loc: tuple[Any, ...], lines: dict[tuple[Any, ...], int]) -> int:
    """The line of the deepest part of an error's place that stands in the file."""
    best = 1
    for length in range(1, len(loc) + 1):
        best = lines.get(tuple(loc[:length]), best)
    return best


def _sentence(problem: Any, model: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    kind = problem["type"]
    if kind == "extra_forbidden":
        return f"unknown key '{key}'; known here: {', '.join(_known_keys(model, problem['loc']))}"
    if kind == "missing":
        return f"key '{key}' is missing"
    got = repr(problem.get("input"))
    got = got if len(got) <= 60 else got[:57] + "..."
    said = problem["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if not key:  # a rule between keys: it names them itself
        return str(said)
    return f"key '{key}': expected {said}, got {got}" if kind != "value_error" else f"key '{key}': {said}"


def _known_keys(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """Field names at the place where an unknown key stood, as far as nested models tell."""
    from typing import get_args

    from pydantic import BaseModel

    here: type[BaseModel] = model
    for part in loc[:-1]:
        field = here.model_fields.get(part) if isinstance(part, str) else None
        if field is None:
            continue
        queue = [field.annotation]
        while queue:
            candidate = queue.pop()
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                here = candidate
                break
            queue.extend(get_args(candidate))
    return sorted(field.alias or name for name, field in here.model_fields.items())
