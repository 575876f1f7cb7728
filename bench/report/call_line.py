"""A call of a tool in one line: the tool, what it is mostly about, and how much else there is."""

from __future__ import annotations

import json
from typing import Any

from bench.records.conversation import Piece
from bench.report.tables import plain

_TELLING = ("command", "cmd", "path", "file_path", "filePath", "filename", "pattern", "query", "url", "description")
"""Arguments of which the first that is there says what a call is about, whoever's tool it is."""

_LONGEST = 100
_SHORT = 40
_READ = 2000


def call_line(piece: Piece) -> str:
    """`bash  ls -la`, `edit  totals.py  old=3 lines new=4 lines`; a call whose arguments are no JSON says so."""
    name = plain(piece.name)[:_SHORT] or "(no name)"
    try:
        arguments = json.loads(piece.text or "{}")
    except (ValueError, RecursionError):
        # A tool that takes free text, or JSON that was cut.
        cut = "  (cut off)" if piece.text.lstrip().startswith("{") else ""
        return f"{name}  {_about(piece.text)}{cut}"
    if not isinstance(arguments, dict):
        return f"{name}  {_about(piece.text)}"
    telling = next((key for key in _TELLING if arguments.get(key)), None)
    parts = [name] if telling is None else [name, _about(_text(arguments[telling]))]
    others = [f"{plain(key)[:_SHORT]}={_size(value)}" for key, value in arguments.items() if key != telling]
    return "  ".join([*parts, " ".join(others)[: 2 * _LONGEST]] if others else parts)


def arguments_of(piece: Piece) -> list[tuple[str, str]]:
    """Names and whole texts of a call's arguments; what is no JSON object has no names."""
    try:
        arguments = json.loads(piece.text or "{}")
    except (ValueError, RecursionError):
        return [("arguments as they came", piece.text)]
    if not isinstance(arguments, dict):
        return [("arguments", piece.text)]
    return [(plain(key)[:_SHORT], _text(value)) for key, value in arguments.items()]


def _about(text: str) -> str:
    """The beginning of a text in one line, and how many lines it has where not all of them can be seen."""
    lines = text[:_READ].strip().splitlines()
    whole = plain(" ⏎ ".join(line.strip() for line in lines))
    if len(whole) <= _LONGEST and len(text) <= _READ:
        return whole
    count = text.strip().count("\n") + 1
    return f"{whole[:_LONGEST]}…" + (f" ({count:,} lines)" if count > 1 else "")


def _size(value: Any) -> str:
    text = _text(value)
    lines = text.splitlines()
    if len(lines) > 1:
        return f"({len(lines):,} lines)"
    return plain(text) if len(text) <= _SHORT else f"({len(text):,} characters)"


def _text(value: Any) -> str:
    """A command that is a list of words is one line."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
