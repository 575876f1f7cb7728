"""Records -> plain tables. Reads records only; the same text on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tabulate

from bench.records.schema import CaseResult, Figure, RequestRecord, RunRecord
from bench.report import columns
from bench.report.columns import Column, Row

tabulate.MIN_PADDING = 0  # its two more spaces a column would make the tables wider than a terminal


_REASON = 300
"""Characters of the reason why a session was not done."""

_AGENT = 60
"""Characters of an agent and its arguments in the list of runs."""

SIMULATED = "simulated engine: TTFT and tok/s are simulated; wall, engine, tools and agent times are real"
"""Above times of a run on the embedded engine."""


def table(rows: Iterable[Row], shape: Sequence[Column[Row]]) -> str:
    """One table; cells are text already, so nothing is parsed as a number again."""
    return tabulate.tabulate(
        [[plain(column.cell(row)) for column in shape] for row in rows],
        headers=[column.title for column in shape],
        tablefmt="simple",
        disable_numparse=True,
        colalign=["right" if column.right else "left" for column in shape],
    )


def summary(record: RunRecord) -> str:
    """What a run prints at its end: configuration, figures by group, tasks, missed cases, warnings."""
    parts = [_headline(record), _configuration(record)]
    parts += [_figures(record, group, heading) for group, heading in columns.FIGURE_TABLES.items()]
    parts += [part for kind in columns.SCOPE_TABLES if (part := _scoped(record, kind))]
    if record.tasks:
        parts.append(f"Tasks\n{table(record.tasks, columns.TASK)}")
    if missed := [case for case in record.cases if case.outcome in ("missed", "error")]:
        parts.append("Hidden cases that did not pass\n" + "\n".join(_missed(case) for case in missed))
    if record.warnings or record.deviations:
        notes = [*record.warnings, *record.deviations]
        parts.append("Notes\n" + "\n".join(f"- {plain(note)}" for note in notes))
    return "\n\n".join(parts)


def sessions(record: RunRecord) -> str:
    """Every agent session of the run, one row each; below them why some were not done."""
    lines = [SIMULATED] if record.simulated else []
    lines.append(table(record.sessions, _told(record.sessions, columns.SESSION)))
    if any(row.retry for row in record.sessions):
        lines.append("try: the attempt; r1, r2: its retries, begun again after an engine error and never charged")
    ended: dict[str, list[int]] = {}
    for row in record.sessions:
        if row.outcome != "done":
            kind = f" ({row.kind})" if row.kind else ""
            reason = f": {row.reason[:_REASON]}" if row.reason else ""
            ended.setdefault(plain(f"{row.outcome}{kind}{reason}"), []).append(row.session)
    lines += [f"{_numbers(those)} {text}" for text, those in ended.items()]
    return "\n".join(lines)


def _numbers(sessions: Sequence[int]) -> str:
    """`001`, `sessions 005-020`, `sessions 003, 005-007`."""
    ranges: list[list[int]] = []
    for number in sessions:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    told = ", ".join("-".join(f"{number:03d}" for number in one) for one in ranges)
    return told if len(sessions) == 1 else f"sessions {told}"


def requests(listed: Sequence[RequestRecord], *, simulated: bool) -> str:
    """Requests, one row each, those of the preflight (session 000) included."""
    lines = [SIMULATED] if simulated else []
    return "\n".join([*lines, table(listed, _told(listed, columns.REQUEST))])


def runs(records: Sequence[RunRecord | str]) -> list[str]:
    """A line a run, aligned: id, end, model, agent with what it was given, score. A text stands as it is."""
    cells = [None if isinstance(one, str) else _run_cells(one) for one in records]
    widths = [max(map(len, column)) for column in zip(*filter(None, cells), strict=True)]
    lines = []
    for one, row in zip(records, cells, strict=True):
        if isinstance(one, str) or row is None:
            lines.append(plain(str(one)))
        else:
            lines.append("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    return lines


def _run_cells(record: RunRecord) -> tuple[str, ...]:
    told = record.identity
    agent = f"{told.get('agent') or '-'} {told.get('agent_args') or ''}".strip()
    judged = [group for group in groups(record.cases) if not _all_idle(record.cases, group)]
    score = ", ".join(_group(record.cases, group) for group in judged) or "not scored"
    return tuple(map(plain, (record.run_id, record.end, str(told.get("model") or "-"), agent[:_AGENT], score)))


def _all_idle(cases: Sequence[CaseResult], group: str) -> bool:
    return all(case.outcome == "not-run" for case in cases if case.group == group)


def cases_line(cases: Sequence[CaseResult]) -> str:
    """`hidden acceptance cases: model 8 of 10, page not run (reason)`."""
    return "hidden acceptance cases: " + (", ".join(_group(cases, group) for group in groups(cases)) or "none")


def groups(cases: Sequence[CaseResult]) -> list[str]:
    """The groups of a list of cases, in the order in which they first stand."""
    return list(dict.fromkeys(case.group for case in cases))


def _group(cases: Sequence[CaseResult], group: str) -> str:
    mine = [case for case in cases if case.group == group]
    reasons = list(dict.fromkeys(case.reason or "no reason given" for case in mine if case.outcome == "not-run"))
    if _all_idle(cases, group):
        return f"{group} not run ({'; '.join(reasons)})"
    passed = sum(case.outcome == "passed" for case in mine)
    errors = sum(case.outcome == "error" for case in mine)
    tail = f" ({errors} could not be judged)" if errors else ""
    return f"{group} {passed} of {len(mine)}{tail}"


def _figures(record: RunRecord, group: str, heading: str) -> str:
    """One group of figures; a group of which nothing was measured is one sentence, no table."""
    rows = [figure for figure in record.figures if figure.group == group and figure.scope is None]
    if all(figure.value is None for figure in rows):
        reasons = dict.fromkeys(figure.reason for figure in rows if figure.reason)
        return f"{heading}\nnot measured: {'; '.join(reasons) or 'nothing was asked'}"
    shown = [figure for figure in rows if figure.value is not None and not _idle_role(figure)]
    return "\n".join([heading, table(shown, columns.FIGURE), *_remarks(rows)])


def _idle_role(figure: Figure) -> bool:
    """Whether a figure only says that a role had no session."""
    return figure.id.startswith("agent_sessions_") and figure.value == 0


def _remarks(rows: Sequence[Figure]) -> list[str]:
    """What a table of numbers leaves out: why there is none, and what a number includes or lacks."""
    absent = [f"- not measured: {figure.title}: {figure.reason}" for figure in rows if figure.value is None]
    included = [
        f"- {figure.title}: {figure.includes}"
        for figure in rows
        if figure.value is not None and figure.includes and not _idle_role(figure)
    ]
    return [plain(line) for line in [*absent, *included]]


def _scoped(record: RunRecord, kind: str) -> str:
    """The parts of one kind beside each other; empty where the record has none."""
    parts: dict[str, dict[str, Figure]] = {}
    for figure in record.figures:
        scope, _, part = (figure.scope or "").partition(":")
        if scope == kind:
            parts.setdefault(part, {})[figure.id] = figure
    rows = list(parts.items())
    return f"{columns.SCOPE_TABLES[kind]}\n{table(rows, _told(rows, columns.SCOPE))}" if parts else ""


def _told(rows: Sequence[Row], shape: Sequence[Column[Row]]) -> list[Column[Row]]:
    """The columns in which any row has something to say."""
    return [column for column in shape if any(column.cell(row) != "-" for row in rows)]


def _missed(case: CaseResult) -> str:
    """One case with what it saw: outcomes are long, so they stand below each other where they can be compared."""
    lines = [f"{case.id} {case.outcome}: {case.reason or 'no reason given'}"]
    lines += [f"    {name} {text}" for name, text in (("observed", case.observed), ("expected", case.expected)) if text]
    return "\n".join(plain(line[:400]) for line in lines)


_TOLD = ("version", "context_window", "checked", "thinking", "sampling", "skills")
"""What of an engine's and an agent's configuration stands below a run's identity."""


