"""The exchanges of a run of 872 requests stay under 40 MB: a part of one, laid out as agents and engines write."""

from __future__ import annotations

import json
import random

from bench.contracts import SessionLabel
from bench.measure.exchange_line import Exchange, decode_line, encode_line

RUN_REQUESTS, RUN_BYTES = 872, 40_000_000
SESSIONS, REQUESTS = 7, 14
FRESH_TOKENS, ANSWER_TOKENS, TOKEN_BYTES = 4_600, 930, 4
"""What a request adds to the history, and what an answer generates: the published run's means."""

DICE = random.Random(872)
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
WORDS = ["".join(DICE.choices(LETTERS, weights=range(26, 0, -1), k=DICE.randint(1, 9))) for _ in range(20_000)]
WEIGHTS = [1 / rank for rank in range(1, len(WORDS) + 1)]
"""Words are as unequally frequent as in any language, so that they compress as well and no better."""

TOOLS = [{"type": "function", "function": {"name": word, "description": " ".join(WORDS[:200])}} for word in WORDS[:8]]


def text(tokens: int) -> str:
    whole = ""
    while len(whole) < tokens * TOKEN_BYTES:
        words = DICE.choices(WORDS, WEIGHTS, k=100)
        whole += " ".join(word + DICE.choice(["", "", "", ",", "();\n", ' = "x"']) for word in words)
    return whole[: tokens * TOKEN_BYTES]


def stream(answer: str, number: int) -> tuple[bytes, list[tuple[int, float]]]:
    """One event a token, with the instants of a decode that jitters."""
    body, arrivals, at = bytearray(), [], 3.0
    for start in range(0, len(answer), TOKEN_BYTES):
        chunk = {
            "choices": [{"finish_reason": None, "index": 0, "delta": {"content": answer[start : start + TOKEN_BYTES]}}],
            "created": 1_790_000_000 + number,
            "id": f"chatcmpl-{number:032x}",
            "model": "qwen3.8-flash-next",
            "system_fingerprint": "b11549-1234567",
            "object": "chat.completion.chunk",
        }
        body += b"data: " + json.dumps(chunk).encode() + b"\n\n"
        at += DICE.gauss(0.025, 0.002)
        arrivals.append((len(body), at))
    return bytes(body) + b"data: [DONE]\n\n", arrivals


def exchanges():
    for session in range(SESSIONS):
        label = SessionLabel(run_id="r", session=session, role="builder", task="T001", attempt=1, retry=0)
        messages = [{"role": "system", "content": text(6_000)}]
        for number in range(REQUESTS):
            answer = text(ANSWER_TOKENS)
            messages.append({"role": "user", "content": text(FRESH_TOKENS - ANSWER_TOKENS)})
            asked = {"model": "m", "messages": messages, "tools": TOOLS, "stream": True, "temperature": 0}
            response, arrivals = stream(answer, session * REQUESTS + number)
            yield Exchange(
                label=label,
                index=number,
                engine_process=1,
                method="POST",
                path="/v1/chat/completions",
                status=200,
                streamed=True,
                started_at=1.79e9 + number,
                sent_at=0.0,
                first_byte_at=3.0,
                ended_at=30.0,
                fault=None,
                request=json.dumps(asked).encode(),
                response=response,
                response_bytes=len(response),
                redacted=False,
                arrivals=tuple(arrivals),
            )
            messages.append({"role": "assistant", "content": answer})


def test_evidence_of_a_run_stays_small():
    written = passed = longest = 0
    before = b""
    for exchange in exchanges():
        before = before if exchange.index else b""  # a file a session
        line = encode_line(exchange, before=before)
        if exchange.index == REQUESTS - 1:
            assert decode_line(line, before=before).response == exchange.response
        written += len(line)
        passed += len(exchange.request) + len(exchange.response)
        longest = max(longest, len(exchange.request))
        before = exchange.request
    share = SESSIONS * REQUESTS / RUN_REQUESTS
    print(
        f"{written / share / 1e6:.1f} MB a run; {passed / share / 1e6:.0f} MB passed; longest request {longest:,} bytes"
    )
    assert written < RUN_BYTES * share
