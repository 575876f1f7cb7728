"""Whose numbers does a figure rest on? Engine numbers of one source class only: the one that most requests have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.records.schema import RequestRecord, SourceClass

ENGINE_SOURCES: tuple[SourceClass, ...] = ("engine-response", "engine-counter", "engine-log")
"""Where the engine's own numbers of a request may come from; of two that equally many have, the first one is taken."""


def most_common(sources: Iterable[SourceClass | None]) -> SourceClass | None:
    """The class that stands most often; None where none stands at all."""
    counts: Counter[SourceClass | None] = Counter(source for source in sources if source is not None)
    return max(ENGINE_SOURCES, key=lambda source: counts[source]) if counts else None


@dataclass(frozen=True, kw_only=True)
class OneSource:
    """Served requests told apart by where their numbers came from."""

    source: SourceClass | None
    requests: tuple[RequestRecord, ...]
    """Those of the source; a figure is made of these."""

    others: tuple[RequestRecord, ...]
    """Those of another source."""

    served: int
    """How many requests there are, those without any source included."""

    def missing(self, carries: Callable[[RequestRecord], bool]) -> str | None:
        """What a figure leaves out, in words: numbers of other sources, and requests that report none."""
        known, left = self._count(self.requests, carries), self._count(self.others, carries)
        silent = self.served - known - left
        parts = [f"{left} of {self.served} requests left out, whose source is not {self.source}"] if left else []
        parts += [f"not reported by {silent} of {self.served} requests"] if silent else []
        return "; ".join(parts) or None

    def why_none(self, carries: Callable[[RequestRecord], bool]) -> str | None:
        """Why there is no number although some requests have one; None where none has."""
        left = self._count(self.others, carries)
        return f"{left} requests have numbers, but not from {self.source} as most of the run's" if left else None

    @staticmethod
    def _count(requests: Sequence[RequestRecord], carries: Callable[[RequestRecord], bool]) -> int:
        return sum(carries(one) for one in requests)


def of_one_source(
    requests: Sequence[RequestRecord],
    source: SourceClass | None,
    source_of: Callable[[RequestRecord], SourceClass | None],
) -> OneSource:
    """Served requests parted by `source`, the class that was chosen for the whole run."""
    return OneSource(
        source=source,
        requests=tuple(one for one in requests if source is not None and source_of(one) == source),
        others=tuple(one for one in requests if source_of(one) not in (None, source)),
        served=len(requests),
    )
