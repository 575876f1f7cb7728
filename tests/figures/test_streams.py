"""Do agent, relay and engine agree; what rests on a cold cache; what a fresh session costs; what was not told at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.records.schema import EngineSummary, MemorySample, Scrape


@pytest.fixture
def summary_of():
    def make(order, **changes):
        values = {
            **dict.fromkeys(EngineSummary.__dataclass_fields__),
            "engine_process": 1,
            "order": order,
            "line": order + 1,
        }
        return EngineSummary(**{**values, **changes})

    return make


@pytest.fixture
def streams(request_of, claim_of):
    """Two responses that all three streams tell alike, a preflight of 6 + 1 tokens, and one failed request."""
    counts = {"prompt_tokens": 100, "cached_tokens": 60, "output_tokens": 10}
    requests = (
        request_of(session=0, role="preflight", response_id="p", engine_process=1, prompt_tokens=6, output_tokens=1),
        request_of(response_id="a", engine_process=1, **counts),
        request_of(index=1, response_id="b", engine_process=1, **counts),
        request_of(index=2, status=500, error="HTTP 500", engine_process=1),
    )
    claims = (
        claim_of(response_id="a", input_tokens=40, cached_tokens=60, output_tokens=10),
        claim_of(index=1, response_id="b", input_tokens=40, cached_tokens=60, output_tokens=10),
    )
    return {"requests": requests, "usage": claims}


def scrape(at, process=1, **values):
    return Scrape(
        engine_process=process,
        asked_at=at,
        answered_at=at,
        values={key: float(value) for key, value in values.items()},
        problem=None,
    )


RESIDUALS = [f"residual_{pair}_tokens" for pair in ("agent_relay", "relay_engine", "agent_engine")]


def test_three_streams_that_agree_have_no_residual(figures, streams, summary_of):
    summaries = (
        summary_of(0, response_id="p", prompt_tokens=6, cached_tokens=0, output_tokens=1),
        summary_of(1, response_id="a", prompt_tokens=100, cached_tokens=60, output_tokens=10),
        summary_of(2, response_id="b", prompt_tokens=100, cached_tokens=60, output_tokens=10),
    )
    found = figures(**streams, summaries=summaries)
    assert [found[name].value for name in RESIDUALS] == [0, 0, 0]
    assert [found[name].source for name in RESIDUALS] == ["relay", "engine-log", "engine-log"]


def test_an_unrelated_client_stands_in_the_engines_residual(figures, streams, summary_of):
    summaries = (
        summary_of(0, response_id="p", prompt_tokens=6, cached_tokens=0, output_tokens=1),
        summary_of(1, response_id="a", prompt_tokens=100, cached_tokens=60, output_tokens=10),
        summary_of(2, response_id="x", prompt_tokens=5_000, cached_tokens=0, output_tokens=7),
        summary_of(3, response_id="b", prompt_tokens=101, cached_tokens=60, output_tokens=10),
    )
    found = figures(**streams, summaries=summaries)
    assert found["residual_agent_relay_tokens"].value == 0
    assert found["residual_relay_engine_tokens"].value == 5_007 + 1
    assert "1 summaries alone" in found["residual_relay_engine_tokens"].includes
    assert found["residual_agent_engine_tokens"].value == 5_001 + 7
    assert found["residual_agent_engine_tokens"].includes == "engine minus agent: +5,001 prompt, +7 output"


def test_pairs_that_disagree_are_residual_and_the_unreported_is_not(figures, request_of, claim_of):
    requests = (
        request_of(response_id="a", prompt_tokens=100, output_tokens=10),
        request_of(index=1, response_id="b", prompt_tokens=None, output_tokens=10),
        request_of(index=2, response_id="c", prompt_tokens=7, output_tokens=1),
    )
    claims = (
        claim_of(response_id="a", input_tokens=90, cached_tokens=5, output_tokens=12),
        claim_of(index=1, response_id="b", input_tokens=50, output_tokens=10),
    )
    residual = figures(requests=requests, usage=claims)["residual_agent_relay_tokens"]
    assert (residual.value, residual.n) == (5 + 2 + 7 + 1, 3)
    assert residual.includes == "1 stand alone; 1 of 2 pairs compared in part only, for want of counts"


def test_a_sum_of_two_summaries_is_no_residual(figures, request_of, claim_of):
    requests = (
        request_of(response_id="a", ended_at=1.0, prompt_tokens=900, output_tokens=9),
        request_of(index=1, response_id="b", ended_at=2.0, prompt_tokens=70, output_tokens=7, purpose="compaction"),
        request_of(index=2, response_id="c", ended_at=3.0, prompt_tokens=40, output_tokens=4, purpose="compaction"),
    )
    claims = (
        claim_of(response_id="a", input_tokens=900, cached_tokens=0, output_tokens=9),
        claim_of(index=1, stop_reason="compaction", input_tokens=110, cached_tokens=0, output_tokens=11),
    )
    found = figures(requests=requests, usage=claims)
    residual, matched = found["residual_agent_relay_tokens"], found["matched_requests"]
    assert (residual.value, residual.n, residual.includes) == (0, 2, None)
    assert (matched.value, matched.n) == (3, 3)
    assert matched.includes == "2 compaction requests are summed up in fewer claims"


def test_counters_are_the_engines_stream_where_no_log_is(figures, streams):
    scrapes = (
        scrape(0.0, prompt_tokens=1_000, output_tokens=50),
        scrape(9.0, prompt_tokens=1_206, output_tokens=71),
    )
    found = figures(**streams, scrapes=scrapes)
    assert [found[name].value for name in RESIDUALS] == [0, 0, 0]
    assert found["residual_relay_engine_tokens"].source == "engine-counter"
    more = (*scrapes, scrape(10.0, prompt_tokens=1_306, output_tokens=71))
    assert figures(**streams, scrapes=more)["residual_relay_engine_tokens"].includes == (
        "engine minus relay: +100 prompt, +0 output"
    )


def test_answers_without_usage_are_named_beside_what_the_engine_counted(figures, streams, request_of):
    silent = (request_of(index=4, engine_process=1), request_of(index=5, engine_process=1, path="/v1/models"))
    scrapes = (scrape(0.0, prompt_tokens=0, output_tokens=0), scrape(9.0, prompt_tokens=256, output_tokens=26))
    given = {**streams, "requests": (*streams["requests"], *silent)}
    figure = figures(**given, scrapes=scrapes)["residual_relay_engine_tokens"]
    assert (figure.value, figure.n) == (50 + 5, 2)
    assert figure.includes == "1 requests do not report their tokens; engine minus relay: +50 prompt, +5 output"


def test_computed_prompts_are_compared_with_computed_prompts(figures, streams):
    scrapes = (
        scrape(0.0, computed_prompt_tokens=0, output_tokens=0),
        scrape(9.0, computed_prompt_tokens=86, output_tokens=21),
        scrape(0.0, process=2, computed_prompt_tokens=500, output_tokens=500),
    )
    found = figures(**streams, scrapes=scrapes)
    assert [found[name].value for name in RESIDUALS] == [0, 0, 0]
    assert found["residual_agent_engine_tokens"].includes == "computed part of the prompts only"


def test_a_counter_that_fell_is_no_residual(figures, streams):
    scrapes = (scrape(0.0, prompt_tokens=100, output_tokens=9), scrape(9.0, prompt_tokens=6, output_tokens=10))
    figure = figures(**streams, scrapes=scrapes)["residual_relay_engine_tokens"]
    assert figure.value is None
    assert figure.reason == "a counter of the engine fell"


def test_without_a_relay_only_agent_and_engine_are_compared(figures, streams, summary_of):
    summaries = (
        summary_of(0, prompt_tokens=100, cached_tokens=60, output_tokens=10),
        summary_of(1, prompt_tokens=100, cached_tokens=60, output_tokens=10),
    )
    requests = streams["requests"][1:3]
    found = figures(requests=requests, usage=streams["usage"], summaries=summaries, counted_by="engine-log")
    assert [found[name].reason for name in RESIDUALS[:2]] == ["no relay stood between agent and engine"] * 2
    assert found["residual_agent_engine_tokens"].value == 0
    sources = {found[name].source for name in ("max_prompt_tokens", "prompt_cache_share", "matched_requests")}
    assert sources == {"engine-log"}


def test_nothing_kept_of_the_engine_is_said(figures, streams):
    figure = figures(**streams)["residual_relay_engine_tokens"]
    assert (figure.value, figure.reason) == (None, "neither the engine's counters nor its log were kept")


def test_first_requests_are_what_a_fresh_session_costs(figures, request_of):
    requests = (
        request_of(session=1, index=0, error="HTTP 503"),
        request_of(session=1, index=1, prompt_tokens=1_000, cached_tokens=100),
        request_of(session=1, index=2, prompt_tokens=2_000, cached_tokens=1_900),
        request_of(session=2, index=0, role="reviewer", prompt_tokens=3_000, cached_tokens=1_000),
        request_of(session=3, index=0, role="reviewer", prompt_tokens=3_000),
    )
    found = figures(requests=requests)
    fresh = found["session_switch_fresh_tokens"]
    assert (fresh.value, fresh.n, fresh.includes) == (2_900, 2, "not reported by 1 of 3 sessions")
    assert found["session_switch_fresh_share"].value == 2_900 / 3_000
    assert found["requests_without_cached"].value == 1
    whole = figures(requests=(request_of(prompt_tokens=5, cached_tokens=5),))
    assert whole["session_switch_fresh_share"].reason == "no request had a fresh prompt token"


def test_requests_are_told_apart_by_how_their_segments_began(figures, request_of, session_of, segment_of):
    segments = (
        replace(segment_of(1, 0.0, 9.0), cache="cold: fresh process, empty disk cache"),
        replace(segment_of(2, 20.0, 9.0), cache="warm: attached, no reset"),
        segment_of(3, 40.0, 9.0),
    )
    sessions = tuple(session_of(session=n, segment=n) for n in (1, 2, 3))
    requests = (*(request_of(index=n) for n in range(3)), request_of(session=2), request_of(session=3))
    found = figures(requests=requests, sessions=sessions, segments=segments)
    begun = [found[f"requests_begun_{state}"] for state in ("cold", "salted", "warm")]
    assert [(one.value, one.n) for one in begun] == [(3, 4), (0, 4), (1, 4)]
    assert begun[0].includes == "not reported by 1 of 5 requests' segments"
    unknown = figures(requests=requests, sessions=sessions)["requests_begun_cold"]
    assert unknown.reason == "no segment says how the engine's cache was when it began"


def test_the_relays_ttft_beside_the_engines(figures, request_of, profile):
    requests = (
        request_of(sent_at=1.0, first_token_at=1.5, ttft_seconds=0.25),
        request_of(index=1, sent_at=2.0, first_token_at=2.5, ttft_seconds=0.5),
        request_of(index=2, sent_at=3.0, first_token_at=3.5, ttft_seconds=0.5),
        request_of(index=3, sent_at=4.0, first_token_at=4.5),
    )
    figure = figures(requests=requests)["ttft_relay_minus_engine"]
    assert (figure.value, figure.n, figure.source) == (0.0, 3, "relay")
    assert figure.includes == "engine (engine-response): queueing excluded; relay: queueing and the way back"
    simulated = figures(requests=requests, profile=replace(profile, simulated=True))["ttft_relay_minus_engine"]
    assert simulated.value is None
    plain = figures(requests=(request_of(ttft_seconds=1.0),))["ttft_relay_minus_engine"]
    assert plain.reason == "no served request has a TTFT of both sides"


def test_refused_and_unreported_are_counted(figures, request_of):
    requests = (
        request_of(prompt_tokens=5, output_tokens=1, cached_tokens=0),
        request_of(index=1, prompt_tokens=5),
        request_of(index=2, error="reset: x"),
    )
    found = figures(requests=requests, refused=4)
    assert (found["refused_requests"].value, found["refused_requests"].n) == (4, 7)
    assert (found["requests_without_usage"].value, found["requests_without_usage"].n) == (1, 2)
    assert found["requests_without_cached"].value == 1
    assert found["requests_without_timings"].value == 2
    assert (found["served_requests"].value, found["served_requests"].n) == (2, 3)
    assert found["served_requests"].includes == "1 of 3 were not answered whole"
    assert figures(requests=requests)["refused_requests"].value is None


def test_peaks_of_memory_name_what_was_silent(figures):
    def sample(at, rss, gpu):
        return MemorySample(
            at=at,
            boundary=False,
            swapped_in_bytes=None,
            pressure=None,
            engine_rss_bytes=rss,
            available_bytes=None,
            gpu_used_bytes=gpu,
        )

    found = figures(memory=(sample(1.0, 5, 70), sample(2.0, 9, None), sample(3.0, None, 60)))
    rss, gpu = found["engine_rss_peak_bytes"], found["gpu_memory_peak_bytes"]
    assert (rss.value, rss.n) == (9, 2)
    assert rss.includes == "all processes of the engine; not reported by 1 of 3 samples"
    assert (gpu.value, gpu.n) == (70, 2)
    none = figures(memory=(sample(1.0, None, None),))
    assert none["gpu_memory_peak_bytes"].reason == "the system does not tell its GPU memory"
