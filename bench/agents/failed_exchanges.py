"""Which exchanges failed, how, and could somebody have asked for it? Decided from what the relay saw."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.contracts import ExchangeSummary
from bench.engine_profile import EngineProfile

FAILURES_IN_A_ROW = 8
"""So many failures without an answer that gets anywhere end an agent that asks again and again, some of them for ever."""

_TRANSPORT = re.compile(r"(refused|reset|closed|truncated|stalled|malformed): ")
"""How the relay's own sentences about a broken exchange begin."""

_KINDS = {"closed": "reset", "stalled": "stall"}
"""Where the kind is not the sentence's first word."""

ENGINES_FAULT = ("http-408", "http-425", "http-429")
"""Statuses below 500 that speak of the engine's state, not of the request."""

_ENGINES_STATE = (*ENGINES_FAULT, "http-502", "http-503", "http-504", "http-529")
"""Refusals that no request brings about by what it asks."""

_TOO_BIG = ("context", "memory")
"""What an agent may hope to mend by making its history shorter."""

_BY_AGENT = "aborted: "
"""How its sentence begins where the agent hung up."""

ASKS_FOR_TOOLS = ("tool_calls", "function_call", "tool_use")
"""Finish reasons of an answer that the agent goes on with; the responses API has none of its own for it."""


def in_order(exchanges: Sequence[ExchangeSummary]) -> list[ExchangeSummary]:
    """As they ended."""
    return sorted(exchanges, key=lambda exchange: (exchange.ended_at, exchange.index))


def broke_off(exchange: ExchangeSummary) -> bool:
    """Whether the relay saw the connection itself fail, which no request of the box's can bring about."""
    return _TRANSPORT.match(exchange.error or "") is not None


def dropped(exchange: ExchangeSummary) -> bool:
    """Whether the agent hung up."""
    return (exchange.error or "").startswith(_BY_AGENT)


def engine_kind(exchange: ExchangeSummary, profile: EngineProfile) -> str:
    """The finer kind of an exchange that failed."""
    said = exchange.error or ""
    if any(re.search(pattern, said) for pattern in profile.memory_errors):
        return "memory"
    if any(re.search(pattern, said) for pattern in profile.context_errors):
        return "context"
    if exchange.status is not None and exchange.status >= 400:
        return f"http-{exchange.status}"
    if broken := _TRANSPORT.match(said):
        return _KINDS.get(broken[1], broken[1])
    if exchange.status is None or dropped(exchange):
        return "truncated"
    return "error-in-answer"


def nobody_asked_for(exchanges: Sequence[ExchangeSummary], profile: EngineProfile) -> bool:
    """Whether every one of them failed by what no request can bring about: the relay's word is enough for that."""
    return all(broke_off(one) or engine_kind(one, profile) in _ENGINES_STATE for one in exchanges)


def last_failed(exchanges: Sequence[ExchangeSummary]) -> ExchangeSummary | None:
    """The failed exchange after whose end nothing more was asked, if there is one.

    What was under way beside it may well have ended later, and well. One that the agent itself broke off only counts
    where there is no other.
    """
    failed = [one for one in in_order(exchanges) if one.error is not None]
    for one in [*[one for one in failed if not dropped(one)][-1:], *failed[-1:]]:
        if all(other.sent_at <= one.ended_at for other in exchanges):
            return one
    return None


def failing_last(exchanges: Sequence[ExchangeSummary], profile: EngineProfile) -> list[ExchangeSummary]:
    """The failures that a session's traffic ends with, oldest first.

    They end it in a row; or each of them is a prompt too long or a want of memory, and there is at most one whole
    answer without a call between them: the summary that the agent asks for to make room, and in vain. An answer that
    calls a tool is work that gets on. One that the agent broke off is no failure, and is passed over at the end
    if nothing had come of it yet: the session's own end breaks it off.
    """
    order = in_order(exchanges)
    while order and dropped(order[-1]) and order[-1].status is None:
        order.pop()
    row: list[ExchangeSummary] = []
    for one in reversed(order):
        if not _failed(one):
            break
        row.append(one)
    in_vain: list[ExchangeSummary] = []
    between = 0
    for one in reversed(order):
        if _failed(one) and engine_kind(one, profile) in _TOO_BIG:
            in_vain.append(one)
            between = 0
        elif _failed(one) or between or one.finish_reason in ASKS_FOR_TOOLS:
            break
        else:
            between += 1
    return max(row, in_vain, key=len)[::-1]


def failed_at_cut(exchanges: Sequence[ExchangeSummary], profile: EngineProfile) -> list[ExchangeSummary]:
    """The failures for which a session was ended; what ended after them, at the cut itself, is passed over."""
    order = in_order(exchanges)
    for end in range(len(order), 0, -1):
        if len(found := failing_last(order[:end], profile)) >= FAILURES_IN_A_ROW:
            return found
    return [one for one in order if _failed(one)]  # an answer was whole among them, and its connection ended late


def _failed(exchange: ExchangeSummary) -> bool:
    return exchange.error is not None and not dropped(exchange)
