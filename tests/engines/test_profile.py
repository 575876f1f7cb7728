"""Profiles as files that people edit: what is wrong is said with file, line and key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engines.profile import PROFILES, TIMED, ProfileFile, list_profiles, read_profile, value_at
from bench.engines.profile_parts import quantity_of
from bench.errors import FileFormatError, UsageError
from bench.spec import REPOSITORY
from bench.yaml_file import load_model

ENGINES = (
    "embedded", "llama-server", "lm-studio", "mlx-lm", "ollama", "omlx", "sglang", "sushi", "tabbyapi",
    "tensorrt-llm", "vllm", "vllm-mlx",
)  # fmt: skip

GOOD = """\
title: Some engine
simulated: false
checked: documentation
launch:
  model: none
  programs:
    - command: some-engine
  install: get it
  argv: [--port, "{port}"]
  stop_seconds: 1
ready: {path: /health, loading: [503], seconds: 5}
response_fields:
  ttft_seconds: {path: timings.ttft_ms, unit: ms}
metrics:
  path: /metrics
  late_seconds: 0.5
  read_seconds: 2
  series:
    output_tokens: {names: [x_total]}
log_summary:
  lines:
    - 'request (?P<response_id>\\S+) took (?P<decode_ms>\\d+)'
reset: {method: POST, path: /flush}
includes:
  ttft_seconds: queueing excluded
  decode_seconds: the first token is free
unavailable:
  prefill_seconds: not told
  queue_seconds: not told
  drafted_tokens: not told
  accepted_tokens: not told
  computed_prompt_tokens: not told
