from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.engines.embedded.cost_model import CostModel
from bench.engines.embedded.drafts import decode_steps


@settings(deadline=None)
@given(output=st.integers(1, 500), drafts=st.integers(0, 8), seed=st.binary(max_size=80))
def test_steps_give_exactly_the_output(output, drafts, seed):
    steps = list(decode_steps(output_tokens=output, draft_tokens=drafts, seed=seed))
    assert 1 + sum(step.accepted_tokens + 1 for step in steps) == output
    assert all(0 <= step.accepted_tokens <= step.drafted_tokens <= drafts for step in steps)
    assert steps == list(decode_steps(output_tokens=output, draft_tokens=drafts, seed=seed))


def test_acceptance_over_a_long_run():
    steps = list(decode_steps(output_tokens=100_000, draft_tokens=4, seed=b"long"))
    accepted = sum(step.accepted_tokens for step in steps)
    drafted = sum(step.drafted_tokens for step in steps)
    assert 0.60 < accepted / drafted < 0.65


def test_another_prompt_has_other_drafts():
    first, second = (list(decode_steps(output_tokens=300, draft_tokens=4, seed=seed)) for seed in (b"a", b"b"))
    assert first != second


def test_costs():
    cost = CostModel()
    assert cost.prefill_seconds(3000) == 2.0
    assert cost.decode_seconds(100) == 8.5
    assert cost.restore_seconds(ram_bytes=20_000_000_000, ssd_bytes=2_000_000_000) == 2.0
