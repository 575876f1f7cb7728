"""Whether a value that came out of a scoring box is the expected one: type-strict, numbers finite, times with a tolerance."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

TIME_TOLERANCE_SECONDS = 1e-9
_SHOWN_CHARACTERS = 400


@dataclass(frozen=True)
class About:
    """Expected where a time may differ by rounding."""

    value: float
    tolerance: float = TIME_TOLERANCE_SECONDS


def same(observed: Any, expected: Any) -> bool:
    """Deep equality without surprises.

    A bool is no number, 1 and 1.0 are the same number (JSON knows one kind), NaN and infinities equal nothing,
    mappings need the same keys, sequences the same order. `expected` may hold `About`.
    """
    if isinstance(expected, About):
        return is_number(observed) and abs(observed - expected.value) <= expected.tolerance
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        return is_number(observed) and is_number(expected) and bool(observed == expected)
    if isinstance(expected, dict):
        return (
            isinstance(observed, dict)
            and observed.keys() == expected.keys()
            and all(same(observed[key], expected[key]) for key in expected)
        )
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(observed, (list, tuple))
            and len(observed) == len(expected)
            and all(same(left, right) for left, right in zip(observed, expected, strict=True))
        )
    return type(observed) is type(expected) and bool(observed == expected)


def is_number(value: Any) -> bool:
    """Whether it is a finite number; True and False are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def shown(value: Any) -> str:
    """A value as one short line of ASCII: what a project returned may hold anything, terminal escapes included."""
    text = json.dumps(value, default=_shown_other)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _shown_other(value: Any) -> Any:
    if isinstance(value, About):
        return value.value
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    return ascii(value)
