"""The one list of columns, and how a value of each unit is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bench.records.schema import Figure, SessionRow, TaskRow

Row = TypeVar("Row")

FIGURE_TABLES: Mapping[str, str] = {
    "inference": "Inference, measured while this run was served",
    "session": "Sessions",
    "token": "Tokens",
    "check": "Checks",
}
"""Group of figures -> heading, in the order of printing."""


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    title: str
    cell: Callable[[Row], str]
    right: bool = False


def written(value: float | None, unit: str) -> str:
    """One value with its unit: `3.064 s`, `86.28 %`, `25,155,774 tokens`, `-` for None."""
    if value is None:
        return "-"
    match unit:
        case "s":
            return _duration(value)
        case "ratio":
            return f"{value * 100:.2f} %"
        case "tok/s":
            return f"{value:,.2f} tok/s"
        case "bytes":
            return _size(value)
        case _:
            number = f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"
            return f"{number} {unit}" if unit and unit != "1" else number


def _duration(seconds: float) -> str:
    if abs(seconds) < 0.1 and seconds != 0:
        return f"{seconds * 1000:.2f} ms"
    if seconds < 600:
        return f"{seconds:.3f} s"
    return f"{seconds / 60:,.1f} min"


def _size(count: float) -> str:
    for size, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:,.2f} {name}"
    return f"{count:,.0f} B"


def _value(figure: Figure) -> str:
    if figure.value is None:
        return f"not measured: {figure.reason}"
    if figure.group == "check" and figure.n is not None:
        return f"{figure.value:,} of {figure.n:,} {figure.unit}"  # a check says little without how many there are
    return written(figure.value, figure.unit)


FIGURE: tuple[Column[Figure], ...] = (
    Column(title="figure", cell=lambda figure: figure.title),
    Column(title="value", cell=_value),
    Column(title="statistic", cell=lambda figure: figure.statistic),
    Column(title="n", cell=lambda figure: "-" if figure.n is None else f"{figure.n:,}", right=True),
    Column(title="source", cell=lambda figure: figure.source),
)

SESSION: tuple[Column[SessionRow], ...] = (
    Column(title="session", cell=lambda row: f"{row.session:03d}"),
    Column(title="role", cell=lambda row: row.role),
    Column(title="task", cell=lambda row: row.task or "-"),
    Column(title="attempt", cell=lambda row: f"{row.attempt}" + (f" (retry {row.retry})" if row.retry else "")),
    Column(title="outcome", cell=lambda row: row.outcome + (f" ({row.kind})" if row.kind else "")),
    Column(title="requests", cell=lambda row: f"{row.requests:,}", right=True),
    Column(title="prompt", cell=lambda row: written(row.prompt_tokens, ""), right=True),
    Column(title="output", cell=lambda row: written(row.output_tokens, ""), right=True),
    Column(title="tools", cell=lambda row: f"{row.tool_calls:,}", right=True),
    Column(title="wall", cell=lambda row: written(row.seconds, "s"), right=True),
)

TASK: tuple[Column[TaskRow], ...] = (
    Column(title="task", cell=lambda row: row.id),
    Column(title="title", cell=lambda row: row.title[:60]),
    Column(title="status", cell=lambda row: row.status),
    Column(title="attempts", cell=lambda row: str(row.attempts), right=True),
    Column(title="changes", cell=lambda row: str(row.changes), right=True),
)
