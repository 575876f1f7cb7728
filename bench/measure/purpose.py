"""What was each request of a session for? Told from the bodies that passed the relay, and from what became of them.

* retry: the same messages again, after an attempt that failed, whose answer was cut at its length, or said nothing
* compaction: a summary of the conversation. Either a request without tools, beside a conversation that has them, which
  holds what model and tools said in it, after which nobody goes on from the history that it held; or any request
  whose answer stands at the beginning of another history (a shorter one, if tools were offered for the answer) with
  which the agent goes on at once
* side: a request without tools, beside a conversation that has them, from which nobody goes on: a title, a page
* turn: everything else, a second conversation's requests included, and every body that nobody can read

A session whose agent offers no tools at all has no side requests that could be told from turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure.answer_pieces import answer_pieces
from bench.measure.answer_text import answer_text
from bench.measure.exchange_line import Exchange
from bench.measure.request_body import RequestBody, answered_texts, gist, message_text, read_request_body
from bench.records.schema import Purpose

LENGTH_STOPS = frozenset({"length", "max_tokens", "incomplete"})
"""Finish reasons of answers that were cut at the most tokens that they might have."""

_CALLS = frozenset({"tool_calls", "tool_use", "function_call"})
"""Finish reasons of answers that ask for tools: whatever their words, they sum nothing up."""

_PROBES = 200
_PROBE_CHARACTERS = 60
_SHORTEST_PROBE = 8
_LINES = 40
_SHORTEST_LINE = 12
_FIRST_MESSAGES = 4
_WAITING = 4
"""So many requests beside the conversation, the latest, may have an answer that begins the next history."""

Key = tuple[int, bool]
"""All messages as one number, and whether tools are offered."""


@dataclass(slots=True)
class _Asked:
    """What is kept of a request."""

    index: int
    key: Key
    size: int
    failed: bool
    retried: bool
    """It is a retry."""

    parent: Key | None
    """The request from whose messages it goes on."""

    beside: Key | None = None
    """The conversation's last request, whose content it holds; of requests without tools alone."""

    summed_up: bool = False
    """Its answer begins the shorter history that followed."""


