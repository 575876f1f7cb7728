"""Where do agent, relay and engine tell different things? Said in words, so that no difference hides in a figure.

Figures say by how much; these say where. An audit computes them again. What an agent wrote is tamed, and everything
is bounded: five places are named, the others counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bench.agents.adapters import AgentEvents
from bench.figures.deviations import configurations
from bench.figures.measured import no_relay
from bench.figures.run_evidence import Evidence
from bench.figures.told_twice import Alone, ToldTwice, told_twice
from bench.loop.taming import tame
from bench.records.schema import Figure

_NAMED = 5
_NAME_CHARACTERS = 60
_SAID_CHARACTERS = 300

_ENDED_BY_US = ("limit", "interrupted", "engine-error")
"""Outcomes of sessions whose agent could not tell of its last request."""


def event_warnings(events: Mapping[int, AgentEvents]) -> tuple[str, ...]:
    """What is odd about the agent's own words: events that its adapter does not know, files that say something else."""
    found = []
    unknown: Counter[str] = Counter()
    for one in events.values():
        unknown.update(one.unknown)
    if unknown:
        kinds = _listed((f"{_tamed(name, _NAME_CHARACTERS)} ({count:,})" for name, count in unknown.most_common()))
        found.append(
            f"events of the agent that its adapter does not know: {unknown.total():,}; {kinds}; "
            "figures of the agent may lack something"
        )
    apart = [(number, said) for number, one in sorted(events.items()) for said in one.differences]
    if apart:
        places = (f"session {number:03d}: {_tamed(said, _SAID_CHARACTERS)}" for number, said in apart)
        found.append(f"the agent's session files and its event stream differ: {_listed(places)}")
    return tuple(found)


def stream_warnings(evidence: Evidence, figures: Sequence[Figure]) -> tuple[str, ...]:
    """Where the three streams of a run of our own differ; none where no relay stood between."""
    if not evidence.ran or no_relay(evidence):
        return ()
    pairs, alone = told_twice(evidence)
    value = {one.id: one for one in figures if one.scope is None}
    found = [_disagreeing([one for one in pairs if one.apart])]
    found += _lonely(evidence, alone)
    found += [_residual(value.get(name), between) for name, between in _RESIDUALS]
    found += _counted_apart(value)
    found.append(_over_limit(evidence))
    return tuple(one for one in found if one is not None)


def _over_limit(evidence: Evidence) -> str | None:
    """Answers longer than the run allows: the limit of one answer is the agent's to pass on, and not every agent does."""
    limits = [one["limits"].get("output_tokens_per_request") for one in configurations(evidence.journal)]
    allowed = max((limit for limit in limits if limit is not None), default=None)
    lengths = [one.output_tokens or 0 for one in evidence.asked]
    over = 0 if allowed is None else sum(length > allowed for length in lengths)
    if not over:
        return None
    return f"answers over the limit of {allowed:,} output tokens: {over}, the longest of {max(lengths):,}"


_RESIDUALS = (
    ("residual_agent_relay_tokens", "the agent's claims and what passed the relay"),
    ("residual_relay_engine_tokens", "what passed the relay and what the engine counted"),
    ("residual_agent_engine_tokens", "the agent's claims and what the engine counted"),
)


def _residual(figure: Figure | None, between: str) -> str | None:
    if figure is None or not figure.value:
        return None
    more = f" ({_tamed(figure.includes, _SAID_CHARACTERS)})" if figure.includes else ""
    return f"{figure.value:,} tokens lie between {between}{more}"


def _disagreeing(pairs: Sequence[ToldTwice]) -> str | None:
    if not pairs:
        return None
    places = _listed(_place(one) for one in pairs)
    return f"responses with other token counts at the relay than the agent claims: {len(pairs)}; {places}"


