"""What the figures of tasks, reviews, checks and cases mean."""

from __future__ import annotations

from bench.figures.definition import Definition

CHECK_DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        id="tasks_done",
        title="Tasks completed",
        unit="tasks",
        statistic="count",
        sources=("harness",),
        formula="task cards with status done; n counts all cards",
        null_when="there was no plan",
        group="check",
    ),
    Definition(
        id="reviews_changes",
        title="Reviews returning changes",
        unit="reviews",
        statistic="count",
        sources=("harness",),
        formula="reviews, final ones included, whose verdict was CHANGES; n counts the verdicts",
        null_when="no review ended with a verdict",
        group="check",
    ),
    Definition(
        id="project_checks_passing",
        title="Project checks passing",
        unit="checks",
        statistic="count",
        sources=("harness",),
        formula="lines `ok` of the last `verify --all` that the harness ran; n counts its checks",
        null_when="it was never run, or printed no check",
        group="check",
    ),
    Definition(
        id="hidden_cases_passed",
        title="Hidden acceptance cases passed",
        unit="cases",
        statistic="count",
        sources=("harness",),
        formula="cases of the score group that passed; n counts the group",
        null_when="a case of the group was not judged",
        group="check",
    ),
)
