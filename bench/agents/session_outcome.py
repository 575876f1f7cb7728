"""How a session ended, decided from facts: what the relay saw last, how the event stream ended, why the harness cut in.

An agent's exit code decides nothing: agents end with 0 after a failure and with something else after a success. Nor
does its word alone: *done* needs an answer that came whole, asked for nothing more and said something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.agents.adapters import AgentEvents
from bench.agents.failed_exchanges import (
    ASKS_FOR_TOOLS,
    ENGINES_FAULT,
    broke_off,
    dropped,
    engine_kind,
    failed_at_cut,
    failing_last,
    in_order,
    last_failed,
    nobody_asked_for,
)
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

UNUSABLE_IN_A_ROW = 8
"""So many answers in a row whose tool calls nobody could carry out end a session: it goes round in circles."""

_CUT_SHORT = {"length", "max_tokens", "incomplete"}
"""Finish reasons of an answer that reached its output limit: chat and completions, messages, responses."""


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


def ended_broken(exchanges: tuple[ExchangeSummary, ...]) -> bool:
    """Whether the connection of the exchange that ended last failed."""
    return bool(exchanges) and broke_off(in_order(exchanges)[-1])


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
        return _failed_up_to_limit(facts, profile) or _judge_limit(facts)
    if last is not None and last.error is not None and (facts.events.end == "engine-error" or broke_off(last)):
        return _failed_request(last, profile)
    if (last is not None and last.finish_reason in _CUT_SHORT) or facts.events.end == "length":
        return Judgement(outcome="limit", kind="output-tokens", reason="an answer was cut at its output limit")
    return _judge_agent(facts, last)


def _judge_limit(facts: SessionFacts) -> Judgement:
    """A limit of ours ended the agent; for requests the agent may know it, too, and keep to it."""
    if _goes_round(facts):
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
        return _own_limit(facts)
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
    if last.finish_reason in ASKS_FOR_TOOLS:
        said = "the agent says that it is done, but the last answer asked for tools"
        return Judgement(outcome="agent-error", kind="no-end", reason=said)
    if not facts.answer.strip():
        return Judgement(outcome="agent-error", kind="empty", reason="the last answer has no text")
    return Judgement(outcome="done")


def _own_limit(facts: SessionFacts) -> Judgement:
    """The agent says that it ended at a limit."""
    if _goes_round(facts) or len(facts.exchanges) >= facts.requests_limit:
        return _judge_limit(facts)
    said = facts.events.end_detail or "it does not say which"
    return Judgement(outcome="limit", kind="agent-limit", reason=f"the agent ended at a limit of its own: {said}")


def _goes_round(facts: SessionFacts) -> bool:
    return facts.cut_by == "tool-loop" or facts.events.unusable_turns >= UNUSABLE_IN_A_ROW


def _stalled(facts: SessionFacts) -> Judgement:
    """In the words in which the relay tells of an engine that sends nothing at all."""
    idle = facts.progress.idle_seconds if facts.progress else 0.0
    cut = [one for one in facts.exchanges if dropped(one)]
    place = f"request {cut[-1].index}: " if cut else ""
    return Judgement(
        outcome="engine-error", kind="stall", reason=f"{place}stalled: the engine gave no token for {idle:,.1f} s"
    )


def _failed_again_and_again(facts: SessionFacts, profile: EngineProfile) -> Judgement:
    """The agent asked on and on and got no answer that it could go on with.

    As for one refusal, the relay's word is enough only for what no request brings about, and for a prompt that is too
    long, which costs an attempt in any case; for the rest the agent must have told of it. One that keeps its failures
    to itself is charged with them.
    """
    failed = failed_at_cut(facts.exchanges, profile)
    once = _failed_request(failed[-1], profile)
    said = f"{len(failed)} requests failed and nothing got on between them, the last one: {once.reason}"
    told = facts.events.end == "engine-error" or (facts.events.retries or 0) > 0
    enough = nobody_asked_for(failed, profile) or once.kind == "context"
    if once.outcome == "engine-error" and not told and not enough:
        return Judgement(outcome="agent-error", kind=once.kind, reason=f"{said}; the agent tells of none")
    return Judgement(outcome=once.outcome, kind=once.kind, reason=said)


def _failed_up_to_limit(facts: SessionFacts, profile: EngineProfile) -> Judgement | None:
    """The engine's failures that the agent was still busy with when a limit of time or requests came; None: there are none.

    Who says so is the same as in `_failed_again_and_again`, but that a second try is no witness here: it may be from
    the session's beginning. And one failure alone, of which the agent says nothing, does not explain the time.
    """
    failed = failing_last(facts.exchanges, profile)
    if not failed or _goes_round(facts) or facts.cut_by not in ("seconds", "requests", "no-progress"):
        return None
    once = _failed_request(failed[-1], profile)
    enough = len(failed) > 1 and (nobody_asked_for(failed, profile) or once.kind == "context")
    if once.outcome != "engine-error" or not (enough or facts.events.end == "engine-error"):
        return None
    limit = _judge_limit(facts).reason
    return Judgement(outcome="engine-error", kind=once.kind, reason=f"{limit}; what came last: {once.reason}")


def _failed_request(last: ExchangeSummary, profile: EngineProfile) -> Judgement:
    """The engine broke the exchange off, or it refused a request and the agent says so too.

    A refusal alone is not enough: anything in the box may ask for one, and an engine error is never charged. A request
    that the engine calls wrong (4xx) is the agent's fault, unless it speaks of memory or of the window.
    """
    kind = engine_kind(last, profile)
    said = f"request {last.index}: {last.error}"
    if kind.startswith("http-4") and kind not in ENGINES_FAULT:
        return Judgement(outcome="agent-error", kind=kind, reason=said)
    return Judgement(outcome="engine-error", kind=kind, reason=said)


def _last_meant(facts: SessionFacts) -> ExchangeSummary | None:
    """The exchange that the session ended with.

    An agent that is done may drop what it asked beside its work (a title), which is then the last one to end; and it
    may fail to sum up its history after its last answer, which takes nothing from that answer. One that ends because
    the engine failed may have the answer to such a request on the side after the failure.
    """
    order = in_order(facts.exchanges)
    if facts.events.end == "engine-error" and (failed := last_failed(facts.exchanges)) is not None:
        return failed
    if facts.events.end == "done":
        order = [one for one in order if not dropped(one)] or order
        for _ in range(facts.events.after_answer):
            if len(order) > 1 and (order[-1].error is not None or order[-1].finish_reason in _CUT_SHORT):
                order.pop()
    return order[-1] if order else None