class PurposeReader:
    """Takes the exchanges of one session in the order in which they ended; holds the last few, never all."""

    def __init__(self) -> None:
        self._asked: list[_Asked] = []
        self._seen: set[Key] = set()
        self._failed: dict[tuple[Key, int], bool] = {}
        """The same, with how many messages of the system's there were: what became of the last such request."""

        self._messages: Sequence[Any] = ()
        """Of the conversation's last request, with `_chain`: each message and all before it as one number."""

        self._chain: list[int] = []
        self._went_on: set[Key | None] = set()
        """Requests from which a later one went on."""

        self._last: _Asked | None = None
        """The conversation's last request."""

        self._answer: Callable[[], str] = str
        """Reads the words of its answer."""

        self._waiting: list[tuple[_Asked, Callable[[], str]]] = []
        """Requests beside the conversation since its last one, with the same of their answers."""

    def take(self, exchange: Exchange, *, failed: bool, finish_reason: str | None) -> None:
        """`failed`: the answer is no whole one, was cut at its length, or says nothing (`says_nothing`)."""
        body = read_request_body(exchange.request)
        try:
            chain = self._chained(body.messages) if body is not None else []
        except RecursionError:  # a body nested so deep that it cannot be compared
            return
        if body is None or not chain:
            return
        tools = body.tools > 0
        key = (chain[-1], tools)
        asked = _Asked(
            index=exchange.index,
            key=key,
            size=len(exchange.request),
            failed=failed,
            retried=self._failed.get((key, body.systems), False),
            parent=self._parent(chain, tools),
        )
        self._failed[key, body.systems] = failed
        self._seen.add(key)
        self._asked.append(asked)
        last = self._last
        response, streamed = exchange.response, exchange.streamed
        no_words = failed or finish_reason in _CALLS
        answer: Callable[[], str] = str if no_words else lambda: answer_text(response, streamed=streamed)
        if tools or last is None or not last.key[1]:
            if last is not None and not body.follows:
                self._begins(last, asked, body)
            self._messages, self._chain, self._last, self._answer = body.messages, chain, asked, answer
            self._waiting = []
        else:
            self._waiting = [*self._waiting[1 - _WAITING :], (asked, answer)]
            if self._holds(body) or (last.failed and last.key[0] in chain[:-1]):
                asked.beside = last.key
        self._went_on.add(asked.parent)

    def purposes(self) -> dict[int, Purpose]:
        """Index of each request that is no turn -> what it was for."""
        went_on = self._went_on
        with_tools = any(one.key[1] for one in self._asked)
        found: dict[int, Purpose] = {}
        for place, one in enumerate(self._asked):
            if one.retried:
                found[one.index] = "retry"
            elif one.summed_up and one.key not in went_on:
                found[one.index] = "compaction"
            elif with_tools and not one.key[1] and one.key not in went_on:
                found[one.index] = self._beside(one, self._asked[place + 1 :])
        return found

    @staticmethod
    def _beside(one: _Asked, later: Sequence[_Asked]) -> Purpose:
        """Of a request without tools from which nobody goes on."""
        if one.beside is None:
            return "side"
        kept = not one.failed and any(after.parent == one.beside and after.key[1] for after in later)
        return "side" if kept else "compaction"

    def _chained(self, messages: Sequence[Any]) -> list[int]:
        """Each message and all before it as one number; what equals the last request is not looked at again."""
        same = 0
        for mine, theirs in zip(messages, self._messages, strict=False):
            if mine != theirs:
                break
            same += 1
        chain = self._chain[:same]
        for message in messages[same:]:
            chain.append(hash((chain[-1] if chain else 0, gist(message))))
        return chain

    def _parent(self, chain: Sequence[int], tools: bool) -> Key | None:
        """The longest earlier request whose messages are the beginning of these; one with as many tools first."""
        for number in reversed(chain[:-1]):
            for key in ((number, tools), (number, not tools)):
                if key in self._seen:
                    return key
        return None

    def _begins(self, last: _Asked, asked: _Asked, body: RequestBody) -> None:
        """Where a request does not go on from the conversation's last one: whose answer does its history begin with?"""
        # A conversation that waited for another one, a sub-agent's, goes on where nobody went on before.
        resumed = asked.parent is not None and asked.parent not in self._went_on
        if resumed or asked.parent == last.key or asked.key[0] == last.key[0]:
            return
        candidates = [*self._waiting, *([(last, self._answer)] if asked.size < last.size else [])]
        begins = "\n".join(message_text(one) for one in body.messages[:_FIRST_MESSAGES]) if candidates else ""
        for one, answer in candidates:
            one.summed_up = any(line in begins for line in _lines(answer()))

    def _holds(self, body: RequestBody) -> bool:
        """Whether a request holds something that model or tools said in the conversation so far."""
        text = "\n".join(message_text(one) for one in body.messages)
        return any(probe in text for probe in _probes(self._messages))


def says_nothing(exchange: Exchange, finish_reason: str | None) -> bool:
    """Whether an answer has neither words nor a call, so that an agent can do nothing but ask again."""
    if finish_reason in _CALLS:
        return False
    pieces = answer_pieces(exchange.response, streamed=exchange.streamed)
    return not any(piece.kind in ("text", "call") for piece in pieces)


def _lines(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if len(line) >= _SHORTEST_LINE][:_LINES]


def _probes(messages: Sequence[Any]) -> Iterator[str]:
    """Short pieces of what model and tools said, the latest last: its beginning, and its longest line near there."""
    count = 0
    for message in messages:
        for text in answered_texts(message):
            near = text[:_PROBE_CHARACTERS].strip()
            longest = max(text[:2_000].splitlines(), key=len, default="").strip()[:_PROBE_CHARACTERS]
            yield from (probe for probe in (near, longest) if len(probe) >= _SHORTEST_PROBE)
            count += 1
            if count >= _PROBES:
                return
