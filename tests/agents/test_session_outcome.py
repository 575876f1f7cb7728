"""Which outcome follows from which facts."""

from __future__ import annotations

import pytest

from bench.agents.adapters import AgentEvents
from bench.agents.session_outcome import SessionFacts, judge_session
from bench.contracts import ExchangeSummary


def exchange(*, index=0, status=200, finish="stop", error=None, at=1.0):
    return ExchangeSummary(
        index=index,
        status=status,
        finish_reason=finish,
        prompt_tokens=10,
        output_tokens=5,
        error=error,
        ended_at=at,
    )


WHOLE = exchange()
ABORTED = exchange(finish=None, error="aborted: the client went away before the answer's end")
FAILED = exchange(status=500, finish=None, error="boom")


def facts(*exchanges, end="done", detail="", text="Done.", **more):
    events = AgentEvents(
        usage=(),
        requests=len(exchanges),
        tool_calls=0,
        compactions=0,
        final_text=text,
        end=end,
        end_detail=detail,
        damage=None,
    )
    held = {"cut_by": None, "engine_dead": None, "exit_code": 0, "last_words": "", **more}
    return SessionFacts(seconds_limit=60, requests_limit=9, exchanges=exchanges, events=events, **held)


def told(*exchanges):
    """The agent says itself that the engine failed."""
    return facts(*exchanges, end="engine-error")


TABLE = {
    "done": (facts(WHOLE), ("done", None)),
    "done with a bad exit code": (facts(WHOLE, exit_code=1), ("done", None)),
    "a fault that the agent got over": (facts(FAILED, exchange(index=1, at=2.0)), ("done", None)),
    "the last to end counts, not the last to begin": (
        facts(exchange(at=3.0, status=503, error="busy"), exchange(index=1, at=2.0), end="engine-error"),
        ("engine-error", "http-503"),
    ),
    "exit code 0 after a fault that the agent tells": (facts(FAILED, end="engine-error"), ("engine-error", "http-500")),
    "done after a fault that the agent does not tell": (facts(FAILED), ("agent-error", "no-end")),
    "memory": (told(exchange(status=400, error="insufficient_memory: 9")), ("engine-error", "memory")),
    "memory inside a 200": (told(exchange(error="out of memory")), ("engine-error", "memory")),
    "context": (told(exchange(status=400, error="context_length_exceeded")), ("engine-error", "context")),
    "error inside a 200": (told(exchange(error="slot is gone")), ("engine-error", "http-200")),
    "a request that is wrong": (told(exchange(status=400, error="invalid")), ("agent-error", "http-400")),
    "too many requests": (told(exchange(status=429, error="slow down")), ("engine-error", "http-429")),
    "a refusal that something else asked for, agent killed": (
        facts(exchange(status=400, error="invalid"), end=None, exit_code=-9),
        ("agent-error", "crash"),
    ),
    "a refusal that something else asked for, agent alive": (
        facts(exchange(status=400, error="insufficient_memory: 9"), end="done"),
        ("agent-error", "no-end"),
    ),
    "refused": (facts(exchange(status=None, error="refused: no connection")), ("engine-error", "refused")),
    "reset": (facts(exchange(error="reset: broken off")), ("engine-error", "reset")),
    "closed": (facts(exchange(status=None, error="closed: no answer")), ("engine-error", "reset")),
    "truncated": (facts(exchange(error="truncated: no finish reason")), ("engine-error", "truncated")),
    "stalled": (facts(exchange(error="stalled: nothing for 9 s")), ("engine-error", "stalled")),
    "no answer at all": (told(exchange(status=None, error="?")), ("engine-error", "truncated")),
    "agent killed while it waited": (facts(ABORTED, end=None, exit_code=-9), ("agent-error", "crash")),
    "agent hung up because of the answer": (facts(ABORTED, end="engine-error"), ("engine-error", "truncated")),
    "agent hung up and is done": (facts(ABORTED), ("agent-error", "no-end")),
    "crash after a refusal": (facts(FAILED, end=None, exit_code=1), ("agent-error", "crash")),
    "crash after the engine broke off": (
        facts(exchange(error="reset: broken off"), end=None, exit_code=1),
        ("engine-error", "reset"),
    ),
    "the run's output tokens": (facts(WHOLE, end=None, cut_by="output-tokens"), ("limit", "output-tokens-of-run")),
    "the disk": (facts(WHOLE, end=None, cut_by="disk"), ("limit", "disk")),
    "crash": (facts(WHOLE, end=None, exit_code=1), ("agent-error", "crash")),
    "no end": (facts(WHOLE, end=None), ("agent-error", "no-end")),
    "tool loop": (facts(WHOLE, end="agent-error", detail="tool-loop: 5"), ("agent-error", "tool-loop")),
    "empty": (facts(WHOLE, text=" "), ("agent-error", "empty")),
    "no request": (facts(), ("agent-error", "empty")),
    "done in the middle of tool calls": (facts(exchange(finish="tool_calls")), ("agent-error", "no-end")),
    "a fault that the relay did not see": (facts(WHOLE, end="engine-error"), ("agent-error", "crash")),
    "length": (facts(exchange(finish="length"), end="length"), ("limit", "output-tokens")),
    "length taken for done": (facts(exchange(finish="length")), ("limit", "output-tokens")),
    "the agent's own request limit": (facts(WHOLE, end="limit"), ("limit", "requests")),
    "request limit": (facts(WHOLE, end=None, cut_by="requests"), ("limit", "requests")),
    "wall clock while the engine is silent": (facts(ABORTED, end=None, cut_by="seconds"), ("limit", "seconds")),
    "asked to stop": (facts(FAILED, end=None, cut_by="asked", engine_dead="gone"), ("interrupted", None)),
    "engine dead": (facts(FAILED, engine_dead="gone"), ("engine-error", "engine-dead")),
    "engine dead, agent cut": (
        facts(end=None, cut_by="engine-dead", engine_dead="gone"),
        ("engine-error", "engine-dead"),
    ),
    "engine died behind a finished session": (facts(WHOLE, engine_dead="gone"), ("done", None)),
}


@pytest.mark.parametrize("case", TABLE)
def test_judgement(case, profile):
    given, expected = TABLE[case]
    judgement = judge_session(given, profile)
    assert (judgement.outcome, judgement.kind) == expected
    assert bool(judgement.reason) == (judgement.outcome != "done")
