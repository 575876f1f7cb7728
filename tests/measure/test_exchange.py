"""Evidence lines give back every byte; records of them hold no wrong number."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.contracts import SessionLabel
from bench.engine_profile import ResponseField
from bench.errors import EvidenceError
from bench.measure.exchange import read_exchanges, request_record
from bench.measure.exchange_line import Exchange, decode_line, encode_line, shared_length

CHAT = "/v1/chat/completions"


def exchange(**changes) -> Exchange:
    plain = {
        "label": SessionLabel(run_id="r", session=3, role="builder", task=None, attempt=1, retry=0),
        "index": 0,
        "engine_process": 1,
        "method": "POST",
        "path": CHAT,
        "status": 200,
        "streamed": True,
        "started_at": 1e9,
        "sent_at": 100.0,
        "first_byte_at": 100.5,
        "ended_at": 110.0,
        "fault": None,
        "request": b"",
        "response": b"",
        "response_bytes": 0,
        "redacted": False,
        "arrivals": (),
    }
    return Exchange(**{**plain, **changes})


def stream(*values) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values) + b"data: [DONE]\n\n"


def finish(**more):
    return {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **more}


def token(**more):
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}], **more}


USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}}
TIMINGS = {"prompt_n": 40, "prompt_ms": 2000.0, "predicted_ms": 500.0, "draft_n": 8, "draft_n_accepted": 5}


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=200),
            st.binary(max_size=200),
            st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**9)), max_size=6),
        ),
        max_size=5,
    )
)
def test_lines_give_back_every_byte(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("lines") / "exchanges.jsonl"
    written, before = [], b""
    with path.open("wb") as file:
        for index, (added, response, arrivals) in enumerate(parts):
            request = before[: len(before) // 2] + added
            at = tuple((offset, 100.0 + late / 1e6) for offset, late in sorted(arrivals))
            one = exchange(index=index, request=request, response=response, arrivals=at)
            file.write(encode_line(one, before=before))
            before = request
            written.append(one)
    assert read_exchanges(path, warn=pytest.fail) == tuple(written)


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_shared_length(start, one, other):
    shared = shared_length(start + one, start + other)
    assert shared >= len(start)
    assert (start + one)[:shared] == (start + other)[:shared]
    assert (start + one)[shared : shared + 1] != (start + other)[shared : shared + 1] or shared == min(
        len(start + one), len(start + other)
    )


def test_a_resent_history_is_kept_once(tmp_path):
    history = bytes(range(256)) * 400
    first = encode_line(exchange(request=history), before=b"")
    second = encode_line(exchange(request=history + b"more"), before=history)
    assert len(second) < 1000 < len(first)


def test_a_request_is_kept_as_what_stands_between_what_is_known(tmp_path):
    """Agents write their tools behind the history: both ends repeat."""
    tools = bytes(range(256)) * 400
    before, request = b"one" + tools, b"one, two" + tools
    line = encode_line(exchange(request=request), before=before)
    assert len(line) < 1000
    assert decode_line(line, before=before).request == request
    for wrong in ([4, len(tools)], [-1, len(tools)], [0, len(before) + 1]):
        damaged = json.dumps({**json.loads(line), "request_shared": wrong}).encode()
        with pytest.raises(ValueError, match="shares with"):
            decode_line(damaged, before=before)


def test_the_older_format_is_still_read_and_a_newer_one_refused():
    def packed(data):
        return base64.b64encode(zlib.compress(data)).decode()

    one = exchange(request=b"abcd", response=b"answer", response_bytes=6, arrivals=((3, 100.000001), (6, 100.000003)))
    line = json.loads(encode_line(one, before=b""))
    for name in ("packed", "parts"):
        del line[name]
    parts = {"arrivals": packed(b"[3,1,3,2]"), "request_rest": packed(b"cd"), "response": packed(b"answer")}
    older = {**line, "format": 1, "request_shared": 2, **parts}
    assert decode_line(json.dumps(older).encode(), before=b"abx") == one
    with pytest.raises(ValueError, match="not a line of format 1 or 2"):
        decode_line(json.dumps({**line, "format": 3}).encode(), before=b"")


def test_torn_and_damaged_lines(tmp_path):
    path = tmp_path / "exchanges.jsonl"
    assert read_exchanges(path, warn=pytest.fail) == ()
    lines = [encode_line(exchange(request=b"abc"), before=b""), encode_line(exchange(request=b"abd"), before=b"abc")]
    path.write_bytes(lines[0] + lines[1][:-20])
    said: list[str] = []
    assert len(read_exchanges(path, warn=said.append)) == 1
    assert "line 2 is torn" in said[0]
    for damaged in (lines[0][:-20] + b"\n" + lines[1], lines[1] + lines[0], b"[]\n", b'{"format":1}\n', b"\xff\n"):
        path.write_bytes(damaged)
        with pytest.raises(EvidenceError, match="line 1 is damaged"):
            read_exchanges(path, warn=pytest.fail)


def test_a_line_that_unpacks_to_a_giant_is_refused():
    line = json.loads(encode_line(exchange(), before=b""))
    line["packed"] = base64.b64encode(zlib.compress(bytes(200_000_000))).decode()
    with pytest.raises(ValueError, match="too long"):
        decode_line(json.dumps(line).encode(), before=b"")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_WHOLE = json.loads(encode_line(exchange(request=b"abc", response=b"{}", arrivals=((1, 101.0),)), before=b""))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.dictionaries(st.sampled_from([*_WHOLE, *_WHOLE["label"]]), _JSON)
    | st.dictionaries(st.sampled_from([*_WHOLE]), _JSON, max_size=1).map(lambda forged: {**_WHOLE, **forged})
    | st.dictionaries(st.sampled_from([*_WHOLE["label"]]), _JSON, min_size=1, max_size=1).map(
        lambda forged: {**_WHOLE, "label": {**_WHOLE["label"], **forged}}
    )
    | _JSON
)
def test_whatever_a_line_holds_it_is_an_exchange_or_damaged(profile, data):
    try:
        one = decode_line(json.dumps(data).encode(), before=b"")
    except (ValueError, KeyError):
        return
    assert type(one.index) is int
    assert isinstance(one.ended_at - one.sent_at, int | float)
    assert request_record(one, profile).index == one.index


@pytest.mark.parametrize(
    ("name", "value"),
    [("index", {"a": 1}), ("ended_at", "1"), ("ended_at", float("inf")), ("status", "200"), ("streamed", 1)],
)
def test_a_value_of_another_type_is_damage(tmp_path, name, value):
    path = tmp_path / "exchanges.jsonl"
    path.write_text(json.dumps({**_WHOLE, name: value}) + "\n")
    with pytest.raises(EvidenceError, match=f"line 1 is damaged \\({name} is "):
        read_exchanges(path, warn=pytest.fail)


def test_all_counts_and_timings(profile):
    record = request_record(
        exchange(response=stream(token(), finish(), {"choices": [], "usage": USAGE, "timings": TIMINGS})), profile
    )
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens, record.reasoning_tokens) == (
        100,
        60,
        10,
        None,
    )
    assert (record.ttft_seconds, record.prefill_seconds, record.decode_seconds) == (2.0, 2.0, 0.5)
    assert (record.drafted_tokens, record.accepted_tokens, record.source) == (8, 5, "engine-response")
    assert (record.reason, record.error) == (None, None)


def test_the_last_timings_count_and_no_field_comes_from_earlier_ones(profile):
    garbage = {"prompt_n": 40, "prompt_ms": 0.5, "predicted_ms": 0.001, "draft_n": 1, "draft_n_accepted": 1}
    last = {key: TIMINGS[key] for key in ("prompt_n", "prompt_ms", "predicted_ms")}
    response = stream(token(timings=garbage), finish(), {"choices": [], "usage": USAGE, "timings": last})
    record = request_record(exchange(response=response), profile)
    assert (record.ttft_seconds, record.decode_seconds) == (2.0, 0.5)
    assert (record.drafted_tokens, record.accepted_tokens) == (None, None)
    assert "drafted_tokens: the answer has no timings.draft_n" in record.reason


def test_timings_and_usage_from_before_the_end_are_not_taken(profile):
    record = request_record(exchange(response=stream(token(usage=USAGE, timings=TIMINGS), finish())), profile)
    assert (record.ttft_seconds, record.decode_seconds, record.output_tokens, record.source) == (None, None, None, None)
    assert record.prompt_tokens == 100
    assert "ttft_seconds: timings came only before the answer's end" in record.reason
    assert "output_tokens: the last usage came before the answer's end" in record.reason


def test_usage_that_was_never_reported_is_none_not_zero(profile):
    record = request_record(exchange(response=stream(token(), finish(timings=TIMINGS))), profile)
    counts = (record.prompt_tokens, record.cached_tokens, record.output_tokens, record.reasoning_tokens)
    assert counts == (None, None, None, None)
    assert record.decode_seconds == 0.5
    assert "usage: the answer reports none" in record.reason


@pytest.mark.parametrize(
    ("usage", "timings", "field", "reason"),
    [
        ({"prompt_tokens": -1}, {}, "prompt_tokens", "prompt_tokens: -1 is no count of tokens"),
        ({"prompt_tokens": "7"}, {}, "prompt_tokens", "prompt_tokens: '7' is no count"),
        ({"prompt_tokens": True}, {}, "prompt_tokens", "prompt_tokens: True is no count"),
        ({"completion_tokens": 1.5}, {}, "output_tokens", "output_tokens: 1.5 is no count"),
        ({"completion_tokens": float("nan")}, {}, "output_tokens", "output_tokens: nan is no count"),
        ({"completion_tokens": 10**30}, {}, "output_tokens", "is no count of tokens"),
        ({"prompt_tokens_details": {"cached_tokens": 101}}, {}, "cached_tokens", "101 is more than the whole, 100"),
        ({"prompt_tokens_details": {"cached_tokens": 61}}, {}, "cached_tokens", "61 cached and 40 computed are not"),
        ({"completion_tokens_details": {"reasoning_tokens": 11}}, {}, "reasoning_tokens", "11 is more than the whole"),
        ({}, {"prompt_ms": -0.1}, "ttft_seconds", "ttft_seconds: -0.1 ms is no duration"),
        ({}, {"prompt_ms": float("inf")}, "prefill_seconds", "prefill_seconds: inf ms is no duration"),
        ({}, {"prompt_ms": 11_000}, "ttft_seconds", "11.000 s is longer than the whole exchange (10.000 s)"),
        ({}, {"predicted_ms": None}, "decode_seconds", "decode_seconds: the answer has no timings.predicted_ms"),
        ({}, {"predicted_ms": 0}, "decode_seconds", "decode_seconds: 10 tokens in 0 s cannot be"),
        ({}, {"predicted_ms": 0.001}, "decode_seconds", "decode_seconds: 10 tokens in 1e-06 s cannot be"),
        ({}, {"draft_n_accepted": 9}, "drafted_tokens", "accepted_tokens: 9 is more than the whole, 8"),
    ],
)
def test_what_cannot_be_is_none_with_its_reason(profile, usage, timings, field, reason):
    last = {"choices": [], "usage": {**USAGE, **usage}, "timings": {**TIMINGS, **timings}}
    record = request_record(exchange(response=stream(token(), finish(), last)), profile)
    assert getattr(record, field) is None
    assert reason in record.reason


def test_simulated_time_may_be_longer_than_the_exchange(profile):
    last = {"choices": [], "usage": USAGE, "timings": {**TIMINGS, "prompt_ms": 50_000}}
    record = request_record(exchange(response=stream(token(), finish(), last)), replace(profile, simulated=True))
    assert record.ttft_seconds == 50.0


def test_cached_tokens_stand_where_the_profile_says_if_not_where_openai_has_them(profile):
    place = ResponseField(path="usage.hits", unit="tokens")
    elsewhere = replace(profile, response_fields={"cached_tokens": place})
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "hits": 60}
    assert request_record(exchange(response=stream(token(), finish(usage=usage))), elsewhere).cached_tokens == 60
    both = {**usage, "prompt_tokens_details": {"cached_tokens": 8}}
    assert request_record(exchange(response=stream(token(), finish(usage=both))), elsewhere).cached_tokens == 8


def test_cached_tokens_from_what_was_computed(profile):
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": None}
    response = stream(token(), finish(), {"choices": [], "usage": usage, "timings": TIMINGS})
    assert request_record(exchange(response=response), profile).cached_tokens == 60


def test_what_the_profile_says_is_unavailable(profile):
    told = replace(profile, response_fields={}, unavailable={"ttft_seconds": "this server has no clock"})
    record = request_record(exchange(response=stream(token(), finish())), told)
    assert "ttft_seconds: this server has no clock" in record.reason


@pytest.mark.parametrize(
    ("path", "usage", "counts"),
    [
        (
            "/v1/responses",
            {
                "input_tokens": 9,
                "output_tokens": 4,
                "input_tokens_details": {"cached_tokens": 5},
                "output_tokens_details": {"reasoning_tokens": 2},
            },
            (9, 5, 4, 2),
        ),
        ("/v1/messages", {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 4}, (9, 5, 4, None)),
        (CHAT, {"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 5}, (9, 5, 4, None)),
        (CHAT, {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": None}, (9, None, 4, None)),
    ],
)
def test_forms_of_usage(profile, path, usage, counts):
    body = {"id": "x", "object": "response", "status": "completed", "usage": usage}
    if path != "/v1/responses":
        body = {"id": "x", "type": "message", "stop_reason": "end_turn", "usage": usage}
    if path == CHAT:
        body = {"id": "x", "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": usage}
    one = exchange(path=path, streamed=False, response=json.dumps(body).encode())
    record = request_record(one, replace(profile, response_fields={}))
    assert record.error is None
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens, record.reasoning_tokens) == counts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    usage=st.dictionaries(
        st.sampled_from(["prompt_tokens", "completion_tokens", "cached_tokens"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    ),
    timings=st.dictionaries(
        st.sampled_from(["prompt_n", "prompt_ms", "predicted_ms", "draft_n", "draft_n_accepted"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    ),
)
def test_no_report_gives_an_impossible_record(profile, usage, timings):
    record = request_record(
        exchange(response=stream(token(), finish(), {"choices": [], "usage": usage, "timings": timings})), profile
    )
    for name in ("prompt_tokens", "cached_tokens", "output_tokens", "drafted_tokens", "accepted_tokens"):
        value = getattr(record, name)
        assert value is None or (type(value) is int and 0 <= value <= 10**8)
    for name in ("ttft_seconds", "prefill_seconds", "decode_seconds"):
        value = getattr(record, name)
        assert value is None or 0 <= value <= 10.2
    assert None in (record.cached_tokens, record.prompt_tokens) or record.cached_tokens <= record.prompt_tokens
    assert (record.drafted_tokens is None) == (record.accepted_tokens is None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (stream(token(), finish(usage=USAGE)), None),
        (stream(token()).replace(b'"a"', b'"\xff"') + stream(finish(usage=USAGE)), "is no UTF-8"),
        (b"data: {no json\n\n" + stream(token(), finish(usage=USAGE)), "not JSON"),
    ],
    ids=["whole", "no UTF-8", "no JSON"],
)
def test_an_answer_that_is_damaged_says_so_whatever_could_be_read_of_it(profile, body, said):
    record = request_record(exchange(response=body, response_bytes=len(body)), profile)
    assert record.error is None
    assert record.output_tokens == 10
    damage = (record.reason or "").partition("the answer is damaged: ")[2]
    assert (damage == "") if said is None else (said in damage)


def test_an_answer_without_a_token_has_no_time_to_its_first(profile):
    usage = {**USAGE, "completion_tokens": 0}
    body = stream(finish(usage=usage, timings=TIMINGS))
    record = request_record(exchange(response=body, response_bytes=len(body)), profile)
    assert (record.error, record.output_tokens, record.ttft_seconds, record.decode_seconds) == (None, 0, None, None)
    assert "no token was generated" in record.reason