def _headline(record: RunRecord) -> str:
    kind = "simulated times, not a measurement of any engine" if record.simulated else "measured"
    kind = "scored only, no engine ran" if record.end == "scored" else kind
    valid = "valid" if record.valid else "NOT VALID"
    reason = f": {plain(record.reason)}" if record.reason else ""
    return f"{record.run_id}\n{record.end.upper()} ({valid}; {kind}){reason}"


def _configuration(record: RunRecord) -> str:
    rows = [(key.replace("_", " "), _flat(value)) for key, value in record.identity.items()]
    for part in ("engine", "agent"):
        told_of = record.configuration.get(part)
        if isinstance(told_of, Mapping):
            rows += [
                (f"{part} {key.replace('_', ' ')}", _flat(told_of[key]))
                for key in _TOLD
                if told_of.get(key) and f"{part}_{key}" not in record.identity
            ]
    if record.segments:
        told = [f"{row.segment}: {row.end}, {columns.written(row.seconds, 's')}" for row in record.segments]
        rows.append(("segments", "; ".join(told)))
        rows.append(("cache", "; ".join(f"{row.segment}: {row.cache or 'not known'}" for row in record.segments)))
    shape = (
        Column[tuple[str, str]](title="configuration", cell=lambda row: row[0]),
        Column[tuple[str, str]](title="value", cell=lambda row: row[1]),
    )
    return table(rows, shape)


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_flat(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_flat, value))
    if isinstance(value, str) and len(value) == 64:
        return value[:12] + "…"
    return "-" if value is None else str(value)[:100]


def plain(text: str) -> str:
    """Text that a terminal cannot be steered by: no control characters, one line."""
    return "".join(char if char.isprintable() else " " for char in text)
