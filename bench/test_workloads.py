"""What `pytest bench` collects: one item for every hidden case of the chosen workload, named `workload::case`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.records.schema import CaseResult, RunRecord
from bench.scoring.hidden_set import CaseId, expected_cases
from bench.spec import REPOSITORY

RECORD = pytest.StashKey[RunRecord]()
"""Where the plugin leaves the record of this invocation's run, in the stash of the config."""


class HiddenCases(pytest.File):
    """The hidden cases of one workload; what they are is known without running any."""

    def collect(self) -> Iterator[pytest.Item]:
        for case in expected_cases(REPOSITORY / "hidden" / self.config.getoption("--workload")):
            yield HiddenCase.from_parent(self, name=case.id, case=case)


class HiddenCase(pytest.Item):
    """Reports how one case was judged. A missed case is a result of the benchmark, not a failure of it."""

    def __init__(self, *, case: CaseId, **rest: Any) -> None:
        super().__init__(**rest)
        self.case = case
        self.user_properties.append(("brief", case.brief))

    def runtest(self) -> None:
        """Fails only where the case could not be judged; skips where it was not run."""
        result = self._result()
        self.user_properties.append(("outcome", result.outcome))
        for name in ("observed", "expected", "reason"):
            if (said := getattr(result, name)) is not None:
                self.user_properties.append((name, said))
        if result.outcome == "not-run":
            pytest.skip(result.reason or "not run")
        if result.outcome == "error":
            pytest.fail(f"{result.id} could not be judged: {result.reason}", pytrace=False)

    def _result(self) -> CaseResult:
        record = self.config.stash.get(RECORD, None)
        if record is None:
            pytest.fail("there is no run to report on", pytrace=False)
        return next(result for result in record.cases if result.id == self.case.id)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"hidden case {self.name}"
