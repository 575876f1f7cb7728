"""In what does a run differ from a full one, and what was changed on the way? From the journal alone, so that an audit can ask again."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bench.contracts import Isolation
from bench.records.schema import JournalEntry


def configurations(journal: Sequence[JournalEntry]) -> list[dict[str, Any]]:
    """What every segment was run with."""
    return [dict(entry.detail["configuration"]) for entry in journal if entry.event == "segment-started"]


def weakest_isolation(boxes: Sequence[Mapping[str, Any]]) -> Isolation:
    """The weakest isolation that any part of the run had; each box is `{name, isolation}`."""
    seen = {box["isolation"] for box in boxes}
    return "none" if "none" in seen else "weaker" if "weaker" in seen else "boxed"


def isolation_deviations(boxes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What is to be said of boxes that are less than whole."""
    found = {
        "none": "no box: agent and project could reach this machine, hidden cases included (--unsafe-no-sandbox)",
        "weaker": f"weaker isolation: {', '.join(dict.fromkeys(str(box['name']) for box in boxes))}",
    }
    return tuple(text for kind, text in found.items() if kind == weakest_isolation(boxes))


def run_deviations(journal: Sequence[JournalEntry]) -> tuple[str, ...]:
    """Isolation, limits that are not the workload's own, and what later segments were given otherwise."""
    granted = configurations(journal)
    limits = [
        f"limit {name} set to {value:g}"
        for one in granted
        for name, value in sorted(one["limits"].items())
        if value != one["own_limits"].get(name)
    ]
    boxes = [one["box"] for one in granted]
    return (*isolation_deviations(boxes), *dict.fromkeys(limits), *_changes(journal))


def alterations(journal: Sequence[JournalEntry]) -> tuple[str, ...]:
    """Evidence that was not what the last record said when a later segment began."""
    return tuple(
        f"segment {number}: evidence had changed since the last record: {path}"
        for number, one in enumerate(configurations(journal), 1)
        for path in one.get("altered", ())
    )


def _changes(journal: Sequence[JournalEntry]) -> list[str]:
    opened = [entry.detail for entry in journal if entry.event == "segment-started"]
    found = []
    for number, (before, now) in enumerate(itertools.pairwise(opened), start=2):
        earlier, later = before["configuration"]["limits"], now["configuration"]["limits"]
        found += [
            f"segment {number}: limit {name} is {later[name]:g}, before it {earlier[name]:g}"
            for name in sorted(later)
            if later[name] != earlier.get(name)
        ]
        if other := [name for name in now["changed"] if name not in ("limits", "altered")]:
            told = ", ".join(_named(name, before["configuration"], now["configuration"]) for name in other)
            found.append(f"segment {number}: changed since the segment before: {told}")
    return found


def _named(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """`agent (skills, version)`: a part of a configuration, and which of its own parts differ."""
    earlier, later = before.get(name), now.get(name)
    if not isinstance(earlier, Mapping) or not isinstance(later, Mapping):
        return name
    keys = sorted(key for key in {*earlier, *later} if earlier.get(key) != later.get(key))
    return f"{name} ({', '.join(keys)})" if keys else name
