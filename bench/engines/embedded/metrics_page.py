"""`GET /metrics`: counters and gauges as Prometheus text. Counters are sums over the truth of ended requests."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from bench.engines.embedded.state_memory import MemoryUse
from bench.engines.embedded.truth_log import TruthLine

PREFIX = "runcard_embedded"

_TOKENS = {
    "prompt_tokens_total": ("prompt_tokens", "Prompt tokens, cached ones included."),
    "prompt_tokens_cached_total": ("cached_tokens", "Prompt tokens taken from the prefix cache."),
    "output_tokens_total": ("output_tokens", "Generated tokens, reasoning included."),
    "drafted_tokens_total": ("drafted_tokens", "Tokens that drafts proposed."),
    "accepted_tokens_total": ("accepted_tokens", "Drafted tokens that were accepted."),
}
_SECONDS = {
    "prefill_seconds_total": ("prefill_seconds", "Computing the uncached part of prompts."),
    "decode_seconds_total": ("decode_seconds", "From the first output token to the last."),
    "ttft_seconds_total": ("ttft_seconds", "To the first output token: cache restore and prefill, no queueing."),
    "queue_seconds_total": ("queue_seconds", "Waiting for a free slot."),
}
_REASONS = ("stop", "length", "tool_calls", "abort", "error")
_REFUSALS = ("bad_request", "context", "memory", "scripted")


class Metrics:
    """Refused requests add to nothing but their own counter; one that failed in its answer has ended. Threads: safe."""

    def __init__(self) -> None:
        self._tokens = dict.fromkeys(_TOKENS, 0)
        self._microseconds = dict.fromkeys(_SECONDS, 0)
        self._finished = dict.fromkeys(_REASONS, 0)
        self._refused = dict.fromkeys(_REFUSALS, 0)
        self._lock = Lock()

    def add(self, line: TruthLine) -> None:
        with self._lock:
            if line.error is not None and line.output_tokens is None:
                kinds = {"context_length_exceeded": "context", "insufficient_memory": "memory"}
                kind = "scripted" if line.fault == "refuse" else kinds.get(line.error["code"], "bad_request")
                self._refused[kind] += 1
                return
            for name, (field, _) in _TOKENS.items():
                self._tokens[name] += getattr(line, field) or 0
            for name, (field, _) in _SECONDS.items():
                self._microseconds[name] += round((getattr(line, field) or 0.0) * 1e6)
            ended = "error" if line.error is not None else "abort" if line.aborted else line.finish_reason
            self._finished[ended or "stop"] += 1

    def page(self, *, running: int, waiting: int, memory: MemoryUse) -> str:
        """All counters of one instant, in the text format 0.0.4."""
        with self._lock:
            lines = [*self._counters()]
        lines += _family("requests_running", "gauge", "Requests that are computed now.", {"": running})
        lines += _family("requests_waiting", "gauge", "Requests that wait for a slot.", {"": waiting})
        tiers = {'{tier="ram"}': memory.ram_cache_bytes, '{tier="ssd"}': memory.ssd_cache_bytes}
        lines += _family("cache_bytes", "gauge", "State kept in the prefix cache.", tiers)
        lines += _family(
            "reserved_bytes", "gauge", "State that running requests hold beside the cache.", {"": memory.reserved_bytes}
        )
        return "\n".join(lines) + "\n"

    def _counters(self) -> Iterator[str]:
        for name, (_, text) in _TOKENS.items():
            yield from _family(name, "counter", text, {"": self._tokens[name]})
        for name, (_, text) in _SECONDS.items():
            yield from _family(name, "counter", text, {"": self._microseconds[name] / 1e6})
        finished = {f'{{reason="{reason}"}}': count for reason, count in self._finished.items()}
        yield from _family("requests_finished_total", "counter", "Ended requests, aborted ones included.", finished)
        refused = {f'{{reason="{reason}"}}': count for reason, count in self._refused.items()}
        yield from _family("requests_refused_total", "counter", "Requests answered with an error.", refused)


def _family(name: str, kind: str, text: str, values: dict[str, int] | dict[str, int | float]) -> Iterator[str]:
    yield f"# HELP {PREFIX}:{name} {text}"
    yield f"# TYPE {PREFIX}:{name} {kind}"
    for labels, value in values.items():
        yield f"{PREFIX}:{name}{labels} {value}"
