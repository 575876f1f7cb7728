"""Which of the numbers that an engine reports can be believed? The others are None, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.engine_profile import EngineProfile, ResponseField
from bench.measure.stream import AnswerReader

MOST_TOKENS = 100_000_000
"""Above this a count is no count of one request."""

MOST_TOKENS_A_SECOND = 1_000_000
"""Faster than this no request is decoded; engines do report such times for answers of which they timed nothing."""

MOST_SECONDS = 604_800.0
_SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_ROUNDING_SECONDS = 0.05
_TIMINGS = (
    "ttft_seconds",
    "prefill_seconds",
    "decode_seconds",
    "drafted_tokens",
    "accepted_tokens",
    "queue_seconds",
    "computed_prompt_tokens",
)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Token counts of one answer in one meaning: `prompt` includes `cached`, `output` includes `reasoning`."""

    prompt: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Timings:
    """The engine's own figures of one answer. Seconds and tokens."""

    ttft: float | None = None
    prefill: float | None = None
    decode: float | None = None
    queue: float | None = None
    drafted: int | None = None
    accepted: int | None = None
    computed_prompt: int | None = None
    reasons: tuple[str, ...] = ()


@dataclass
class _Doubts:
    """Collects why values are None."""

    reasons: list[str] = field(default_factory=list)

    def count(self, name: str, value: object) -> int | None:
        if value is None:
            return None
        number = _number(value)
        if number is None or not 0 <= number <= MOST_TOKENS or number != int(number):
            self.reasons.append(f"{name}: {_shown(value)} is no count of tokens")
            return None
        return int(number)

    def seconds(self, name: str, value: object, unit: str, ceiling: float | None) -> float | None:
        number = _number(value)
        seconds = None if number is None else number * _SCALES[unit]
        if seconds is None or not 0 <= seconds <= MOST_SECONDS:
            self.reasons.append(f"{name}: {_shown(value)} {unit} is no duration")
            return None
        if ceiling is not None and seconds > ceiling * 1.01 + _ROUNDING_SECONDS:
            self.reasons.append(f"{name}: {seconds:.3f} s is longer than the whole exchange ({ceiling:.3f} s)")
            return None
        return seconds

    def at_most(self, name: str, value: int | None, whole: int | None) -> int | None:
        if value is not None and whole is not None and value > whole:
            self.reasons.append(f"{name}: {value} is more than the whole, {whole}")
            return None
        return value


def read_counts(
    answer: AnswerReader, path: str, *, whole: bool, computed: int | None, cached_place: ResponseField | None = None
) -> Counts:
    """Counts from the last usage of an answer.

    `cached_place`: where cached tokens stand if not where OpenAI has them. `computed` is how many prompt tokens the engine says it really computed: it stands in for a missing cached count
    and must agree with a reported one. Of an answer that is not `whole` the output is not known: usage that came on
    the way counts less than was generated.
    """
    usage = answer.usage
    if usage is None:
        return Counts(reasons=("usage: the answer reports none",) if whole else ())
    doubts = _Doubts()
    prompt, cached, output, reasoning = _raw_counts(usage, path, doubts)
    if answer.finished_at_object is None or (answer.usage_at_object or 0) < answer.finished_at_object:
        output = reasoning = None
        doubts.reasons.append("output_tokens: the last usage came before the answer's end")
    if cached is None and whole and cached_place is not None:
        cached = doubts.count("cached_tokens", _last_value(answer, cached_place)[0])
    cached = doubts.at_most("cached_tokens", cached, prompt)
    reasoning = doubts.at_most("reasoning_tokens", reasoning, output)
    if computed is not None and prompt is not None and computed <= prompt:
        if cached is None and not any(reason.startswith("cached_tokens") for reason in doubts.reasons):
            cached = prompt - computed
        elif cached is not None and cached + computed != prompt:
            doubts.reasons.append(
                f"cached_tokens: {cached} cached and {computed} computed are not the prompt's {prompt}"
            )
            cached = None
    return Counts(prompt=prompt, cached=cached, output=output, reasoning=reasoning, reasons=tuple(doubts.reasons))


_NO_FIELD = "the profile names no field of the answer for it, and a request's times all have one source"


