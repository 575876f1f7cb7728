"""Every formula, its null rule, and the arithmetic of a published run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.contracts import CheckLine
from bench.figures.compute import FORMULAS, compute
from bench.figures.definitions import DEFINITIONS
from bench.figures.run_evidence import Evidence
from bench.records.schema import CaseResult, JournalEntry, MemorySample, TaskRow


def spread(total: int, count: int) -> list[int]:
    """`count` whole numbers that sum to `total`."""
    return [total // count + (index < total % count) for index in range(count)]


def case(name, outcome, group="model", reason=None):
    return CaseResult(
        id=name, group=group, outcome=outcome, brief="", observed=None, expected=None, reason=reason, seconds=None
    )


def sample(at, swapped, pressure="normal"):
    return MemorySample(
        at=at, boundary=False, swapped_in_bytes=swapped, pressure=pressure, engine_rss_bytes=None, available_bytes=None
    )


def review(seq, verdict):
    return JournalEntry(seq=seq, event="step-finished", at=0.0, step="reviewer", outcome="done", verdict=verdict)


@pytest.fixture
def observed(request_of, claim_of, session_of, segment_of, figures):
    """The figures of synthetic records whose sums are those of a published run."""
    matched = 872
    prompt, cached = spread(29_156_876 - 113_626, matched - 1), spread(25_155_774, matched)
    drafted, accepted = spread(550_069, matched), spread(346_605, matched)
    output, reasoning = spread(807_277, matched), spread(584_641, matched)
    sessions = [
        *(("bootstrap", 1, "done"),),
        *(("builder", 1, "engine-error") for _ in range(14)),
        *(("builder", 2, "engine-error") for _ in range(7)),
        *(("builder", 3, "done") for _ in range(19)),
        *(("reviewer", 3, "done") for _ in range(18)),
        *(("replan", 3, "done") for _ in range(2)),
        *(("final-reviewer", 3, "done"),),
    ]
    requests, usage = [], []
    for index in range(matched):
        whole = 113_626 if index == 0 else prompt[index - 1]
        counts = {"cached_tokens": cached[index], "output_tokens": output[index], "reasoning_tokens": reasoning[index]}
        place = {"session": 1 + index % 62, "index": index, "response_id": f"c{index}"}
        timed = index != 500  # one request without timings is left out, not guessed
        requests.append(
            request_of(
                prompt_tokens=whole,
                drafted_tokens=drafted[index],
                accepted_tokens=accepted[index],
                ttft_seconds=3.064 if timed else None,
                decode_seconds=output[index] / 40.14 if timed else None,
                **counts,
                **place,
            )
        )
        usage.append(claim_of(input_tokens=whole - cached[index], **counts, **place))
    for index in range(26):
        place = {"session": 2 + index, "index": matched + index}
        requests.append(request_of(status=400, error="no memory", source=None, **place))
        usage.append(claim_of(error="no memory", **place))
    requests.append(request_of(session=0, role="preflight", prompt_tokens=10**6, output_tokens=10**6))
    usage.append(claim_of(session=0, input_tokens=10**6, output_tokens=10**6))
    seconds = (17_700.0, 4_140.0, 15_750.0)
    starts = (0.0, 30_000.0, 60_000.0)
    pressure = ["warning"] * 129 + ["normal"] * 1221
    page, swapped_pages = 16_384, int(197.86 * 2**30 / 16_384)
    steps = spread(swapped_pages, 1347)
    counter, memory, taken = 5_000_000, [], 0
    for number in range(1350):
        segment, place = divmod(number, 450)
        if place:
            counter += steps[taken] * page
            taken += 1
        else:
            counter += 10**9  # what other programs swapped while the run was blocked
        memory.append(sample(starts[segment] + place * 9.0, counter, pressure[number]))
    return figures(
        requests=tuple(requests),
        usage=tuple(usage),
        sessions=tuple(
            session_of(session=number, role=role, segment=segment, outcome=outcome)
            for number, (role, segment, outcome) in enumerate(sessions, 1)
        ),
        segments=tuple(segment_of(n + 1, starts[n], seconds[n]) for n in range(3)),
        memory=tuple(memory),
        tasks=tuple(TaskRow(id=f"T{n:03}", title="", status="done", attempts=1, changes=0) for n in range(1, 15)),
        journal=tuple(review(n, "CHANGES" if n < 4 else "ACCEPT") for n in range(19)),
        checks=tuple(CheckLine(id=str(n), ok=True, reason="") for n in range(35)),
        cases=(
            *(case(f"model.{n}", "passed") for n in range(8)),
            case("miss.cold", "missed"),
            case("miss.unrelated", "missed"),
            case("page.opens", "not-run", group="page"),
        ),
        score_group="model",
        tool_calls=1099,
        compactions=1,
    )


def test_the_published_run(observed):
    value = {name: figure.value for name, figure in observed.items()}
    n = {name: figure.n for name, figure in observed.items()}
    assert value["ttft_median"] == pytest.approx(3.064)
    assert (n["ttft_median"], n["decode_tps"], n["draft_acceptance"]) == (871, 871, 872)
    assert value["ttft_p90"] is not None
    assert round(value["decode_tps"], 2) == 40.14
    assert round(100 * value["draft_acceptance"], 2) == 63.01
    assert round(value["swapped_in_bytes"] / 2**30, 2) == 197.86
    assert (value["memory_pressure_warning"], value["memory_pressure_critical"]) == (129, 0)
    assert n["memory_pressure_warning"] == n["swapped_in_bytes"] == 1350
    assert value["run_elapsed"] / 60 == 626.5
    roles = ("bootstrap", "builder", "reviewer", "replan", "final_reviewer")
    assert [value[f"agent_sessions_{role}"] for role in roles] == [1, 40, 18, 2, 1]
    assert value["agent_sessions"] == 62
    assert value["engine_error_sessions"] == 21
    assert observed["engine_error_sessions"].includes == "14 in segment 1, 7 in segment 2, 0 in segment 3"
    assert (value["model_responses"], value["matched_requests"]) == (898, 872)
    assert observed["model_responses"].includes == "26 error responses included"
    assert (value["tool_calls"], value["compactions"]) == (1099, 1)
    assert value["max_prompt_tokens"] == 113_626
    assert (value["fresh_input_tokens"], value["cached_input_tokens"]) == (4_001_102, 25_155_774)
    assert value["fresh_input_tokens"] + value["cached_input_tokens"] == 29_156_876
    assert round(100 * value["prompt_cache_share"], 2) == 86.28
    assert (value["output_tokens"], value["reasoning_tokens"]) == (807_277, 584_641)
    assert (value["tasks_done"], value["reviews_changes"], value["project_checks_passing"]) == (14, 4, 35)
    assert (value["hidden_cases_passed"], n["hidden_cases_passed"]) == (8, 10)
    assert observed["ttft_median"].includes == "queueing excluded; not reported by 1 of 872 requests"


def test_every_definition_has_a_formula_and_the_other_way_round():
    names = [definition.id for definition in DEFINITIONS]
    assert len(set(names)) == len(names)
    assert set(names) == set(FORMULAS)


def test_a_scored_project_has_cases_and_nothing_else():
    evidence = Evidence(profile=None, cases=(case("a", "passed"), case("b", "missed")), score_group="model")
    found = {figure.id: figure for figure in compute(evidence)}
    assert (found.pop("hidden_cases_passed").value) == 1
    assert {figure.value for figure in found.values()} == {None}
    assert {figure.reason for figure in found.values()} == {
        "no engine ran: only a project was scored",
        "no agent ran: only a project was scored",
    }


def test_a_case_that_could_not_be_judged_leaves_no_score(figures):
    figure = figures(cases=(case("a", "passed"), case("b", "error", reason="TypeError")), score_group="model")
    assert figure["hidden_cases_passed"].value is None
    assert "TypeError" in figure["hidden_cases_passed"].reason or "1 of 2" in figure["hidden_cases_passed"].reason


def test_a_blocked_run_has_no_score(figures):
    cases = (case("a", "not-run", reason="the engine stopped the run"), case("b", "not-run"))
    figure = figures(cases=cases, score_group="model")["hidden_cases_passed"]
    assert figure.value is None
    assert figure.reason == "2 of 2 hidden cases were not judged: the engine stopped the run"


def test_rates_are_output_weighted_never_a_mean_of_rates(figures, request_of):
    requests = (
        request_of(output_tokens=100, decode_seconds=1.0),
        request_of(index=1, output_tokens=1, decode_seconds=1.0),
        request_of(index=2, output_tokens=50, decode_seconds=None),
        request_of(index=3, output_tokens=None, decode_seconds=5.0),
        request_of(index=4, output_tokens=900, decode_seconds=1.0, error="reset: x"),
        request_of(index=5, output_tokens=900, decode_seconds=1.0, source="engine-counter"),
    )
    found = figures(requests=requests)
    assert (found["decode_tps"].value, found["decode_tps"].n) == (50.5, 2)
    assert found["decode_tps"].includes == (
        "1 of 5 requests left out, whose source is not engine-response; not reported by 2 of 5 requests"
    )
    assert (found["decode_tps_after_first"].value, found["decode_tps_after_first"].n) == (99.0, 1)


def test_small_numbers_get_no_high_percentile(figures, request_of):
    requests = tuple(request_of(index=n, ttft_seconds=float(n), first_token_at=n + 1.0) for n in range(49))
    found = figures(requests=requests)
    assert (found["ttft_median"].value, found["relay_ttft_median"].value) == (24.0, 25.0)
    assert (found["ttft_p90"].value, found["ttft_p90"].n) == (None, 49)
    assert found["ttft_p90"].reason == "p90 needs 50 values, there are 49"
    more = (*requests, request_of(index=49, ttft_seconds=49.0))
    assert figures(requests=more)["ttft_p90"].value == pytest.approx(44.1)
    assert figures(requests=more)["relay_ttft_p90"].value is None


def test_unreported_is_said_and_never_zero(figures, request_of, claim_of):
    requests = (request_of(prompt_tokens=100, cached_tokens=50), request_of(index=1, prompt_tokens=900))
    usage = (
        claim_of(input_tokens=5, cached_tokens=None),
        claim_of(index=1, input_tokens=None),
        claim_of(index=2, error="x"),
    )
    found = figures(requests=requests, usage=usage)
    assert (found["prompt_cache_share"].value, found["prompt_cache_share"].n) == (0.5, 1)
    assert found["prompt_cache_share"].includes == "not reported by 1 of 2 requests"
    assert (found["fresh_input_tokens"].value, found["fresh_input_tokens"].n) == (5, 1)
    assert found["fresh_input_tokens"].includes == "not reported by 1 of 2 responses; 1 failed responses report none"
    assert found["cached_input_tokens"].value is None
    assert found["cached_input_tokens"].reason == "reported by none of 2 responses"
    assert found["draft_acceptance"].value is None
    assert found["tool_calls"].reason == "the agent does not report its tool calls"


def test_reasons_come_from_the_profile_then_from_the_requests(figures, request_of, profile):
    from dataclasses import replace

    told = replace(profile, unavailable={"ttft_seconds": "this server has no clock"})
    requests = (
        request_of(source=None, reason="ttft_seconds: the answer has no x; decode_seconds: nan s is no duration"),
    )
    found = figures(requests=requests, profile=told)
    assert found["ttft_median"].reason == "this server has no clock"
    assert found["decode_tps"].reason == "decode_seconds: nan s is no duration"
    assert figures(requests=())["ttft_median"].reason == "no request was answered whole"


def test_nothing_drafted_is_no_rate(figures, request_of):
    figure = figures(requests=(request_of(drafted_tokens=0, accepted_tokens=0),))["draft_acceptance"]
    assert (figure.value, figure.reason) == (None, "nothing was drafted")


def test_leftovers_are_a_figure(figures, request_of, claim_of):
    requests = (
        request_of(response_id="a", prompt_tokens=10, output_tokens=3, cached_tokens=0),
        request_of(index=1, response_id="b", prompt_tokens=20, output_tokens=4),
    )
    usage = (
        claim_of(response_id="a", input_tokens=10, cached_tokens=0, output_tokens=4),
        claim_of(index=1, response_id="c", input_tokens=7, output_tokens=1),
    )
    found = figures(requests=requests, usage=usage)
    assert (found["matched_requests"].value, found["matched_requests"].n) == (1, 2)
    assert found["matched_requests"].includes == ("2 requests or claims stand alone; 1 pairs disagree on token counts")
    assert (found["unmatched_tokens"].value, found["unmatched_tokens"].n) == (20 + 4 + 7 + 1, 2)
    assert found["unmatched_tokens"].includes == "1 of their 5 counts were not reported"


def test_swaps_count_within_segments_and_a_falling_counter_is_no_figure(figures, segment_of):
    segments = (segment_of(1, 0.0, 10.0), segment_of(2, 100.0, 10.0))
    memory = (sample(0.0, 1000), sample(9.0, 1500), sample(100.0, 9_000_000), sample(105.0, 9_000_001))
    assert figures(segments=segments, memory=memory)["swapped_in_bytes"].value == 501
    rebooted = (sample(0.0, 9000), sample(9.0, 9000), sample(100.0, 10), sample(105.0, 12))
    assert figures(segments=segments, memory=rebooted)["swapped_in_bytes"].value == 2
    short = figures(segments=segments, memory=memory[:3])["swapped_in_bytes"]
    assert (short.value, short.reason) == (None, "fewer than two samples in one of the segments")
    fell = figures(segments=segments, memory=(sample(0.0, 9000), sample(9.0, 10)))["swapped_in_bytes"]
    assert (fell.value, fell.reason) == (None, "the system's counter fell within a segment")
    assert figures(memory=())["swapped_in_bytes"].reason == "no memory sample was taken"
    mute = figures(memory=(sample(1.0, None, None),))
    assert mute["swapped_in_bytes"].reason == "the system does not tell how much was swapped in"
    assert mute["memory_pressure_critical"].reason == "the system does not tell its memory pressure"


COUNT = st.none() | st.integers(0, 10**6)
SECONDS = st.none() | st.just(0.0) | st.floats(1e-6, 10**5)


@given(st.lists(st.tuples(COUNT, COUNT, COUNT, SECONDS, SECONDS, st.booleans()), max_size=8))
def test_any_records_give_every_figure_a_finite_value_or_a_reason(request_of, claim_of, rows):
    requests = tuple(
        request_of(
            index=n,
            prompt_tokens=prompt,
            cached_tokens=cached,
            output_tokens=output,
            ttft_seconds=ttft,
            decode_seconds=decode,
            error="x" if failed else None,
        )
        for n, (prompt, cached, output, ttft, decode, failed) in enumerate(rows)
    )
    usage = tuple(claim_of(index=n, input_tokens=row[0], output_tokens=row[2]) for n, row in enumerate(rows))
    for figure in compute(Evidence(profile=None, requests=requests, usage=usage)):
        assert (figure.value is None) == (figure.reason is not None)
        assert figure.value is None or 0 <= figure.value < float("inf")
