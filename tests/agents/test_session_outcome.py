"""Which outcome follows from which facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.agents.adapters import AgentEvents
from bench.agents.session_outcome import SessionFacts, judge_session
from bench.contracts import ExchangeSummary, SessionProgress


def exchange(*, index=0, status=200, finish="stop", error=None, at=1.0, sent=None):
    return ExchangeSummary(
        index=index,
        status=status,
        finish_reason=finish,
        prompt_tokens=10,
        output_tokens=5,
        error=error,
        sent_at=at - 0.5 if sent is None else sent,
        ended_at=at,
    )


WHOLE = exchange()
ABORTED = exchange(finish=None, error="aborted: the client went away before the answer's end")
FAILED = exchange(status=500, finish=None, error="boom")
RESET = exchange(status=None, finish=None, error="reset: broken off")
BUSY = exchange(status=503, finish=None, error="busy")
TOO_LONG = exchange(status=400, finish=None, error="context_length_exceeded")
NO_MEMORY = exchange(status=400, finish=None, error="insufficient_memory: 9")
CALL = exchange(finish="tool_calls")
CUT_OFF = exchange(status=None, finish=None, error=ABORTED.error)


def facts(*exchanges, end="done", detail="", text="Done.", told=None, **more):
    events = AgentEvents(
        usage=(),
        requests=len(exchanges),
        tool_calls=0,
        compactions=0,
        final_text="What the agent's stream says.",
        end=end,
        end_detail=detail,
        damage=None,
        **(told or {}),
    )
    idle = SessionProgress(underway=1, idle_seconds=9.0, held_back=False)
    held = {
        "cut_by": None,
        "engine_dead": None,
        "exit_code": 0,
        "last_words": "",
        "progress": idle,
        "answer": text,
        **more,
    }
    return SessionFacts(seconds_limit=60, requests_limit=9, exchanges=exchanges, events=events, **held)


def later(one, by=1):
    return replace(one, index=one.index + by, sent_at=one.sent_at + by, ended_at=one.ended_at + by)


def one_by_one(*exchanges):
    return [later(one, by) for by, one in enumerate(exchanges)]


def at_limit(*exchanges, end=None, cut_by="seconds", **more):
    return facts(*one_by_one(*exchanges), end=end, cut_by=cut_by, **more)


def beside(failed, *, sent, end="engine-error"):
    """The failure, and the whole answer to what was asked beside it, which came a little later."""
    side = exchange(index=2, at=2.1, sent=sent)
    return facts(CALL, later(failed), side, end=end, detail="it failed")


def told(*exchanges):
    """The agent says itself that the engine failed."""
    return facts(*exchanges, end="engine-error")


def again(failed, *, end=None, **more):
    """An agent that was ended after the same failure eight times."""
    return facts(*one_by_one(WHOLE, *[failed] * 8), end=end, cut_by="failures", **more)


def round_and_round(**more):
    return facts(exchange(finish="tool_calls"), told={"unusable_turns": 8}, **more)


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
    "error inside a 200": (told(exchange(error="slot is gone")), ("engine-error", "error-in-answer")),
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
    "stalled": (facts(exchange(error="stalled: nothing for 9 s")), ("engine-error", "stall")),
    "no token": (facts(ABORTED, end=None, cut_by="stall"), ("engine-error", "stall")),
    "no token, and the engine died": (
        facts(ABORTED, end=None, cut_by="stall", engine_dead="gone"),
        ("engine-error", "engine-dead"),
    ),
    "nothing asked": (facts(WHOLE, end=None, cut_by="no-progress"), ("limit", "no-progress")),
    "nothing asked behind a fault": (facts(RESET, end=None, cut_by="no-progress"), ("limit", "no-progress")),
    "failures that the agent hides": (again(FAILED), ("agent-error", "http-500")),
    "failures, and an answer that the cut broke off": (
        facts(*one_by_one(*[BUSY] * 8, ABORTED), end=None, cut_by="failures"),
        ("engine-error", "http-503"),
    ),
    "failures, and an answer that came at the cut": (
        facts(*one_by_one(*[BUSY] * 8, CALL), end=None, cut_by="failures"),
        ("engine-error", "http-503"),
    ),
    "failures, and an answer among them of which the relay knew late": (
        facts(*one_by_one(*[BUSY] * 4, WHOLE, *[BUSY] * 4), end=None, cut_by="failures"),
        ("engine-error", "http-503"),
    ),
    "failures that the agent tells": (again(FAILED, told={"retries": 7}), ("engine-error", "http-500")),
    "failures that it ends with": (again(FAILED, end="engine-error"), ("engine-error", "http-500")),
    "failures of the connection": (again(RESET), ("engine-error", "reset")),
    "failures of a state": (again(exchange(status=503, error="busy")), ("engine-error", "http-503")),
    "failures by memory that the agent hides": (
        again(exchange(status=503, error="out of memory")),
        ("agent-error", "memory"),
    ),
    "failures by a prompt that is too long": (
        again(exchange(status=400, error="context_length_exceeded"), told={"retries": 1}),
        ("engine-error", "context"),
    ),
    "prompts that are too long, and summaries that do not help, in silence": (
        facts(*one_by_one(CALL, *[TOO_LONG, WHOLE] * 8), end=None, cut_by="failures"),
        ("engine-error", "context"),
    ),
    "a want of memory and summaries that do not help, in silence": (
        facts(*one_by_one(CALL, *[NO_MEMORY, WHOLE] * 8), end=None, cut_by="failures"),
        ("agent-error", "memory"),
    ),
    "failures that are the request's": (
        again(exchange(status=400, error="bad"), told={"retries": 1}),
        ("agent-error", "http-400"),
    ),
    "one of the failures could be asked for": (
        facts(*one_by_one(*[RESET] * 7, FAILED, RESET), end=None, cut_by="failures"),
        ("agent-error", "reset"),
    ),
    "no answer at all": (told(exchange(status=None, error="?")), ("engine-error", "truncated")),
    "agent killed while it waited": (facts(ABORTED, end=None, exit_code=-9), ("agent-error", "crash")),
    "agent hung up because of the answer": (facts(ABORTED, end="engine-error"), ("engine-error", "truncated")),
    "agent dropped what it asked beside its work": (facts(WHOLE, later(ABORTED)), ("done", None)),
    "agent dropped its answer behind a tool call": (
        facts(exchange(finish="tool_calls"), later(ABORTED)),
        ("agent-error", "no-end"),
    ),
    "agent hung up because of the answer, after a whole one": (
        facts(WHOLE, later(ABORTED), end="engine-error"),
        ("engine-error", "truncated"),
    ),
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
    "tool loop that the harness ends": (round_and_round(end=None, cut_by="tool-loop"), ("agent-error", "tool-loop")),
    "tool loop to the request limit": (round_and_round(end=None, cut_by="requests"), ("agent-error", "tool-loop")),
    "tool loop to the agent's own limit": (round_and_round(end="limit"), ("agent-error", "tool-loop")),
    "tool loop to the wall clock": (round_and_round(end=None, cut_by="seconds"), ("agent-error", "tool-loop")),
    "empty": (facts(WHOLE, text=" "), ("agent-error", "empty")),
    "an end by a tool call": (
        facts(exchange(finish="tool_calls"), text="", told={"ended_by_call": True}),
        ("done", None),
    ),
    "an end by a tool call, cut": (
        facts(exchange(finish="length"), text="", told={"ended_by_call": True}),
        ("limit", "output-tokens"),
    ),
    "done in the middle of tool use": (facts(exchange(finish="tool_use")), ("agent-error", "no-end")),
    "max_tokens": (facts(exchange(finish="max_tokens")), ("limit", "output-tokens")),
    "incomplete": (facts(exchange(finish="incomplete")), ("limit", "output-tokens")),
    "no request": (facts(), ("agent-error", "empty")),
    "done in the middle of tool calls": (facts(exchange(finish="tool_calls")), ("agent-error", "no-end")),
    "a fault that the relay did not see": (facts(WHOLE, end="engine-error"), ("agent-error", "crash")),
    "length": (facts(exchange(finish="length"), end="length"), ("limit", "output-tokens")),
    "length taken for done": (facts(exchange(finish="length")), ("limit", "output-tokens")),
    "an agent that knows our request limit": (facts(*[WHOLE] * 9, end="limit"), ("limit", "requests")),
    "the agent's own limit": (facts(WHOLE, end="limit", detail="TimeExceeded"), ("limit", "agent-limit")),
    "request limit": (facts(WHOLE, end=None, cut_by="requests"), ("limit", "requests")),
    "wall clock while the engine is silent": (facts(ABORTED, end=None, cut_by="seconds"), ("limit", "seconds")),
    "resets up to the wall clock": (at_limit(CALL, RESET, RESET), ("engine-error", "reset")),
    "resets up to the request limit": (at_limit(CALL, RESET, RESET, cut_by="requests"), ("engine-error", "reset")),
    "resets up to the silence of the agent": (
        at_limit(CALL, RESET, RESET, cut_by="no-progress"),
        ("engine-error", "reset"),
    ),
    "seven refusals of a state up to the wall clock": (at_limit(CALL, *[BUSY] * 7), ("engine-error", "http-503")),
    "resets up to the wall clock, which cuts the last try": (
        at_limit(CALL, RESET, RESET, CUT_OFF),
        ("engine-error", "reset"),
    ),
    "resets, and an answer that had begun when the wall clock came": (
        at_limit(CALL, RESET, RESET, ABORTED),
        ("limit", "seconds"),
    ),
    "one reset before the wall clock": (at_limit(CALL, RESET), ("limit", "seconds")),
    "resets that the agent got over": (at_limit(RESET, RESET, CALL), ("limit", "seconds")),
    "resets up to a limit of the disk": (at_limit(RESET, RESET, cut_by="disk"), ("limit", "disk")),
    "failures that somebody may have asked for": (at_limit(CALL, FAILED, FAILED), ("limit", "seconds")),
    "the same where the agent had asked twice before": (
        at_limit(CALL, FAILED, FAILED, told={"retries": 1}),
        ("limit", "seconds"),
    ),
    "the same where it ended so, but its process stayed": (
        at_limit(CALL, FAILED, end="engine-error"),
        ("engine-error", "http-500"),
    ),
    "a wrong request that it ended with": (
        at_limit(CALL, exchange(status=400, finish=None, error="bad"), end="engine-error"),
        ("limit", "seconds"),
    ),
    "overflow and summary in turn up to the request limit": (
        at_limit(CALL, *[TOO_LONG, WHOLE] * 3, cut_by="requests"),
        ("engine-error", "context"),
    ),
    "overflow, summary, overflow": (at_limit(CALL, TOO_LONG, WHOLE, TOO_LONG), ("engine-error", "context")),
    "an overflow that it tells, and a summary": (
        at_limit(CALL, TOO_LONG, WHOLE, end="engine-error"),
        ("engine-error", "context"),
    ),
    "an overflow that it got over": (at_limit(CALL, TOO_LONG, WHOLE, CALL), ("limit", "seconds")),
    "overflows between which work gets on": (at_limit(*[TOO_LONG, CALL] * 4), ("limit", "seconds")),
    "memory and summary in turn, in silence": (at_limit(CALL, *[NO_MEMORY, WHOLE] * 3), ("limit", "seconds")),
    "memory and summary in turn, told": (
        at_limit(CALL, *[NO_MEMORY, WHOLE] * 3, end="engine-error"),
        ("engine-error", "memory"),
    ),
    "a reset, and what was under way beside it": (beside(RESET, sent=1.8), ("engine-error", "reset")),
    "a refusal, and what was under way beside it": (beside(BUSY, sent=1.8), ("engine-error", "http-503")),
    "a reset, and what was asked after it": (beside(RESET, sent=2.05), ("agent-error", "crash")),
    "a reset that the agent does not end for": (beside(RESET, sent=1.8, end="agent-error"), ("agent-error", "crash")),
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


@pytest.mark.parametrize("summary", [FAILED, RESET, exchange(finish="length"), WHOLE])
def test_a_summary_after_the_last_answer_takes_nothing_from_it(profile, summary):
    assert judge_session(facts(WHOLE, later(summary), told={"after_answer": 1}), profile).outcome == "done"


@pytest.mark.parametrize(("failed", "outcome"), [(exchange(finish="length"), "limit"), (RESET, "engine-error")])
def test_an_agent_cannot_talk_its_only_answer_whole(profile, failed, outcome):
    assert judge_session(facts(failed, told={"after_answer": 9}), profile).outcome == outcome
    assert judge_session(facts(exchange(finish="tool_calls"), later(failed)), profile).outcome == outcome
    undone = judge_session(facts(exchange(finish="tool_calls"), later(failed), told={"after_answer": 9}), profile)
    assert (undone.outcome, undone.kind) == ("agent-error", "no-end")
