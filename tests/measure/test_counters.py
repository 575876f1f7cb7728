"""Hostile and real metrics pages: a number that comes out is the right one, whatever else does not."""

from __future__ import annotations

import math
import re

import prometheus_client
import prometheus_client.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine_profile import MetricSeries, MetricsPage
from bench.measure.counters import OBSERVATIONS, PageError, kept_lines, read_page
from bench.spec import REPOSITORY

RECORDINGS = REPOSITORY / "fixtures" / "recordings"


def page_of(**series: MetricSeries) -> MetricsPage:
    return MetricsPage(path="/metrics", series=series, late_seconds=0, read_seconds=5)


def counter(*names: str, unit: str = "tokens", **labels: str) -> MetricSeries:
    return MetricSeries(names=names, labels=labels, unit=unit)


LLAMA = page_of(
    computed_prompt_tokens=counter("llamacpp:prompt_tokens_total"),
    output_tokens=counter("llamacpp:tokens_predicted_total"),
    prefill_seconds=counter("llamacpp:prompt_seconds_total", unit="s"),
    decode_seconds=counter("llamacpp:tokens_predicted_seconds_total", unit="s"),
    cached_tokens=counter("llamacpp:prompt_tokens_cached_total"),
)
VLLM = page_of(
    prompt_tokens=counter("vllm:prompt_tokens_total"),
    cached_tokens=counter("vllm:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total"),
    output_tokens=counter("vllm:generation_tokens_total"),
    drafted_tokens=counter("vllm:spec_decode_num_draft_tokens_total"),
    accepted_tokens=counter("vllm:spec_decode_num_accepted_tokens_total"),
    ttft_seconds=counter("vllm:time_to_first_token_seconds_sum", unit="s"),
    decode_seconds=counter("vllm:request_decode_time_seconds_sum", unit="s"),
    finished_requests=counter("vllm:request_success_total"),
)
ONE = page_of(output_tokens=counter("x_total"))
SECONDS = page_of(decode_seconds=counter("x_total", unit="s"))


def recorded(engine: str, metrics: MetricsPage) -> tuple[dict, dict]:
    found = []
    for when in ("before", "after"):
        values, problem = read_page((RECORDINGS / engine / f"metrics-{when}.txt").read_text(), metrics)
        assert problem is None
        found.append(dict(values))
    return found[0], found[1]


def test_a_recorded_page_of_llama_server():
    before, after = recorded("llama-server-b10068", LLAMA)
    assert before == dict.fromkeys(before, 0)
    assert after == {
        "computed_prompt_tokens": 44,
        "output_tokens": 64,
        "prefill_seconds": 1.153,
        "decode_seconds": 3.632,
    }


def test_a_recorded_page_of_vllm():
    before, after = recorded("vllm-0.32.0", VLLM)
    timed = [OBSERVATIONS.format(name) for name in ("ttft_seconds", "decode_seconds")]
    assert before == dict.fromkeys([*VLLM.series, *timed], 0)
    assert after == dict.fromkeys(timed, 1) | {
        "prompt_tokens": 44,
        "cached_tokens": 0,
        "output_tokens": 64,
        "drafted_tokens": 48,
        "accepted_tokens": 48,
        "ttft_seconds": 15.188029766082764,
        "decode_seconds": 7.612147051000193,
        "finished_requests": 1,
    }


@pytest.mark.parametrize("name", ["llamacpp:prompt_tokens_seconds", "llamacpp:requests_processing"])
def test_a_gauge_is_never_read(name):
    page = (RECORDINGS / "llama-server-b10068" / "metrics-after.txt").read_text()
    values, problem = read_page(page, page_of(ttft_seconds=counter(name, unit="s")))
    assert (values, problem) == ({}, f"ttft_seconds: {name} is typed gauge, no counter")


