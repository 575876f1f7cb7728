"""How long was at least one of several things under way? Spans of time that may overlap, on whatever clock."""

from __future__ import annotations

from collections.abc import Iterable


def covered_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds that lie in at least one of the spans (begin, end); one that ends before it begins covers nothing."""
    covered, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        if end > max(begin, until):
            covered += end - max(begin, until)
            until = end
    return covered
