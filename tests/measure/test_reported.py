"""Times that cannot be beside the relay's clock are not believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.reported import impossible

SECONDS = st.floats(min_value=0, max_value=100, allow_nan=False)


@pytest.mark.parametrize(
    ("ttft", "decode", "first_token", "ceiling", "refused"),
    [
        (1.0, 1.0, 1.0, 2.0, set()),
        (1.0, 1.0, None, 1.0, {"ttft_seconds", "decode_seconds"}),
        (1.0, 0.1, 0.06, 2.0, {"ttft_seconds"}),
        (0.0, 0.1, 0.06, 2.0, {"ttft_seconds"}),
        (0.9, None, 1.0, 2.0, set()),
        (None, 5.0, 1.0, 2.0, set()),
        (50.0, 50.0, 0.1, None, set()),
    ],
    ids=["possible", "sum too long", "before it was there", "zero", "no decode", "no ttft", "simulated"],
)
def test_what_cannot_be(ttft, decode, first_token, ceiling, refused):
    assert set(impossible(ttft, decode, first_token=first_token, ceiling=ceiling)) == refused


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_what_an_engine_that_tells_the_truth_says_is_believed(queue, wait, decode, way_back):
    ttft = wait + 1e-6
    first = queue + ttft + way_back
    assert impossible(ttft, decode, first_token=first, ceiling=first + decode + way_back) == {}
