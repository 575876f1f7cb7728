"""The one list of columns, and how a value of each unit is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bench.records.schema import Figure, RequestRecord, SessionRow, TaskRow

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
            number = f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
            named = unit.removesuffix("s") if value == 1 else unit
            return f"{number} {named}" if unit and unit != "1" else number


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

Scope = tuple[str, Mapping[str, Figure]]
"""A part of a run, and its figures by id."""

SCOPE_TABLES: Mapping[str, str] = {
    "role": "By role (decode in tok/s)",
    "prompt": "By prompt length in tokens (decode in tok/s)",
}
"""Kind of scope -> heading."""


def _figure_column(title: str, figure_id: str) -> Column[Scope]:
    def cell(row: Scope) -> str:
        figure = row[1].get(figure_id)
        return "-" if figure is None else written(figure.value, "" if figure.unit in _COUNTED else figure.unit)

    return Column(title=title, cell=cell, right=True)


_COUNTED = frozenset({"requests", "tokens", "tok/s"})
"""Units that the heading of a table or of a narrow column says already."""

SCOPE: tuple[Column[Scope], ...] = (
    Column(title="part", cell=lambda row: row[0]),
    _figure_column("requests", "served_requests"),
    _figure_column("TTFT", "ttft_median"),
    _figure_column("TTFT p90", "ttft_p90"),
    _figure_column("decode", "decode_tps"),
    _figure_column("after 1st", "decode_tps_after_first"),
    _figure_column("cached", "prompt_cache_share"),
    _figure_column("max prompt", "max_prompt_tokens"),
    _figure_column("accepted", "draft_acceptance"),
    _figure_column("switch", "session_switch_fresh_tokens"),
)
"""A column that no part has a figure for is left out of its table."""

SESSION: tuple[Column[SessionRow], ...] = (
    Column(title="no.", cell=lambda row: f"{row.session:03d}"),
    Column(title="role", cell=lambda row: row.role),
    Column(title="task", cell=lambda row: row.task or "-"),
    Column(title="try", cell=lambda row: f"{row.attempt}" + (f" r{row.retry}" if row.retry else "")),
    Column(title="outcome", cell=lambda row: row.outcome),
    Column(title="reqs", cell=lambda row: f"{row.requests:,}", right=True),
    Column(title="prompt", cell=lambda row: written(row.prompt_tokens, ""), right=True),
    Column(title="output", cell=lambda row: written(row.output_tokens, ""), right=True),
    Column(title="wall", cell=lambda row: _brief(row.seconds), right=True),
    Column(title="engine", cell=lambda row: _brief(row.engine_seconds), right=True),
    Column(title="waiting", cell=lambda row: _brief(row.waiting_seconds), right=True),
    Column(title="tools", cell=lambda row: _brief(row.tool_seconds), right=True),
    Column(title="agent", cell=lambda row: _brief(row.agent_seconds), right=True),
)
"""As narrow as they can be read: the whole table fits a terminal of 120 columns."""


def _brief(seconds: float | None) -> str:
    """A duration in at most seven characters, up to some weeks."""
    if seconds is None:
        return "-"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 999.95:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 59_970 else f"{seconds / 3600:.1f} h"


def _rate(row: RequestRecord) -> str:
    if row.output_tokens is None or row.output_tokens < 2 or not row.decode_seconds:
        return "-"  # of one token there is no time between tokens
    return f"{row.output_tokens / row.decode_seconds:,.2f}"


def _drafts(row: RequestRecord) -> str:
    if row.drafted_tokens is None or row.accepted_tokens is None:
        return "-"
    return f"{row.accepted_tokens:,}/{row.drafted_tokens:,}"


REQUEST: tuple[Column[RequestRecord], ...] = (
    Column(title="session", cell=lambda row: f"{row.session:03d}"),
    Column(title="index", cell=lambda row: str(row.index), right=True),
    Column(title="role", cell=lambda row: row.role),
    Column(title="task", cell=lambda row: row.task or "-"),
    Column(title="for", cell=lambda row: "-" if row.purpose == "turn" else row.purpose),
    Column(title="prompt", cell=lambda row: written(row.prompt_tokens, ""), right=True),
    Column(title="cached", cell=lambda row: written(row.cached_tokens, ""), right=True),
    Column(title="output", cell=lambda row: written(row.output_tokens, ""), right=True),
    Column(title="TTFT", cell=lambda row: written(row.ttft_seconds, "s"), right=True),
    Column(title="tok/s", cell=_rate, right=True),
    Column(title="drafts", cell=_drafts, right=True),
    Column(title="finish", cell=lambda row: row.finish_reason or "-"),
    Column(title="source", cell=lambda row: row.source or "-"),
    Column(title="error", cell=lambda row: (row.error or "-")[:60]),
)

TASK: tuple[Column[TaskRow], ...] = (
    Column(title="task", cell=lambda row: row.id),
    Column(title="title", cell=lambda row: row.title[:60]),
    Column(title="status", cell=lambda row: row.status),
    Column(title="attempts", cell=lambda row: str(row.attempts), right=True),
    Column(title="changes", cell=lambda row: str(row.changes), right=True),
)
