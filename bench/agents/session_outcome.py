"""How a session ended, decided from facts: what the relay saw last, how the event stream ended, why the harness cut in.

An agent's exit code decides nothing: agents end with 0 after a failure and with something else after a success.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from bench.agents.adapters import AgentEvents
from bench.contracts import ExchangeSummary, Outcome
from bench.engine_profile import EngineProfile

CutBy = Literal["seconds", "requests", "output-tokens", "disk", "engine-dead", "asked"]

_TRANSPORT = re.compile(r"(refused|reset|closed|truncated|stalled|malformed): ")
"""How the relay's own sentences about a broken exchange begin."""

_ENGINES_FAULT = {"http-408", "http-425", "http-429"}
"""Statuses below 500 that speak of the engine's state, not of the request."""

_BY_AGENT = "aborted: "
"""How its sentence begins where the agent hung up."""


@dataclass(frozen=True, kw_only=True)
class SessionFacts:
    cut_by: CutBy | None
    """Why the harness ended the agent; None: it ended by itself."""

    seconds_limit: float
    requests_limit: int
    exchanges: tuple[ExchangeSummary, ...]
    events: AgentEvents
    engine_dead: str | None
    exit_code: int | None
    last_words: str
    """The last line of the agent's standard error."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    outcome: Outcome
    kind: str | None = None
    reason: str = ""


def judge_session(facts: SessionFacts, profile: EngineProfile) -> Judgement:
    """Outcome, finer kind and a sentence; see `contracts.SessionResult`."""
    if facts.cut_by == "asked":
        return Judgement(outcome="interrupted", reason="the run was asked to stop")
    last = max(facts.exchanges, key=lambda exchange: (exchange.ended_at, exchange.index), default=None)
    whole = last is not None and last.error is None
    if facts.engine_dead is not None and not (whole and facts.events.end == "done"):
        return Judgement(outcome="engine-error", kind="engine-dead", reason=facts.engine_dead)
    if facts.cut_by == "seconds":
        return Judgement(outcome="limit", kind="seconds", reason=f"not finished within {facts.seconds_limit:g} s")
    if facts.cut_by == "requests":
        return _too_many_requests(facts)
    if facts.cut_by == "output-tokens":
        return Judgement(outcome="limit", kind="output-tokens-of-run", reason="the run's output tokens are used up")
    if facts.cut_by == "disk":
        return Judgement(outcome="limit", kind="disk", reason="the project outgrew the space that it may take")
    if last is not None and last.error is not None and (facts.events.end == "engine-error" or _broke_off(last.error)):
        return _failed_request(last, profile)
    if (last is not None and last.finish_reason == "length") or facts.events.end == "length":
        return Judgement(outcome="limit", kind="output-tokens", reason="an answer was cut at its output limit")
    return _judge_agent(facts, last)


def _judge_agent(facts: SessionFacts, last: ExchangeSummary | None) -> Judgement:
    """The engine did nothing wrong: what the agent made of it."""
    events = facts.events
    if events.end is None:
        how = f"the agent ended with exit code {facts.exit_code} and no end event"
        words = f": {facts.last_words}" if facts.last_words else ""
        return Judgement(outcome="agent-error", kind="crash" if facts.exit_code else "no-end", reason=how + words)
    if events.end == "limit":
        return _too_many_requests(facts)
    if events.end == "agent-error":
        kind = "tool-loop" if events.end_detail.startswith("tool-loop") else "crash"
        return Judgement(outcome="agent-error", kind=kind, reason=events.end_detail)
    if events.end == "engine-error":
        said = f"the agent reports what the relay did not see: {events.end_detail}"
        return Judgement(outcome="agent-error", kind="crash", reason=said)
    if last is None:
        return Judgement(outcome="agent-error", kind="empty", reason="the agent made no request")
    if last.error is not None or last.finish_reason == "tool_calls":
        said = "the agent says that it is done, but its last request was not answered to the end"
        if last.error is None:
            said = "the agent says that it is done, but the last answer asked for tools"
        return Judgement(outcome="agent-error", kind="no-end", reason=said)
    if not events.final_text.strip():
        return Judgement(outcome="agent-error", kind="empty", reason="the last answer has no text")
    return Judgement(outcome="done")


def _too_many_requests(facts: SessionFacts) -> Judgement:
    return Judgement(outcome="limit", kind="requests", reason=f"not finished within {facts.requests_limit} requests")


def _failed_request(last: ExchangeSummary, profile: EngineProfile) -> Judgement:
    """The engine broke the exchange off, or it refused a request and the agent says so too.

    A refusal alone is not enough: anything in the box may ask for one, and an engine error is never charged. A request
    that the engine calls wrong (4xx) is the agent's fault, unless it speaks of memory or of the window.
    """
    kind = _engine_kind(last, profile)
    said = f"request {last.index + 1}: {last.error}"
    if kind.startswith("http-4") and kind not in _ENGINES_FAULT:
        return Judgement(outcome="agent-error", kind=kind, reason=said)
    return Judgement(outcome="engine-error", kind=kind, reason=said)


def _broke_off(error: str) -> bool:
    """Whether the relay saw the connection itself fail, which no request of the box's can bring about."""
    return _TRANSPORT.match(error) is not None


def _engine_kind(exchange: ExchangeSummary, profile: EngineProfile) -> str:
    said = exchange.error or ""
    if any(re.search(pattern, said) for pattern in profile.memory_errors):
        return "memory"
    if any(re.search(pattern, said) for pattern in profile.context_errors):
        return "context"
    if exchange.status is not None and exchange.status >= 400:
        return f"http-{exchange.status}"
    if broken := _TRANSPORT.match(said):
        return "reset" if broken[1] == "closed" else broken[1]
    if exchange.status is None or said.startswith(_BY_AGENT):
        return "truncated"
    return f"http-{exchange.status}"  # an error inside an answer that began well
