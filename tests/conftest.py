"""What tests of every room share."""

from __future__ import annotations

import pytest
from hypothesis import settings

from bench.records import schema

# Examples start processes and servers on machines that others share: a slow one is no fault.
settings.register_profile("runcard", deadline=None)
settings.load_profile("runcard")


@pytest.fixture
def small_record() -> schema.RunRecord:
    """A small, whole record: two sessions, one task, three cases of two groups, a measured and an unmeasured figure."""
    figure = {"version": 1, "source": "engine-response", "includes": None, "group": "inference"}
    case = {"brief": "A miss costs no resume time.", "seconds": 0.1}
    return schema.RunRecord(
        schema_version=schema.SCHEMA_VERSION,
        run_id="2026-11-30-sound-embedded-builtin-prefix-cache",
        end="complete",
        reason="",
        valid=True,
        simulated=True,
        created_at="2026-11-30T10:00:00Z",
        identity={"workload": "prefix-cache", "revision": 1, "hidden_sha256": "a" * 64, "model": "sound"},
        configuration={"limits": {"sessions": 3}},
        segments=(schema.SegmentRow(segment=1, started_at=1.0, ended_at=61.0, end="complete", seconds=60.0),),
        sessions=(
            schema.SessionRow(
                session=1,
                role="builder",
                task="T001",
                attempt=1,
                retry=0,
                outcome="engine-error",
                kind="memory",
                reason="no memory",
                requests=3,
                prompt_tokens=None,
                output_tokens=12,
                tool_calls=2,
                seconds=1.5,
                segment=1,
            ),
        ),
        tasks=(schema.TaskRow(id="T001", title="model\x1b[31m", status="done", attempts=1, changes=0),),
        cases=(
            schema.CaseResult(
                id="miss.cold", group="model", outcome="passed", observed=None, expected=None, reason=None, **case
            ),
            schema.CaseResult(
                id="miss.unrelated", group="model", outcome="missed", observed="0.3", expected="0", reason=None, **case
            ),
            schema.CaseResult(
                id="page.loads",
                group="page",
                outcome="not-run",
                observed=None,
                expected=None,
                reason="not judged yet",
                **case,
            ),
        ),
        figures=(
            schema.Figure(
                id="ttft", title="TTFT", value=3.064, unit="s", statistic="median", n=871, reason=None, **figure
            ),
            schema.Figure(
                id="ttft_p90",
                title="TTFT",
                value=None,
                unit="s",
                statistic="p90",
                n=3,
                reason="n is under 50",
                **figure,
            ),
        ),
        warnings=("one response reported no usage",),
        deviations=(),
        evidence=(schema.EvidenceFile(path="journal.jsonl", bytes=3, sha256="b" * 64),),
    )
