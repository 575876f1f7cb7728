"""Matches N requests in a process of its own: `python -m tests.perf.matching_load N KIND` prints seconds and peak memory."""

from __future__ import annotations

import json
import random
import resource
import sys
import time

from bench.measure.matching import match_claims_to_summaries, match_summaries
from bench.records.schema import EngineSummary, RequestRecord, UsageRecord


def summaries_of(keys):
    nothing = dict.fromkeys(EngineSummary.__dataclass_fields__)
    return [
        EngineSummary(**{**nothing, "engine_process": 1, "order": order, "line": order + 1} | counts)
        for order, counts in enumerate(keys)
    ]


def load(count: int, kind: str):
    """As many requests as `count` in sessions of 50, every twentieth key repeated, every fortieth summary another client's."""
    dice = random.Random(count)
    keys = []
    for place in range(count):
        if place % 20 == 19:
            keys.append(keys[-10])
        else:
            prompt = dice.randrange(1_000, 131_072)
            keys.append({"prompt_tokens": prompt, "cached_tokens": prompt // 2, "output_tokens": dice.randrange(4_000)})
    if kind == "crossed":  # neighbours that the relay saw in the other order, for they overlapped
        told = [keys[place ^ 1] if place % 10 < 2 else keys[place] for place in range(count - count % 2)]
    else:
        told = [key for place, key in enumerate(keys) for _ in range(2 if place % 40 == 7 else 1)]
    if kind == "claims":
        nothing = dict.fromkeys(UsageRecord.__dataclass_fields__)
        others = [
            UsageRecord(
                **nothing
                | {
                    "session": place // 50,
                    "index": place % 50,
                    "input_tokens": key["prompt_tokens"] - key["cached_tokens"],
                    "cached_tokens": key["cached_tokens"],
                    "output_tokens": key["output_tokens"],
                }
            )
            for place, key in enumerate(keys)
        ]
        return others, summaries_of(told), match_claims_to_summaries
    nothing = dict.fromkeys(RequestRecord.__dataclass_fields__)
    others = [
        RequestRecord(
            **nothing
            | {
                "session": 1 + place // 50,
                "index": place % 50,
                "engine_process": 1,
                "sent_at": place - (0.5 if kind != "crossed" else 1.5),
                "ended_at": float(place),
            }
            | key
        )
        for place, key in enumerate(keys)
    ]
    return others, summaries_of(told), match_summaries


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    others, summaries, match = load(int(sys.argv[1]), sys.argv[2])
    before = peak()
    started = time.perf_counter()
    matching = match(others, summaries)
    seconds = time.perf_counter() - started
    told = {"seconds": seconds, "pairs": len(matching.matches), "given_bytes": before, "peak_bytes": peak()}
    print(json.dumps(told))
