"""Which hidden cases a workload has, read from the text of its files without running any; and the digest of the set.

`hidden/<workload>/test_<group>.py` hold the cases of one group each, `hidden.yaml` lists those that are not judged.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import FileFormatError, UsageError
from bench.yaml_file import load_mapping

NOT_JUDGED_WITH = frozenset({"alternatives", "attacks", "mutants", "mutants.yaml", "__pycache__"})
"""What admits the cases, but decides no score: not part of the digest."""


@dataclass(frozen=True, kw_only=True)
class CaseId:
    """A hidden case as it is known before anything runs."""

    id: str
    group: str
    brief: str
    """The sentence of the brief that it checks."""

    not_run: str | None = None
    """Why it is listed without being judged; None: it is judged."""


def expected_cases(hidden: Path) -> tuple[CaseId, ...]:
    """Every hidden case of a set: the judged ones in the order of their files, then those that are not run.

    Raises FileFormatError where a file of the set is not written as it must be.
    """
    if not hidden.is_dir():
        raise UsageError(f"{hidden}: no such folder of hidden cases")
    cases = [found for file in case_files(hidden) for found in _cases_of(file)]
    cases += _not_run_cases(hidden / "hidden.yaml")
    seen: set[str] = set()
    for found in cases:
        if found.id in seen:
            raise FileFormatError(hidden, f"case {found.id} stands twice")
        seen.add(found.id)
    return tuple(cases)


def case_files(hidden: Path) -> tuple[Path, ...]:
    """The files that hold judged cases."""
    return tuple(sorted(hidden.glob("test_*.py")))


def hidden_digest(hidden: Path) -> str:
    """SHA-256 over the names and contents of all that decides a score, in the order of the names."""
    digest = hashlib.sha256()
    for file in sorted(hidden.rglob("*")):
        parts = file.relative_to(hidden).parts
        if not file.is_file() or NOT_JUDGED_WITH.intersection((parts[0], *parts)) or parts[-1].startswith("."):
            continue
        content = file.read_bytes()
        digest.update(f"{'/'.join(parts)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _cases_of(file: Path) -> Iterator[CaseId]:
    group = file.stem.removeprefix("test_")
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except SyntaxError as error:
        raise FileFormatError(file, f"not valid Python: {error.msg}", line=error.lineno) from error
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            marks = [mark for mark in node.decorator_list if _is_case(mark)]
            if len(marks) != 1:
                raise FileFormatError(file, f'{node.name} needs one @case("id", brief="…")', line=node.lineno)
            case_id, brief = _literals(file, marks[0])
            yield CaseId(id=case_id, group=group, brief=brief)


def _is_case(mark: ast.expr) -> bool:
    return isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "case"


def _literals(file: Path, mark: ast.expr) -> tuple[str, str]:
    """`("miss.cold", "the sentence")` of `case("miss.cold", brief="the sentence")`."""
    match mark:
        case ast.Call(
            args=[ast.Constant(value=str() as case_id)],
            keywords=[ast.keyword(arg="brief", value=ast.Constant(value=str() as brief))],
        ):
            return case_id, brief
        case _:
            raise FileFormatError(file, 'expected @case("id", brief="…") with two plain texts', line=mark.lineno)


def _not_run_cases(file: Path) -> tuple[CaseId, ...]:
    """Reads `not_run: {GROUP: {reason: text, cases: {ID: sentence}}}`; a set without the file judges all its cases."""
    if not file.is_file():
        return ()
    data, lines = load_mapping(file)
    if unknown := set(data) - {"not_run"}:
        key = min(unknown)
        raise FileFormatError(file, f"unknown key '{key}'; known here: not_run", line=lines.get((key,)))
    cases: list[CaseId] = []
    for group, value in _mapping(file, data.get("not_run"), "not_run", lines.get(("not_run",))).items():
        line = lines.get(("not_run", group))
        entry = _mapping(file, value, f"not_run.{group}", line)
        reason, listed = entry.get("reason"), entry.get("cases")
        if not isinstance(reason, str) or set(entry) != {"reason", "cases"}:
            raise FileFormatError(file, f"key 'not_run.{group}': expected a reason and cases", line=line)
        for case_id, brief in _mapping(file, listed, f"not_run.{group}.cases", line).items():
            if not isinstance(brief, str):
                raise FileFormatError(file, f"case {case_id}: expected a sentence of the brief", line=line)
            cases.append(CaseId(id=case_id, group=group, brief=brief, not_run=reason))
    return tuple(cases)


def _mapping(file: Path, value: Any, key: str, line: int | None) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise FileFormatError(file, f"key '{key}': expected a mapping of names", line=line)
    return value
