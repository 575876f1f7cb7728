"""How a session ended, decided from facts: what the relay saw last, how the event stream ended, why the harness cut in.

An agent's exit code decides nothing: agents end with 0 after a failure and with something else after a success. Nor
does its word alone: *done* needs an answer that came whole, asked for nothing more and said something.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from bench.agents.adapters import AgentEvents
from bench.contracts import ExchangeSummary, Outcome, SessionProgress
from bench.engine_profile import EngineProfile

CutBy = Literal[
    "seconds",
    "no-progress",
    "stall",
    "requests",
    "output-tokens",
    "disk",
    "failures",
    "tool-loop",
    "engine-dead",
    "asked",
]

FAILURES_IN_A_ROW = 8
"""So many exchanges in a row without one whole answer end an agent that asks again and again, some of them for ever."""

UNUSABLE_IN_A_ROW = 8
"""So many answers in a row whose tool calls nobody could carry out end a session: it goes round in circles."""

_TRANSPORT = re.compile(r"(refused|reset|closed|truncated|stalled|malformed): ")
"""How the relay's own sentences about a broken exchange begin."""

_KINDS = {"closed": "reset", "stalled": "stall"}
"""Where the kind is not the sentence's first word."""

_ENGINES_FAULT = {"http-408", "http-425", "http-429"}
"""Statuses below 500 that speak of the engine's state, not of the request."""

_ENGINES_STATE = {*_ENGINES_FAULT, "http-502", "http-503", "http-504", "http-529"}
"""Refusals that no request brings about by what it asks."""

_BY_AGENT = "aborted: "
"""How its sentence begins where the agent hung up."""

_CUT_SHORT = {"length", "max_tokens", "incomplete"}
"""Finish reasons of an answer that reached its output limit: chat and completions, messages, responses."""

_ASKS_FOR_TOOLS = {"tool_calls", "function_call", "tool_use"}


@dataclass(frozen=True, kw_only=True)
class SessionFacts:
    cut_by: CutBy | None
    """Why the harness ended the agent; None: it ended by itself."""

    progress: SessionProgress | None
    """How the traffic stood when it was last looked at, which was before the cut."""

    seconds_limit: float
    requests_limit: int
    exchanges: tuple[ExchangeSummary, ...]
    events: AgentEvents
    answer: str
    """The last whole answer's text as the relay saw it."""

    engine_dead: str | None
    exit_code: int | None
    last_words: str
    """The last line of the agent's standard error."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    outcome: Outcome
    kind: str | None = None
    reason: str = ""


def output_tokens(exchanges: tuple[ExchangeSummary, ...]) -> int:
    """As far as they were reported."""
    return sum(exchange.output_tokens or 0 for exchange in exchanges)


def failures_in_a_row(exchanges: tuple[ExchangeSummary, ...]) -> int:
    """How many of the exchanges that ended last failed, one after the other; one that the agent broke off is no failure."""
    return len(_failed_last(exchanges))


def ended_broken(exchanges: tuple[ExchangeSummary, ...]) -> bool:
    """Whether the connection of the exchange that ended last failed."""
    return bool(exchanges) and _broke_off(_in_order(exchanges)[-1])


def judge_session(facts: SessionFacts, profile: EngineProfile) -> Judgement:
    """Outcome, finer kind and a sentence; see `contracts.SessionResult`."""
    if facts.cut_by == "asked":
        return Judgement(outcome="interrupted", reason="the run was asked to stop")
    last = _last_meant(facts)
    whole = last is not None and last.error is None
    if facts.engine_dead is not None and not (whole and facts.events.end == "done"):
        return Judgement(outcome="engine-error", kind="engine-dead", reason=facts.engine_dead)
    if facts.cut_by == "stall":
        return _stalled(facts)
    if facts.cut_by == "failures":
        return _failed_again_and_again(facts, profile)
    if facts.cut_by is not None:
        return _judge_limit(facts)
    if last is not None and last.error is not None and (facts.events.end == "engine-error" or _broke_off(last)):
        return _failed_request(last, profile)
    if (last is not None and last.finish_reason in _CUT_SHORT) or facts.events.end == "length":
        return Judgement(outcome="limit", kind="output-tokens", reason="an answer was cut at its output limit")
    return _judge_agent(facts, last)


def _judge_limit(facts: SessionFacts) -> Judgement:
    """A limit ended the agent, ours or its own for requests."""
    if facts.events.unusable_turns >= UNUSABLE_IN_A_ROW or facts.cut_by == "tool-loop":
        said = f"{facts.events.unusable_turns} answers in a row called no tool that there is with arguments that can be read"
        return Judgement(outcome="agent-error", kind="tool-loop", reason=said)
    if facts.cut_by == "seconds":
        return Judgement(outcome="limit", kind="seconds", reason=f"not finished within {facts.seconds_limit:g} s")
    if facts.cut_by == "no-progress":
        idle = facts.progress.idle_seconds if facts.progress else 0.0
        how = "did not read its answer" if facts.progress and facts.progress.held_back else "asked the model nothing"
        return Judgement(outcome="limit", kind="no-progress", reason=f"the agent {how} for {idle:,.1f} s")
    if facts.cut_by == "output-tokens":
        return Judgement(outcome="limit", kind="output-tokens-of-run", reason="the run's output tokens are used up")
    if facts.cut_by == "disk":
        return Judgement(
            outcome="limit",
            kind="disk",
            reason="the project, or the agent's own folder, outgrew the space that it may take",
        )
    return Judgement(outcome="limit", kind="requests", reason=f"not finished within {facts.requests_limit} requests")


def _judge_agent(facts: SessionFacts, last: ExchangeSummary | None) -> Judgement:
    """The engine did nothing wrong: what the agent made of it."""
    events = facts.events
    if events.end is None:
        how = f"the agent ended with exit code {facts.exit_code} and no end event"
        words = f": {facts.last_words}" if facts.last_words else ""
        return Judgement(outcome="agent-error", kind="crash" if facts.exit_code else "no-end", reason=how + words)
    if events.end == "limit":
        return _judge_limit(facts)
    if events.end == "agent-error":
        kind = "tool-loop" if events.end_detail.startswith("tool-loop") else "crash"
        return Judgement(outcome="agent-error", kind=kind, reason=events.end_detail)
    if events.end == "engine-error":
        said = f"the agent reports what the relay did not see: {events.end_detail}"
        return Judgement(outcome="agent-error", kind="crash", reason=said)
    if last is None:
        return Judgement(outcome="agent-error", kind="empty", reason="the agent made no request")
    if last.error is not None:
        said = "the agent says that it is done, but its last request was not answered to the end"
        return Judgement(outcome="agent-error", kind="no-end", reason=said)
    if events.ended_by_call:
        return Judgement(outcome="done")
    if last.finish_reason in _ASKS_FOR_TOOLS:
        said = "the agent says that it is done, but the last answer asked for tools"
        return Judgement(outcome="agent-error", kind="no-end", reason=said)
    if not facts.answer.strip():
        return Judgement(outcome="agent-error", kind="empty", reason="the last answer has no text")
    return Judgement(outcome="done")


def _stalled(facts: SessionFacts) -> Judgement:
    """In the words in which the relay tells of an engine that sends nothing at all."""
    idle = facts.progress.idle_seconds if facts.progress else 0.0
    cut = [one for one in facts.exchanges if _dropped(one)]
    place = f"request {cut[-1].index}: " if cut else ""
    return Judgement(
        outcome="engine-error", kind="stall", reason=f"{place}stalled: the engine gave no token for {idle:,.1f} s"
    )


def _failed_again_and_again(facts: SessionFacts, profile: EngineProfile) -> Judgement:
    """The agent asked on and on and got no whole answer.

    As for one refusal, the relay's word is enough only for what no request brings about; for the rest the agent must
    have told of it. One that keeps its failures to itself is charged with them.
    """
    failed = _failed_last(facts.exchanges)
    once = _failed_request(failed[-1], profile)
    said = f"{len(failed)} requests in a row failed, the last one: {once.reason}"
    told = facts.events.end == "engine-error" or (facts.events.retries or 0) > 0
    states = all(_broke_off(one) or _engine_kind(one, profile) in _ENGINES_STATE for one in failed)
    if once.outcome == "engine-error" and not told and not states:
        return Judgement(outcome="agent-error", kind=once.kind, reason=f"{said}; the agent tells of none")
    return Judgement(outcome=once.outcome, kind=once.kind, reason=said)


def _failed_request(last: ExchangeSummary, profile: EngineProfile) -> Judgement:
    """The engine broke the exchange off, or it refused a request and the agent says so too.

    A refusal alone is not enough: anything in the box may ask for one, and an engine error is never charged. A request
    that the engine calls wrong (4xx) is the agent's fault, unless it speaks of memory or of the window.
    """
    kind = _engine_kind(last, profile)
    said = f"request {last.index}: {last.error}"
    if kind.startswith("http-4") and kind not in _ENGINES_FAULT:
        return Judgement(outcome="agent-error", kind=kind, reason=said)
    return Judgement(outcome="engine-error", kind=kind, reason=said)


def _broke_off(exchange: ExchangeSummary) -> bool:
    """Whether the relay saw the connection itself fail, which no request of the box's can bring about."""
    return _TRANSPORT.match(exchange.error or "") is not None


