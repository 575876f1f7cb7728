"""What a file of hidden cases is written with: the mark of a case, and what a case raises when a project misses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bench.scoring.compare import About, is_number, same, shown

__all__ = ["About", "BadReply", "Missed", "about", "case", "case_id", "expect", "is_number"]

Function = TypeVar("Function", bound=Callable[..., None])


class Missed(AssertionError):  # noqa: N818 - the name is the outcome
    """The project answered, and its answer is not what the brief says."""

    def __init__(self, what: str, *, observed: str, expected: str) -> None:
        super().__init__(f"{what}: observed {observed}, expected {expected}")
        self.what = what
        self.observed = observed
        self.expected = expected


class BadReply(AssertionError):  # noqa: N818 - as above
    """The project gave no answer that can be judged: none, too late, too much, or not of the agreed form."""


def case(case_id: str, *, brief: str) -> Callable[[Function], Function]:
    """Marks a test function as the hidden case `case_id`, which checks the sentence `brief` of the workload's brief.

    Both are literals: what is expected of a judge is read from the file's text, before anything runs.
    """

    def mark(function: Function) -> Function:
        vars(function)["_hidden_case"] = (case_id, brief)
        return function

    return mark


def case_id(function: Any) -> str | None:
    """The id that `@case` gave to a function, or None."""
    marked = getattr(function, "_hidden_case", None)
    return marked[0] if marked else None


def expect(observed: Any, expected: Any, what: str) -> None:
    """Misses the case unless the values are the same, type-strictly; both stand in the result.

    `what` says in plain words what was looked at.
    """
    if not same(observed, expected):
        raise Missed(what, observed=shown(observed), expected=shown(expected))


def about(seconds: float) -> About:
    """An expected time; a billionth of a second more or less is the same time."""
    return About(seconds)
