"""Which part of the engine's counters belongs to which request? Two readings around it tell, if it was alone.

A request gets what the counters grew by between the newest reading before it and the first one after it, only if

* it was alone: every other request of this launch had ended when the reading before was asked for, and none was sent
  before it ended itself. Engines count parts of a request while it runs, so overlapping ones cannot be told apart;
* what ended before it was counted already, as far as the engine may be late;
* the counter of finished requests, where there is one, grew by exactly one;
* the prompt and the output grew by exactly what the response says it used;
* a time that is the sum of a histogram had exactly one observation: engines note the first token when it comes, and
  count the rest when the request is finished, so another client's may lie in the window without its counts.

Else its figures stay None with the reason. Counters that fell mean that the engine was started anew.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from bench.engine_profile import EngineProfile, MetricsPage
from bench.measure.counters import OBSERVATIONS, ROUNDED_DIGITS
from bench.measure.endpoints import MODELS_PATH
from bench.measure.taken_figures import TIMINGS, Offer, lacking, take
from bench.records.schema import EngineSummary, RequestRecord, Scrape

_ROUNDED_SHARE = 0.01
"""By so much of its value a time may be off because the page prints few digits."""

_EXACT_DECIMALS = 9
"""Differences of counters are rounded to nanoseconds: what is beyond is noise of the subtraction."""


def attribute(
    requests: Sequence[RequestRecord], scrapes: Sequence[Scrape], profile: EngineProfile
) -> tuple[RequestRecord, ...]:
    """The requests in the order given, with what the counters say of those whose response did not.

    `requests` must hold every exchange that the relay knows, the preflight's too, so that nothing disturbs unseen. Asking
    for the list of models disturbs nothing.
    """
    metrics = profile.metrics
    if metrics is None:
        return tuple(requests)
    told = list(requests)
    computed = [place for place, request in enumerate(requests) if request.path != MODELS_PATH]
    computed.sort(key=lambda place: requests[place].ended_at)
    for process in {request.engine_process for request in requests}:
        places = [place for place in computed if requests[place].engine_process == process]
        readings = sorted((one for one in scrapes if one.engine_process == process), key=lambda one: one.asked_at)
        offers = _offers([requests[place] for place in places], readings, metrics)
        for place, offer in zip(places, offers, strict=True):
            if any(name in metrics.series for name in lacking(requests[place])):
                told[place] = take(requests[place], offer, profile)
    return tuple(told)


def attribute_summaries(
    requests: Sequence[RequestRecord],
    summaries: Mapping[tuple[int, int], EngineSummary],
    profile: EngineProfile,
) -> tuple[RequestRecord, ...]:
    """The requests in the order given, with what the engine's log says of those that still lack figures.

    `summaries`: (session, index) of a request -> the summary that was matched to it. One whose counts are not the
    response's gives nothing.
    """
    told = []
    for request in requests:
        summary = summaries.get((request.session, request.index))
        if summary is None or not lacking(request):
            told.append(request)
            continue
        for name in ("prompt_tokens", "cached_tokens", "output_tokens"):
            said, known = getattr(summary, name), getattr(request, name)
            if said is not None and known is not None and said != known:
                reason = f"engine log: line {summary.line} says {name} {said}, the response {known}"
                told.append(take(request, Offer(source="engine-log", reasons=(reason,)), profile))
                break
        else:
            offered = {name: getattr(summary, name) for name in lacking(request)}
            values = {name: value for name, value in offered.items() if value is not None}
            told.append(take(request, Offer(source="engine-log", values=values), profile))
    return tuple(told)


class _UnattributedError(Exception):
    """The counters say nothing of a request; the text says why."""


@dataclass(frozen=True, kw_only=True)
class _Gap:
    """What lies around one request among those of its launch, in order of their ends."""

    request: RequestRecord
    previous: RequestRecord | None
    settled_by: Scrape | None
    """The reading in which the engine had surely counted all that ended before; None: none did."""

    next_sent_at: float
    """When the first of the requests that ended later was sent; infinite after the last one."""

    before: tuple[Scrape, ...]
    """Usable readings asked for after the previous end and answered before this one's."""

    after: tuple[Scrape, ...]
    """Usable readings asked for after this end and answered before the next one's."""


def _offers(requests: Sequence[RequestRecord], readings: Sequence[Scrape], metrics: MetricsPage) -> list[Offer]:
    """What the counters say of each request of one launch. Both in order of time."""
    usable = [reading for reading in readings if reading.values]
    lost = sum(not reading.values for reading in readings)
    asked = [reading.asked_at for reading in usable]
    ends = [request.ended_at for request in requests]
    # The earliest instant at which anything that ended later was sent.
    later_sent = [*accumulate(reversed([one.sent_at for one in requests[1:]]), min, initial=math.inf)][::-1]

    def between(start: float, end: float) -> tuple[Scrape, ...]:
        following = (usable[number] for number in range(bisect_left(asked, start), len(usable)))
        return tuple(one for one in takewhile(lambda one: one.asked_at <= end, following) if one.answered_at <= end)

    offers: list[Offer] = []
    settled: Scrape | None = None
    bounds = [-math.inf, *ends, math.inf]
    for number, request in enumerate(requests):
        gap = _Gap(
            request=request,
            previous=requests[number - 1] if number else None,
            settled_by=settled,
            next_sent_at=later_sent[number],
            before=between(bounds[number], request.ended_at),
            after=between(request.ended_at, bounds[number + 2]),
        )
        settled = None
        try:
            window = _window(gap, metrics, lost)
            growth = _growth(*window)
            settled = window[1] if _finished(growth, *window) else None
            _check_counts(growth, request)
        except _UnattributedError as error:
            offers.append(Offer(source="engine-counter", reasons=(f"counters: {error}",)))
        else:
            offers.append(_offer(growth, request, metrics, *window))
    return offers