def read_timings(
    answer: AnswerReader, profile: EngineProfile, *, whole: bool, ceiling_seconds: float | None
) -> Timings:
    """The figures that `profile.response_fields` names, each from the last JSON object that carries its first key.

    Never from an earlier object: engines report intermediate timings that are far off. An object from before the
    answer's end is not taken either. `ceiling_seconds`: how long the whole exchange took; None for simulated time.
    """
    if not whole:
        return Timings(reasons=("timings: the answer is not whole",))
    doubts = _Doubts()
    found: dict[str, float | int | None] = {}
    for name in _TIMINGS:
        place = profile.response_fields.get(name)
        value, reason = (None, _NO_FIELD) if place is None else _last_value(answer, place)
        if reason is not None or place is None:
            found[name] = None
            if name not in ("computed_prompt_tokens", "queue_seconds"):
                doubts.reasons.append(f"{name}: {profile.unavailable.get(name, reason)}")
        elif place.unit == "tokens":
            found[name] = doubts.count(name, value)
        else:
            found[name] = doubts.seconds(name, value, place.unit, ceiling_seconds)
    drafted, accepted = _whole(found, "drafted_tokens"), _whole(found, "accepted_tokens")
    believed = doubts.at_most("accepted_tokens", accepted, drafted)
    if believed is None or drafted is None:
        drafted = believed = None
    return Timings(
        ttft=found.get("ttft_seconds"),
        prefill=found.get("prefill_seconds"),
        decode=found.get("decode_seconds"),
        queue=found.get("queue_seconds"),
        drafted=drafted,
        accepted=believed,
        computed_prompt=_whole(found, "computed_prompt_tokens"),
        reasons=tuple(doubts.reasons),
    )


def impossible(
    ttft: float | None, decode: float | None, *, first_token: float | None, ceiling: float | None
) -> dict[str, str]:
    """Which of two times cannot be beside the relay's clock, and why; nothing where `ceiling` is None: simulated time.

    `first_token`: after how many seconds the relay had the first token; None where it was not streamed.
    """
    if ceiling is None or ttft is None:
        return {}
    if ttft == 0:
        return {"ttft_seconds": "0 s cannot be"}
    if first_token is not None and ttft > first_token * 1.01 + _ROUNDING_SECONDS:
        return {"ttft_seconds": f"{ttft:.3f} s, but the first token was here after {first_token:.3f} s"}
    if decode is not None and ttft + decode > ceiling * 1.01 + _ROUNDING_SECONDS:
        said = f"{ttft:.3f} s to the first token and {decode:.3f} s of decoding are longer than the whole exchange"
        return dict.fromkeys(("ttft_seconds", "decode_seconds"), f"{said} ({ceiling:.3f} s)")
    return {}


def _raw_counts(
    usage: Mapping[str, Any], path: str, doubts: _Doubts
) -> tuple[int | None, int | None, int | None, int | None]:
    """Prompt, cached, output and reasoning in the one meaning, from the three forms of usage."""
    if path == "/v1/messages":
        fresh = doubts.count("input_tokens", usage.get("input_tokens"))
        cached = doubts.count("cached_tokens", usage.get("cache_read_input_tokens"))
        written = doubts.count("cache_creation_input_tokens", usage.get("cache_creation_input_tokens"))
        # Here the input excludes what was cached, and an absent count means that the engine has no such cache.
        prompt = None if fresh is None else fresh + (cached or 0) + (written or 0)
        return prompt, cached, doubts.count("output_tokens", usage.get("output_tokens")), None
    names = ("input_tokens", "output_tokens") if path == "/v1/responses" else ("prompt_tokens", "completion_tokens")
    details = ("input_tokens_details", "output_tokens_details")
    if path != "/v1/responses":
        details = ("prompt_tokens_details", "completion_tokens_details")
    of_prompt, of_output = _mapping(usage.get(details[0])), _mapping(usage.get(details[1]))
    return (
        doubts.count("prompt_tokens", usage.get(names[0])),
        doubts.count("cached_tokens", of_prompt.get("cached_tokens", usage.get("cached_tokens"))),
        doubts.count("output_tokens", usage.get(names[1])),
        doubts.count("reasoning_tokens", of_output.get("reasoning_tokens")),
    )


def _last_value(answer: AnswerReader, place: ResponseField) -> tuple[object, str | None]:
    """The value at a dotted path, or why there is none."""
    first, *rest = place.path.split(".")
    number, value = answer.values.get(first, (0, None))
    if value is not None and number < (answer.finished_at_object or 0):
        return None, f"{first} came only before the answer's end"
    for key in rest:
        value = value.get(key) if isinstance(value, dict) else None
    return value, None if value is not None else f"the answer has no {place.path}"


def _number(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if abs(value) < 1e18 else None


def _whole(found: Mapping[str, float | int | None], name: str) -> int | None:
    value = found.get(name)
    return None if value is None else int(value)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(value: object) -> str:
    return repr(value)[:40]
