"""Where do a record and its evidence differ? Rows are found again by their key and compared field by field, exactly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

Row = TypeVar("Row")
_SHOWN = 160
_NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that the record says otherwise than the evidence gives it."""

    what: str
    """`figure ttft_median`, `case miss.cold`, `file journal.jsonl`."""

    record: str
    evidence: str

    @property
    def line(self) -> str:
        return f"{self.what}: the record says {self.record}, the evidence gives {self.evidence}"


def of_rows(
    kind: str, recorded: Sequence[Row], computed: Sequence[Row], name: Callable[[Row], Hashable]
) -> list[Difference]:
    """Rows (dataclasses) that are missing, that are too many, that stand twice, or of which a field differs."""
    found: list[Difference] = []
    stands = Counter(name(row) for row in recorded)
    found += [
        Difference(what=f"{kind} {key}", record=f"it {count} times", evidence="it once")
        for key, count in stands.items()
        if count > 1
    ]
    ours, theirs = {name(row): row for row in computed}, {name(row): row for row in recorded}
    for key in (*ours, *(key for key in theirs if key not in ours)):
        what = f"{kind} {key}"
        if key not in theirs:
            found.append(Difference(what=what, record=_NOTHING, evidence="a row"))
        elif key not in ours:
            found.append(Difference(what=what, record="a row", evidence=_NOTHING))
        else:
            found += of_fields(what, _plain(theirs[key]), _plain(ours[key]))
    if not found and [name(row) for row in recorded] != [name(row) for row in computed]:
        found.append(Difference(what=f"{kind}s", record="another order", evidence="its own"))
    return found


def of_fields(what: str, recorded: Mapping[str, Any], computed: Mapping[str, Any]) -> list[Difference]:
    """At most one difference for two rows: all fields that differ, as JSON, beside each other."""
    keys = [key for key in {**computed, **recorded} if recorded.get(key) != computed.get(key)]
    if not keys:
        return []
    return [
        Difference(
            what=what,
            record=", ".join(f"{key} {_shown(recorded.get(key))}" for key in keys),
            evidence=", ".join(f"{key} {_shown(computed.get(key))}" for key in keys),
        )
    ]


def of_values(what: str, recorded: object, computed: object) -> list[Difference]:
    """Two values that ought to be equal as JSON."""
    if _as_json(recorded) == _as_json(computed):
        return []
    return [Difference(what=what, record=_shown(recorded), evidence=_shown(computed))]


def _plain(row: Any) -> Mapping[str, Any]:
    plain: Mapping[str, Any] = _as_json(asdict(row))
    return plain


def _as_json(value: object) -> Any:
    """A value as it is read again from a file."""
    return json.loads(json.dumps(value))


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
