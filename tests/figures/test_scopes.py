"""Parts of a run: the same formulas on fewer requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures.compute import compute
from bench.figures.definitions import DEFINITIONS
from bench.figures.run_evidence import Evidence
from bench.figures.scopes import PROMPT_CLASSES, SCOPES, narrowed, prompt_class, scopes_of

SCOPED = [one.id for one in DEFINITIONS if one.scopes]


def parted(profile, segment_of, requests):
    """Figures of parts: (id, scope) -> figure."""
    evidence = Evidence(profile=profile, segments=(segment_of(1, 0.0, 9.0),), requests=tuple(requests))
    return {(one.id, one.scope): one for one in compute(evidence) if one.scope is not None}


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        (0, "<2k"),
        (2_047, "<2k"),
        (2_048, "2k-8k"),
        (8_191, "2k-8k"),
        (8_192, "8k-32k"),
        (32_768, "32k-128k"),
        (113_626, "32k-128k"),
        (131_071, "32k-128k"),
        (131_072, "128k+"),
        (10**7, "128k+"),
    ],
)
def test_a_length_on_the_border_belongs_to_the_longer_class(tokens, name):
    assert prompt_class(tokens) == name


def test_every_part_has_the_formulas_of_the_whole(profile, segment_of, request_of):
    requests = [
        request_of(role="builder", prompt_tokens=1_000, cached_tokens=0, output_tokens=100, decode_seconds=2.0),
        request_of(
            index=1, role="builder", prompt_tokens=3_000, cached_tokens=1_500, output_tokens=300, decode_seconds=2.0
        ),
        request_of(
            session=2, role="reviewer", prompt_tokens=9_000, cached_tokens=8_000, ttft_seconds=0.5, drafted_tokens=4
        ),
        request_of(session=2, index=1, role="reviewer", error="HTTP 500"),
    ]
    found = parted(profile, segment_of, requests)
    assert found["decode_tps", "role:builder"].value == 100.0
    assert found["decode_tps", "prompt:<2k"].value == 50.0
    assert found["decode_tps", "prompt:2k-8k"].value == 150.0
    assert found["prompt_cache_share", "role:builder"].value == 1_500 / 4_000
    assert found["max_prompt_tokens", "role:reviewer"].value == 9_000
    assert (found["served_requests", "role:reviewer"].value, found["served_requests", "role:reviewer"].n) == (1, 2)
    assert found["ttft_median", "prompt:8k-32k"].value == 0.5
    assert found["ttft_median", "role:builder"].value is None
    assert {scope for _, scope in found} == {
        *("role:builder", "role:reviewer"),
        *("prompt:<2k", "prompt:2k-8k", "prompt:8k-32k"),
    }


def test_parts_follow_the_totals_in_the_order_of_the_page(profile, segment_of, request_of):
    requests = (request_of(session=2, role="reviewer", prompt_tokens=5), request_of(role="bootstrap", prompt_tokens=5))
    figures = compute(Evidence(profile=profile, segments=(segment_of(1, 0.0, 9.0),), requests=requests))
    assert [one.scope for one in figures[: len(DEFINITIONS)]] == [None] * len(DEFINITIONS)
    assert list(dict.fromkeys(one.scope for one in figures))[1:] == ["role:bootstrap", "role:reviewer", "prompt:<2k"]
    assert [one.id for one in figures if one.scope == "role:bootstrap"] == SCOPED


def test_the_preflight_makes_no_part(profile, segment_of, request_of):
    assert parted(profile, segment_of, [request_of(session=0, role="preflight", prompt_tokens=7)]) == {}


def test_the_source_is_chosen_for_the_run_and_kept_in_its_parts(profile, segment_of, request_of):
    timed = {"output_tokens": 10, "decode_seconds": 1.0}
    requests = [
        *(request_of(index=n, **timed) for n in range(3)),
        *(request_of(session=2, index=n, role="reviewer", source="engine-counter", **timed) for n in range(2)),
    ]
    found = parted(profile, segment_of, requests)
    part = found["decode_tps", "role:reviewer"]
    assert (part.value, part.source) == (None, "engine-response")
    assert part.reason == "2 requests have numbers, but not from engine-response as most of the run's"
    assert found["decode_tps", "role:builder"].value == 10.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["builder", "reviewer", "session"]),
            st.none() | st.integers(0, 200_000),
            st.none() | st.integers(0, 2_000),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_parts_of_one_kind_sum_up_to_the_whole(request_of, rows):
    requests = tuple(
        request_of(
            session=1 + n,
            role=role,
            prompt_tokens=prompt,
            cached_tokens=None if prompt is None or cached is None else min(prompt, cached),
            error="x" if failed else None,
        )
        for n, (role, prompt, cached, failed) in enumerate(rows)
    )
    evidence = Evidence(profile=None, requests=requests)
    parts = [narrowed(evidence, scope) for scope in scopes_of(evidence)]
    by_role = [one for one, scope in zip(parts, scopes_of(evidence), strict=True) if scope.kind == "role"]
    by_prompt = [one for one, scope in zip(parts, scopes_of(evidence), strict=True) if scope.kind == "prompt"]
    assert sum(len(one.served) for one in by_role) == len(evidence.served)
    assert sum(len(one.asked) for one in by_prompt) == sum(one.prompt_tokens is not None for one in evidence.asked)
    figures = {(one.id, one.scope): one.value for one in compute(evidence)}
    switched = [value for (name, scope), value in figures.items() if name == "session_switch_fresh_tokens" and scope]
    assert sum(value or 0 for value in switched) == (figures["session_switch_fresh_tokens", None] or 0)


def test_names_of_parts_are_those_of_the_page():
    assert [scope.name for scope in SCOPES if scope.kind == "prompt"] == [
        f"prompt:{name}" for name, _ in PROMPT_CLASSES
    ]
    assert "role:final-reviewer" in [scope.name for scope in SCOPES]
    assert "role:preflight" not in [scope.name for scope in SCOPES]
