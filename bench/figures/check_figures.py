"""Does what was built work, by its own checks, by the reviewers' word, and by ours?"""

from __future__ import annotations

from bench.figures.measured import Formulas, Measured, absent
from bench.figures.run_evidence import Evidence
from bench.figures.session_figures import NO_RUN


def _tasks_done(evidence: Evidence) -> Measured:
    if not evidence.tasks:
        return absent("there was no plan with tasks" if evidence.ran else NO_RUN)
    others = [task.status for task in evidence.tasks if task.status != "done"]
    parts = [f"{others.count(status)} {status}" for status in sorted(set(others))]
    done = len(evidence.tasks) - len(others)
    return Measured(value=done, n=len(evidence.tasks), includes=", ".join(parts) or None)


def _reviews_changes(evidence: Evidence) -> Measured:
    verdicts = [
        entry.verdict for entry in evidence.journal if entry.event == "step-finished" and entry.verdict is not None
    ]
    if not verdicts:
        return absent("no review ended with a verdict" if evidence.ran else NO_RUN)
    return Measured(value=verdicts.count("CHANGES"), n=len(verdicts))


def _project_checks_passing(evidence: Evidence) -> Measured:
    if evidence.checks is None:
        return absent("the harness never ran the project's verify --all" if evidence.ran else NO_RUN)
    if not evidence.checks:
        return absent("the project's verify --all printed no check")
    return Measured(value=sum(check.ok for check in evidence.checks), n=len(evidence.checks))


def _hidden_cases_passed(evidence: Evidence) -> Measured:
    cases = [case for case in evidence.cases if case.group == evidence.score_group]
    if not cases:
        return absent("no hidden case was judged")
    unjudged = [case for case in cases if case.outcome in ("not-run", "error")]
    if unjudged:
        why = unjudged[0].reason or "not run"
        return absent(f"{len(unjudged)} of {len(cases)} hidden cases were not judged: {why}", len(cases))
    return Measured(value=sum(case.outcome == "passed" for case in cases), n=len(cases))


CHECKS: Formulas = {
    "tasks_done": _tasks_done,
    "reviews_changes": _reviews_changes,
    "project_checks_passing": _project_checks_passing,
    "hidden_cases_passed": _hidden_cases_passed,
}
