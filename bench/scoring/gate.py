"""The projects by which hidden cases are admitted: different right ones, wrong ones that miss known cases, attacks.

They lie beside the cases: `alternatives/<name>/` are whole projects that must pass everything, `attacks/<name>/` whole
projects that must pass nothing, and `mutants.yaml` lists edits of an alternative with the cases that each must miss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.errors import FileFormatError
from bench.scoring.hidden_set import expected_cases
from bench.yaml_file import load_model


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """A project whose result is known before it is judged."""

    name: str
    kind: Literal["alternative", "mutant", "attack", "empty"]
    files: Mapping[str, bytes]
    misses: frozenset[str]
    """The ids that it must miss; it must pass all others."""

    def write(self, folder: Path) -> Path:
        """Lays the project out in `folder`, as it would be restored from a snapshot."""
        for path, content in self.files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        return folder


def specimens(hidden: Path) -> tuple[Specimen, ...]:
    """Every specimen of a hidden set, an empty project among them. Raises FileFormatError for a mutant that cannot be."""
    every = frozenset(case.id for case in expected_cases(hidden) if case.not_run is None)
    return (
        *_projects(hidden / "alternatives", "alternative", frozenset()),
        *_mutants(hidden, every),
        *_projects(hidden / "attacks", "attack", every),
        Specimen(name="empty", kind="empty", files={}, misses=every),
    )


def _projects(folder: Path, kind: Literal["alternative", "attack"], misses: frozenset[str]) -> tuple[Specimen, ...]:
    return tuple(
        Specimen(name=project.name, kind=kind, files=_files_of(project), misses=misses)
        for project in sorted(folder.iterdir())
    )


def _files_of(project: Path) -> dict[str, bytes]:
    return {str(file.relative_to(project)): file.read_bytes() for file in sorted(project.rglob("*")) if file.is_file()}


def _mutants(hidden: Path, every: frozenset[str]) -> tuple[Specimen, ...]:
    from bench.scoring.mutant_form import MutantsFile

    place = hidden / "mutants.yaml"
    listed = load_model(place, MutantsFile)
    original = _files_of(hidden / "alternatives" / listed.base)
    mutants = []
    for name, mutant in listed.mutants.items():
        text = original[listed.file].decode()
        for edit in mutant.edits:
            if (times := text.count(edit.old)) != 1:
                raise FileFormatError(place, f"mutant {name}: {edit.old!r} stands {times} times, not once")
            text = text.replace(edit.old, edit.new)
        if unknown := set(mutant.misses) - every:
            raise FileFormatError(place, f"mutant {name}: there is no case {min(unknown)}")
        files = original | {listed.file: text.encode()}
        mutants.append(Specimen(name=name, kind="mutant", files=files, misses=frozenset(mutant.misses)))
    return tuple(mutants)