@pytest.mark.parametrize(
    ("page", "value"),
    [
        ("x_total 5\n", 5),
        ("# HELP x_total \xb5 <html>\n#\n\n# TYPE x_total counter\nx_total 5.0 1796026943000\n", 5),
        ('# TYPE x counter\nx_total{a="b"} 2 # {trace_id="f } 1"} 0.5 1.1\nx_total{a="c"} 3\n# EOF\n', 5),
        ('x_total{a="} 9",b="\\"\\\\"} 2\r\nx_total{ a = "c" , } 3\r\n', 5),
        ("x_total 5\n# EOF", 5),
        ("x_total 5e+00\nx_created 1.796026943e+09\n", 5),
        ('x_total 5\ny_total 1,5\n{"quoted.name"} 3\nz NaN\n', 5),
        ("x_total 1234567\n", 1234567),
        ("x_total 1.23457e+06\nprocess_cpu_seconds_total 1234.5678\n", 1234570),
    ],
)
def test_forms_that_are_right(page, value):
    assert read_page(page, ONE) == ({"output_tokens": value}, None)


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("x_total 51", "cut off"),
        ("x_total 5\ny_tot", "cut off"),
        ("<!DOCTYPE html>\n<html></html>\n", "no metrics page: '<!DOCTYPE html>'"),
        ("[]\n", "no metrics page"),
        ("x_total 5\ny_tota\n", "'y_tota' is no line"),
        ('x_total{a="b} 5\n', "no metrics page"),
        ('x_total{a="b",a="c"} 5\n', "a label stands twice"),
        ("x_total 1 2 3\n", "no metrics page"),
        ("x_total 5\n# EOF\nx_total 5\n", "goes on after its end"),
        ("y_total 5\n", "none of the profile's counters"),
        ("X_TOTAL 5\n", "none of the profile's counters"),
        ("x_total NaN\n", "x_total is 'NaN', no count"),
        ("x_total +Inf\n", "no count"),
        ("x_total -1\n", "no count"),
        ("x_total 1e999\n", "no count"),
        ("x_total 9007199254740992\n", "no count"),
        ("x_total 1_0\n", "no count"),
        ("x_total 1,234\n", "no count"),
        ("x_total \u0663\n", "no count"),
        ("x_total 0x10\n", "no count"),
        ("x_total 1.5\n", "no whole number"),
        ("x_total 5\nx_total 5\n", "stands on the page twice"),
        ('x_total{a="1",b="2"} 5\nx_total{b="2",a="1"} 6\n', "stands on the page twice"),
        ("# TYPE x_total gauge\nx_total 5\n", "typed gauge"),
        ("# TYPE x gauge\nx_total 5\n", "typed gauge"),
        ("# TYPE x_total counter\n# TYPE x_total gauge\nx_total 5\n", "typed counter and gauge"),
        ("# TYPE x_total histogram\nx_total 5\n", "typed histogram"),
        ('x_total{a="1"} 5\nx_total{a="2"} NaN\n', "no count"),
        ("x_total 1.23457e+06\ny 1\n", "may round to six digits"),
    ],
)
def test_pages_that_give_nothing(page, says):
    values, problem = read_page(page, ONE)
    assert values == {}
    assert says in problem


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("x_created", "gauge", "an instant"),
        ("x_created", None, "an instant"),
        ("x_bucket", "histogram", "a bucket"),
        ("x", "summary", "typed summary"),
        ("x_sum", "gauge", "typed gauge"),
        ("x_sum", "counter", "typed counter"),
    ],
)
def test_samples_that_are_no_counters(name, kind, says):
    declared = "" if kind is None else f"# TYPE x {kind}\n"
    values, problem = read_page(f"{declared}{name} 5\n", page_of(decode_seconds=counter(name, unit="s")))
    assert values == {}
    assert says in problem


def test_a_sum_over_the_series_whose_labels_agree():
    page = 'x_total{kind="stop",e="0"} 1\nx_total{kind="stop",e="1"} 2\nx_total{kind="abort",e="0"} 4\n'
    assert read_page(page, ONE)[0] == {"output_tokens": 7}
    assert read_page(page, page_of(output_tokens=counter("x_total", kind="stop")))[0] == {"output_tokens": 3}
    assert read_page(page, page_of(output_tokens=counter("x_total", kind="length")))[0] == {}


def test_the_first_name_that_is_there_wins_and_one_bad_counter_spoils_no_other():
    metrics = page_of(output_tokens=counter("new_total", "x_total"), cached_tokens=counter("y_total"))
    assert read_page("x_total 5\ny_total 2\n", metrics) == ({"output_tokens": 5, "cached_tokens": 2}, None)
    assert read_page("new_total 6\nx_total 5\n", metrics)[0] == {"output_tokens": 6}
    values, problem = read_page("x_total 5\ny_total NaN\n", metrics)
    assert values == {"output_tokens": 5}
    assert problem == "cached_tokens: y_total is 'NaN', no count"


@pytest.mark.parametrize(("unit", "value"), [("s", 1234.5), ("ms", 1.2345), ("us", 0.0012345), ("ns", 1.2345e-6)])
def test_units_become_seconds(unit, value):
    values, _ = read_page("x_total 1234.5\n", page_of(decode_seconds=counter("x_total", unit=unit)))
    assert values["decode_seconds"] == pytest.approx(value, rel=1e-12)


