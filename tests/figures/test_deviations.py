"""What a later segment was given otherwise is named down to the part that differs."""

from __future__ import annotations

from bench.figures.deviations import run_deviations
from bench.records.schema import JournalEntry


def begun(changed, **parts):
    plain = {"limits": {}, "own_limits": {}, "box": {"name": "b", "isolation": "boxed"}}
    detail = {"configuration": {**plain, **parts}, "changed": changed}
    values = {**dict.fromkeys(JournalEntry.__dataclass_fields__), "event": "segment-started", "detail": detail}
    return JournalEntry(**values)


def test_what_changed_is_named_with_its_parts():
    first = begun([], agent={"name": "pi", "version": "1", "skills": []}, engine="a")
    second = begun(["agent", "engine"], agent={"name": "pi", "version": "2", "thinking": "high"}, engine="b")
    assert run_deviations([first, second]) == (
        "segment 2: changed since the segment before: agent (skills, thinking, version), engine",
    )