def _in_order(exchanges: tuple[ExchangeSummary, ...]) -> list[ExchangeSummary]:
    """As they ended."""
    return sorted(exchanges, key=lambda exchange: (exchange.ended_at, exchange.index))


def _last_meant(facts: SessionFacts) -> ExchangeSummary | None:
    """The exchange that the session ended with.

    An agent that is done may drop what it asked beside its work (a title), which is then the last one to end; and it
    may fail to sum up its history after its last answer, which takes nothing from that answer.
    """
    order = _in_order(facts.exchanges)
    if facts.events.end == "done":
        order = [one for one in order if not _dropped(one)] or order
        for _ in range(facts.events.after_answer):
            if len(order) > 1 and (order[-1].error is not None or order[-1].finish_reason in _CUT_SHORT):
                order.pop()
    return order[-1] if order else None


def _dropped(exchange: ExchangeSummary) -> bool:
    """Whether the agent hung up."""
    return (exchange.error or "").startswith(_BY_AGENT)


def _failed_last(exchanges: tuple[ExchangeSummary, ...]) -> list[ExchangeSummary]:
    """The exchanges that ended last and failed, as they ended."""
    failed: list[ExchangeSummary] = []
    for exchange in reversed(_in_order(exchanges)):
        if exchange.error is None or _dropped(exchange):
            break
        failed.insert(0, exchange)
    return failed


def _engine_kind(exchange: ExchangeSummary, profile: EngineProfile) -> str:
    said = exchange.error or ""
    if any(re.search(pattern, said) for pattern in profile.memory_errors):
        return "memory"
    if any(re.search(pattern, said) for pattern in profile.context_errors):
        return "context"
    if exchange.status is not None and exchange.status >= 400:
        return f"http-{exchange.status}"
    if broken := _TRANSPORT.match(said):
        return _KINDS.get(broken[1], broken[1])
    if exchange.status is None or _dropped(exchange):
        return "truncated"
    return f"http-{exchange.status}"  # an error inside an answer that began well