def test_a_hostile_page_takes_no_longer_than_its_length():
    line = "x_total{" + " " * 200_000 + 'a="' + '\\"' * 200_000 + "\n"
    assert "no metrics page" in read_page(line + "x_total 5\n", ONE)[1]
    assert "no metrics page" in read_page("x_total" + " \t" * 200_000 + "5 " + "1" * 200_000 + " #\n", ONE)[1]
    assert read_page("y{" + 'a1="",' * 50_000 + "} 1\nx_total 5\n", ONE)[0] == {"output_tokens": 5}


def test_our_reader_and_prometheus_client_agree_on_the_recorded_pages():
    for engine, metrics in (("llama-server-b10068", LLAMA), ("vllm-0.32.0", VLLM)):
        page = (RECORDINGS / engine / "metrics-after.txt").read_text()
        totals: dict[str, float] = {}
        for family in prometheus_client.parser.text_string_to_metric_families(page):
            for sample in family.samples:
                totals[sample.name] = totals.get(sample.name, 0) + sample.value
        values = dict(read_page(page, metrics)[0])
        for quantity, series in metrics.series.items():
            value = values.pop(quantity, None)
            assert value is None or value in [totals[name] for name in series.names if name in totals]
        assert all(value == 1 for value in values.values())  # one observation of each time


LABEL_VALUES = st.text(max_size=8)


@given(
    st.dictionaries(st.tuples(LABEL_VALUES, LABEL_VALUES), st.integers(0, 2**40), min_size=1, max_size=6),
    st.floats(0, 1e9, allow_nan=False),
    st.sampled_from([0, 1]),
)
def test_what_prometheus_client_writes_is_read_exactly(children, seconds, other):
    registry = prometheus_client.CollectorRegistry()
    tokens = prometheus_client.Counter("x", "tokens\nand \\ more", ["a", "b"], registry=registry)
    histogram = prometheus_client.Histogram("t", "", registry=registry)
    prometheus_client.Gauge("g", "", registry=registry).set(1234.5678 + other)
    for labels, count in children.items():
        tokens.labels(*labels).inc(count)
    histogram.observe(seconds)
    metrics = page_of(output_tokens=counter("x_total"), decode_seconds=counter("t_sum", unit="s"))
    page = prometheus_client.generate_latest(registry).decode()
    values = {"output_tokens": sum(children.values()), "decode_seconds": seconds}
    assert read_page(page, metrics) == ({**values, OBSERVATIONS.format("decode_seconds"): 1}, None)
    one = next(iter(children))
    only = page_of(output_tokens=counter("x_total", a=one[0], b=one[1]))
    assert read_page(page, only)[0] == {"output_tokens": children[one]}


SCRAPS = st.sampled_from(
    [
        *(
            "x_total",
            "y",
            "{",
            "}",
            'a="b"',
            ",",
            " ",
            "\t",
            "5",
            "1.5",
            "e+06",
            "NaN",
            "#",
            "# TYPE x_total ",
            "counter",
        ),
        *("gauge", "# EOF", "\n", "\r", "\0", "\u2028", "\ufeff", '"', "\\", "-", "1234567"),
    ]
)


@given(st.lists(SCRAPS, max_size=30).map("".join) | st.text(max_size=40), st.sampled_from([ONE, SECONDS]))
def test_any_text_gives_a_sound_number_or_a_reason(text, metrics):
    values, problem = read_page(text, metrics)
    assert values or problem
    for value in values.values():
        assert math.isfinite(value)
        assert 0 <= value < 2**53
        assert re.search(r"x_total(\{.*\})?[ \t]+[+.]*[0-9]", text)


@given(st.lists(SCRAPS, max_size=30).map("".join))
def test_the_kept_lines_alone_read_the_same(text):
    metrics = page_of(output_tokens=counter("x_total"), decode_seconds=counter("y", unit="s"))
    values, problem = read_page(text, metrics)
    try:
        kept = kept_lines(text, metrics)
    except PageError as error:
        reason = str(error)
    else:
        assert read_page("".join(f"{line}\n" for line in kept), metrics) == (values, problem)
        return
    assert (values, problem) == ({}, reason)


@pytest.mark.parametrize(("engine", "metrics"), [("llama-server-b10068", LLAMA), ("vllm-0.32.0", VLLM)])
@given(data=st.data())
def test_a_page_cut_anywhere_gives_no_wrong_number(engine, metrics, data):
    page = (RECORDINGS / engine / "metrics-after.txt").read_text()
    whole = read_page(page, metrics)[0]
    at = data.draw(st.integers(0, len(page) - 1))
    values = read_page(page[:at], metrics)[0]
    if not page[:at].endswith("\n"):
        assert values == {}
    # A cut between two lines cannot be seen on the page; a sum may lack series then, which the counts give away.
    assert all(value <= whole[name] for name, value in values.items())