def _place(one: ToldTwice) -> str:
    """`session 003, request 2: 1,200 prompt and 50 output tokens seen, 1,100 and 50 claimed`."""
    numbers = ", ".join(str(seen.index) for seen in one.requests)
    (prompt, said_prompt), (output, said_output) = one.prompts, one.outputs
    seen = f"{_number(prompt)} prompt and {_number(output)} output tokens seen"
    return (
        f"session {one.claim.session:03d}, request {numbers}: {seen}, "
        f"{_number(said_prompt)} and {_number(said_output)} claimed"
    )


def _lonely(evidence: Evidence, alone: Sequence[Alone]) -> list[str | None]:
    """Requests without a claim and claims without a request.

    Left out is what nothing could match, as far as both sides tell it equally often: failures, and the answers of an
    agent that gives no counts.
    """
    cut = {row.session for row in evidence.agent_sessions if row.outcome in _ENDED_BY_US}
    left = [one for one in alone if not _broken_off(one, cut)]
    requests = [one for one in left if one.request is not None]
    claims = [one for one in left if one.claim is not None]
    nameless = (True, False) if evidence.uncounted else (True,)
    both = Counter(map(_told_in, requests)) & Counter(map(_told_in, claims))
    both = Counter({(session, failed): count for (session, failed), count in both.items() if failed in nameless})
    return [
        _kinds(_without(requests, both), "requests without a claim of the agent"),
        _kinds(_without(claims, both), "claims of the agent without a request at the relay"),
    ]


def _told_in(one: Alone) -> tuple[int, bool]:
    """Its session, and whether it failed."""
    told = one.request or one.claim
    return one.session, told is not None and told.error is not None


def _without(alone: Sequence[Alone], both: Mapping[tuple[int, bool], int]) -> list[Alone]:
    """All but the first so many of each kind and session."""
    left = dict(both)
    kept = []
    for one in alone:
        if left.get(_told_in(one), 0):
            left[_told_in(one)] -= 1
        else:
            kept.append(one)
    return kept


def _broken_off(one: Alone, cut: set[int]) -> bool:
    return one.session in cut and one.reason.startswith("aborted")


def _kinds(alone: Sequence[Alone], what: str) -> str | None:
    if not alone:
        return None
    kinds = Counter(_tamed(one.reason.partition(":")[0], _NAME_CHARACTERS) for one in alone)
    sessions = sorted({one.session for one in alone})
    where = ", ".join(f"{number:03d}" for number in sessions[:_NAMED])
    more = f" and {len(sessions) - _NAMED} more" if len(sessions) > _NAMED else ""
    parts = _listed(f"{kind} ({count})" for kind, count in kinds.most_common())
    return f"{what}: {len(alone)}, of these {parts}; sessions {where}{more}"


def _counted_apart(value: Mapping[str, Figure]) -> list[str | None]:
    """Retries and compactions as the relay saw them and as the agent tells them."""
    again, told = (_count(value.get(name)) for name in ("retried_requests", "agent_retries"))
    summaries, shortened = (_count(value.get(name)) for name in ("compaction_requests", "compactions"))
    return [
        f"requests asked again: {again} at the relay, {told} in the agent's words"
        if again is not None and told is not None and again != told
        else None,
        f"summaries of the conversation: {summaries} requests at the relay, {shortened} compactions in the agent's words"
        if summaries is not None and shortened is not None and bool(summaries) != bool(shortened)
        else None,
    ]


def _count(figure: Figure | None) -> int | None:
    return None if figure is None or figure.value is None else int(figure.value)


def _number(count: int | None) -> str:
    return "not told" if count is None else f"{count:,}"


def _tamed(text: str, characters: int) -> str:
    """One line of text that somebody else may have written, cut short."""
    short = text if len(text) <= characters else f"{text[: characters - 1]}…"
    return " ".join(tame(short, characters).split())


def _listed(parts: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    listed = list(parts)
    more = f"; and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return "; ".join(listed[:_NAMED]) + more
