"""Writes a plain structure as TOML, as far as configuration files of agents need it (TOML 1.0)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(table: Mapping[str, Any]) -> str:
    """Strings, whole and other numbers, truth values, lists of these, and tables. Raises TypeError for anything else."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[str]:
    plain = [f"{_key(key)} = {_value(value)}" for key, value in table.items() if not isinstance(value, Mapping)]
    if at and (plain or not table):
        yield f"[{'.'.join(_key(key) for key in at)}]"
    yield from plain
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _lines(value, (*at, key))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    raise TypeError(f"no TOML value: {value!r}")


def _string(text: str) -> str:
    """JSON's escapes mean the same in a TOML string, if what JSON leaves or splits in two is written otherwise."""
    escaped = json.dumps(text.encode("utf-8", "replace").decode("utf-8"), ensure_ascii=False)
    return escaped.replace("\x7f", "\\u007f")