"""


def problem_of(tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        load_model(path, ProfileFile)
    return caught.value


def test_every_profile_reads_and_says_something_of_every_timing():
    assert list_profiles() == ENGINES
    for name in list_profiles():
        profile = read_profile(name)
        contract = profile.contract(name)
        assert contract.name == name
        assert set(TIMED) <= profile.given | set(contract.unavailable)
        assert not profile.given & set(contract.unavailable)
        assert set(contract.includes) <= profile.given | {"cached_tokens"}


def test_only_what_was_run_here_says_so():
    by_state = {name: read_profile(name).checked for name in list_profiles()}
    assert {name for name, state in by_state.items() if state == "run here"} == {"embedded", "llama-server"}
    assert {name for name, state in by_state.items() if state == "recordings"} == {"mlx-lm", "vllm"}


def test_only_the_embedded_engine_is_simulated():
    assert [name for name in list_profiles() if read_profile(name).simulated] == ["embedded"]


def test_no_profile_reads_a_series_that_is_a_gauge():
    """Known gauges whose values belong to no request."""
    gauges = {
        "llamacpp:prompt_tokens_seconds", "llamacpp:predicted_tokens_seconds", "llamacpp:n_tokens_max",
        "sglang:cache_hit_rate", "sglang:gen_throughput", "sglang:spec_accept_length", "sglang:spec_accept_rate",
        "vllm:kv_cache_usage_perc", "vllm_mlx_cache_hit_rate", "vllm_mlx_cache_tokens_saved",
    }  # fmt: skip
    for name in list_profiles():
        page = read_profile(name).contract(name).metrics
        named = {series for one in (page.series.values() if page else ()) for series in one.names}
        assert not named & gauges


def test_an_unknown_engine_is_answered_with_those_that_exist():
    with pytest.raises(UsageError, match="unknown engine 'exllama'; there are: embedded, llama-server, lm-studio"):
        read_profile("exllama")
    assert (PROFILES / "embedded.yaml").is_file()


def test_units_and_optional_parts_have_their_defaults(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    contract = load_model(path, ProfileFile).contract("good")
    assert contract.metrics.series["output_tokens"].unit == "tokens"
    assert contract.metrics.series["output_tokens"].includes is None
    assert contract.log_summary.starts is None
    assert contract.reset.expect is None
    assert contract.checked == "documentation"


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        (
            "reset:",
            "memory_error: []\nreset:",
            23,
            "unknown key 'memory_error'; known here: apis, checked, context_errors",
        ),
        ("seconds: 5}", "seconds: 5, pause: 1}", 11, "unknown key 'ready.pause'; known here: loading, path, seconds"),
        ("  stop_seconds: 1\n", "", 4, "key 'launch.stop_seconds' is missing"),
        ("simulated: false", "simulated: 'no'", 2, "key 'simulated': expected a valid boolean, got 'no'"),
        ("checked: documentation", "checked: yes", 3, "key 'checked': expected 'run here', 'recordings' or"),
        ("seconds: 5}", "seconds: 0}", 11, "key 'ready.seconds'"),
        ("path: /health", "path: health", 11, "key 'ready.path': expected an address that begins with /"),
        ("    - command: some-engine", "    - command: a\n      module: b", 7, "needs either 'command'"),
        ('"{port}"', '"{prot}"', 9, "unknown placeholder {prot}; known: host, port"),
        ("unit: ms", "unit: hours", 13, "key 'response_fields.ttft_seconds.unit'"),
        ("unit: ms", "unit: tokens", 12, "'ttft_seconds' cannot be counted in tokens"),
        ("names: [x_total]", "names: []", 19, "key 'metrics.series.output_tokens.names'"),
        ("names: [x_total]", "names: [x], unit: ms", 14, "'output_tokens' cannot be counted in ms"),
        ("    output_tokens: {", "    output: {", 19, "output"),
        ("decode_ms", "decode_hours", 20, "unknown group 'decode_hours'; known: key, response_id, prompt_tokens"),
        ("reset:", "    - 'done'\nreset:", 20, "several lines need a group 'key' in each"),
        ("method: POST", "method: PUT", 23, "key 'reset.method': expected 'GET', 'POST' or 'DELETE', got 'PUT'"),
        (
            "  queue_seconds: not told\n",
            "",
            None,
            "'queue_seconds' must stand under 'response_fields', 'metrics.series'",
        ),
        (
            "unavailable:",
            "unavailable:\n  ttft_seconds: not told",
            None,
            "'ttft_seconds' has a source and stands under 'unav",
        ),
        ("  decode_seconds: the first token is free\n", "", None, "'includes' must say what 'decode_seconds' includes"),
        ("  ttft_seconds: {", "  tfft_seconds: {", 13, "tfft_seconds"),
        ("reset:", "memory_errors: ['(']\nreset:", 23, "not a regular expression"),
        ("reset:", "version: {path: /version}\nreset:", 23, "needs either 'path' and 'key', or 'log'"),
        ("reset:", "version: {log: version}\nreset:", 23, "'log' needs exactly one group"),
        ("simulated: false", "simulated: false\n  model: none", 3, "not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_profile_is_said_with_file_line_and_key(tmp_path, old, new, line, says):
    assert old in GOOD
    problem = problem_of(tmp_path, GOOD.replace(old, new, 1))
    assert says in problem.problem
    assert problem.line == line
    where = tmp_path / "bad.yaml"  # a rule between several keys has no line of its own and names the keys
    assert str(problem).startswith(f"{where}:{line}: " if line else f"{where}: ")


def test_the_page_on_adding_an_engine_holds_a_profile_that_reads(tmp_path):
    text = (REPOSITORY / "docs" / "adding.md").read_text(encoding="utf-8")
    section = text.partition("\n## An engine\n")[2].partition("\n## ")[0]
    example = section.partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "example.yaml").write_text(example)
    contract = load_model(tmp_path / "example.yaml", ProfileFile).contract("example")
    assert contract.metrics is not None
    assert contract.log_summary is not None
    for quantity in ("prompt_tokens", "decode_ms", "response_id", "key", "includes", "unavailable", "--engine-url"):
        assert quantity in section


def test_a_group_of_a_log_line_means_a_quantity():
    assert quantity_of("decode_ms") == quantity_of("decode_s") == quantity_of("decode_seconds") == "decode_seconds"
    assert quantity_of("output_tokens") == "output_tokens"
    assert quantity_of("key") is None


def test_a_value_is_found_at_its_dotted_key():
    models = {"data": [{"id": "a", "meta": {"n_ctx": 4096}}, {"id": "b", "meta": {"n_ctx": 8}}, 7]}
    assert value_at(models, "data.0.meta.n_ctx") == 4096
    assert value_at(models, "data.3.meta.n_ctx") is None
    assert value_at(models, "data.meta") is None
    assert value_at(models, "data.0.meta.n_ctx.more") is None
    assert value_at(models, "data.[id].meta.n_ctx", model="b") == 8
    assert value_at(models, "data.[id].meta.n_ctx", model="c") is None
    assert value_at(models, "data.[id].meta.n_ctx") is None


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(JSON, st.text(alphabet="0a1.-[]", max_size=8))
def test_no_document_and_no_key_raise(document, key):
    value_at(document, key, model="a")
