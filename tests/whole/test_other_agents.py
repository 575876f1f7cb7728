"""One real session of every other agent that was run here, in the box, beside the engine's own truth."""

from __future__ import annotations

import pytest

from bench.agents.adapters import open_adapter
from bench.agents.probing import probe
from bench.sandbox.box import open_box
from bench.spec import AgentSpec
from tests.agents.npm_agents import require_agent
from tests.whole.running import bench, truth
from tests.whole.test_runs import check_against_truth, check_record

VERSIONS = {"codex": "0.171.0", "mini-swe-agent": "2.4.6", "opencode": "1.18.33", "qwen-code": "0.24.4"}
NO_REASONING = ("qwen-code",)
OWN_IDS = ("opencode", "qwen-code")
"""Agents that do not tell the names of the engine's responses."""

SILENT = ("opencode", "qwen-code")
"""Agents that tell neither whether they asked again nor whether they summed their history up."""


@pytest.mark.slow
@pytest.mark.parametrize("agent", VERSIONS)
def test_a_session_is_done_and_every_response_is_accounted_for_to_the_token(tmp_path, agent):
    require_agent(agent)
    done = bench("--workload", "csv-totals", "--agent", agent, "--results", str(tmp_path))
    assert done.code == 0, done.out
    assert (done.record["end"], done.passed()) == ("complete", 8)
    run = check_record(done, tmp_path)
    check_against_truth(done, run)
    read = open_adapter(AgentSpec(name=agent)).read_events(run / "sessions" / "001", 1)
    assert (read.differences, dict(read.unknown), read.damage) == ((), {}, None)
    assert done.figure("agent_retries") == (None if agent in SILENT else 0)
    assert done.figure("compactions") == (None if agent in SILENT else 0)
    reasoning, names = agent not in NO_REASONING, agent not in OWN_IDS
    assert [
        (one.input_tokens, one.cached_tokens, one.output_tokens, one.reasoning_tokens, one.response_id)
        for one in read.usage
    ] == [
        (
            line["prompt_tokens"] - line["cached_tokens"],
            line["cached_tokens"],
            line["output_tokens"],
            line["reasoning_tokens"] if reasoning else None,
            line["response_id"] if names else None,
        )
        for line in truth(run)
    ]
    for figure in ("residual_agent_relay_tokens", "residual_relay_engine_tokens", "residual_agent_engine_tokens"):
        assert done.figure(figure) == 0
    told = done.record["configuration"]["agent"]
    assert (told["name"], told["version"], told["checked"]) == (agent, VERSIONS[agent], "run here")


@pytest.mark.slow
@pytest.mark.parametrize("agent", VERSIONS)
def test_it_starts_in_the_box_and_tells_its_version(tmp_path, agent):
    require_agent(agent)
    assert (
        probe(open_adapter(AgentSpec(name=agent)), box=open_box(unsafe=False), home=tmp_path / "home")
        == VERSIONS[agent]
    )


def test_an_agent_that_needs_another_api_is_refused_before_anything_starts(tmp_path):
    done = bench("--workload", "csv-totals", "--agent", "claude-code", "--results", str(tmp_path))
    assert done.code == 4
    assert "the agent claude-code asks /v1/messages, which the engine embedded does not offer" in done.out
    assert "apis" not in done.out
    assert list(tmp_path.iterdir()) == []