def _window(gap: _Gap, metrics: MetricsPage, lost: int) -> tuple[Scrape, Scrape]:
    """The readings before and after a request. Raises _UnattributedError where they do not enclose it alone."""
    lost_too = f" ({lost} readings of this launch are lost)" if lost else ""
    if gap.next_sent_at < gap.request.ended_at:
        raise _UnattributedError("another request ran at the same time")
    if not gap.before:
        raise _UnattributedError(f"no reading between the end of the request before and this one's{lost_too}")
    if not gap.after:
        raise _UnattributedError(f"no reading between this end and the next request's{lost_too}")
    early = [reading for reading in gap.before if reading.answered_at <= gap.request.sent_at]
    before = (early or gap.before)[-1]
    previous = gap.previous
    if previous is not None:
        if (
            metrics.late_seconds
            and (gap.settled_by is None or before.asked_at < gap.settled_by.asked_at)
            and before.asked_at < previous.ended_at + metrics.late_seconds
        ):
            raise _UnattributedError("the request before may not have been counted yet when the page was read")
        if previous.error is not None and not early:
            raise _UnattributedError("the request before failed, and no reading lies between it and this one")
    return before, _after(gap, before, metrics)


def _after(gap: _Gap, before: Scrape, metrics: MetricsPage) -> Scrape:
    """The first reading that counts the request; where none does or it cannot be told, the last that nothing disturbs."""
    finished = before.values.get("finished_requests")
    if finished is not None:
        for reading in gap.after:
            if reading.values.get("finished_requests", finished) != finished:
                return reading
    quiet = [reading for reading in gap.after if reading.answered_at <= gap.next_sent_at]
    return quiet[-1] if quiet and metrics.late_seconds else gap.after[0]


def _growth(before: Scrape, after: Scrape) -> Mapping[str, float]:
    """By how much each counter that both readings have grew. Raises _UnattributedError where one fell."""
    growth = {name: after.values[name] - value for name, value in before.values.items() if name in after.values}
    fallen = [name for name, grown in growth.items() if grown < 0]
    if fallen:
        raise _UnattributedError(f"{', '.join(fallen)} fell: the engine was started anew")
    return growth


def _finished(growth: Mapping[str, float], before: Scrape, after: Scrape) -> bool:
    """Whether the engine counts finished requests. Raises _UnattributedError where it did not count exactly one."""
    name = "finished_requests"
    if name not in growth:
        if name in before.values or name in after.values:
            raise _UnattributedError(f"{name} is not on both pages")
        return False
    if growth[name] != 1:
        raise _UnattributedError(f"{growth[name]:.0f} requests were counted between the readings, not one")
    return True


def _check_counts(growth: Mapping[str, float], request: RequestRecord) -> None:
    """Raises _UnattributedError unless the counters grew by what the response says it used."""
    prompt, cached, output = request.prompt_tokens, request.cached_tokens, request.output_tokens
    if prompt is None or output is None:
        raise _UnattributedError("the response does not say what it used, so nothing can be checked")
    used = {"prompt_tokens": prompt, "output_tokens": output}
    if cached is not None:
        used |= {"cached_tokens": cached, "computed_prompt_tokens": prompt - cached}
    for name, tokens in used.items():
        if name in growth and growth[name] != tokens:
            raise _UnattributedError(f"{name} grew by {growth[name]:.0f}, the response used {tokens}")
    if "output_tokens" not in growth or not ({"prompt_tokens", "computed_prompt_tokens"} & growth.keys() & used.keys()):
        raise _UnattributedError("the page does not count what the response says it used, so nothing can be checked")


def _offer(
    growth: Mapping[str, float], request: RequestRecord, metrics: MetricsPage, before: Scrape, after: Scrape
) -> Offer:
    values, reasons = {}, []
    for name in (name for name in lacking(request) if name in metrics.series):
        if name not in growth:
            reasons.append(f"{name}: its counter is not on both pages")
        elif (timed := growth.get(OBSERVATIONS.format(name), 1)) != 1:
            reasons.append(f"{name}: {timed:.0f} requests were timed between the readings, not one")
        elif name in TIMINGS and (off := _step(name, before, after)) > _ROUNDED_SHARE * growth[name] > 0:
            reasons.append(f"{name}: its counter grew by {growth[name]:.3g}, and the page may round by {off:g}")
        else:
            values[name] = round(growth[name], _EXACT_DECIMALS)
    if reasons and after.problem is not None:
        reasons.append(f"counters: {after.problem}")
    return Offer(source="engine-counter", values=values, reasons=tuple(reasons))


def _step(name: str, before: Scrape, after: Scrape) -> float:
    """How far apart numbers as large as this counter are where they are rounded; 0 where they are not."""
    if not (before.rounded or after.rounded) or not after.values[name]:
        return 0.0
    return float(10.0 ** (math.floor(math.log10(after.values[name])) + 1 - ROUNDED_DIGITS))
