"""What an untrusted stream or file of an agent tells, taken apart without a fault: counts, names, texts, claims of usage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from bench.records.schema import UsageRecord
from bench.records.spans import covered_seconds

TEXT_CHARACTERS = 4_000
FINAL_CHARACTERS = 200_000
NAME_CHARACTERS = 200
UNKNOWN_NAMES = 1_000
_TOKENS_MAX = 10**9
_SECONDS_MAX = 604_800.0
_INSTANT_MAX = 10**11


class Claims:
    """Collects the claims of one session, in order."""

    def __init__(self, session: int) -> None:
        self.made: list[UsageRecord] = []
        self._session = session

    def add(
        self,
        *,
        fresh: int | None = None,
        cached: int | None = None,
        output: int | None = None,
        reasoning: int | None = None,
        response_id: str | None = None,
        stop_reason: str | None = None,
        error: str | None = None,
    ) -> None:
        """One response or failed request. `fresh` excludes cached tokens, `output` includes reasoning; None: not told."""
        self.made.append(
            UsageRecord(
                session=self._session,
                index=len(self.made),
                response_id=response_id,
                input_tokens=fresh,
                cached_tokens=cached,
                output_tokens=output,
                reasoning_tokens=reasoning if output is None or reasoning is None or reasoning <= output else None,
                stop_reason=stop_reason,
                error=error,
            )
        )


class UnknownEvents(Counter[str]):
    """Events that an adapter does not know: name -> how many. What has too many names is counted under one."""

    def note(self, value: Any, before: str = "") -> None:
        """Counts one event by the value that should be its name."""
        found = f"{before}{name(value) or 'without a name'}"
        self[found if found in self or len(self) < UNKNOWN_NAMES else "others"] += 1


def without(whole: int | None, part: int | None) -> int | None:
    """What is left of a count; None where either is not known or the part is the larger."""
    return whole - part if whole is not None and part is not None and part <= whole else None


def added(*parts: int | None) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _TOKENS_MAX else None


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def name(value: Any) -> str | None:
    return text(value, NAME_CHARACTERS) or None


def text(value: Any, most: int = TEXT_CHARACTERS) -> str:
    """A string, its beginning where it is long, always encodable; empty when it is none."""
    return encodable(value[:most]) if isinstance(value, str) else ""


def final(value: Any) -> str:
    """A string, its end where it is long, always encodable; empty when it is none."""
    return encodable(value[-FINAL_CHARACTERS:]) if isinstance(value, str) else ""


def encodable(value: str) -> str:
    return value.encode("utf-8", "replace").decode("utf-8")


def seconds(value: Any) -> float | None:
    return float(value) if type(value) in {int, float} and 0 <= value <= _SECONDS_MAX else None


def seconds_of(milliseconds: Any) -> float | None:
    known = type(milliseconds) in {int, float} and 0 <= milliseconds <= _SECONDS_MAX * 1000
    return milliseconds / 1000 if known else None


def instant(value: Any) -> float | None:
    """Unix seconds."""
    return float(value) if type(value) in {int, float} and 0 < value < _INSTANT_MAX else None


def from_milliseconds(value: Any) -> float | None:
    """Unix seconds of an instant in milliseconds."""
    known = type(value) in {int, float} and 0 < value < _INSTANT_MAX * 1000
    return value / 1000 if known else None


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds during which at least one of the spans was under way, at most a week."""
    return min(covered_seconds(spans), _SECONDS_MAX)
