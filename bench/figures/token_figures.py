"""How many tokens went in, came out, and were taken from the prefix cache?"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from bench.figures.measured import Formula, Formulas, Measured, absent, joined, missing, total
from bench.figures.run_evidence import Evidence
from bench.figures.session_figures import NO_RUN
from bench.records.schema import RequestRecord


def _max_prompt(evidence: Evidence) -> Measured:
    prompts = [one.prompt_tokens for one in evidence.served if one.prompt_tokens is not None]
    if not prompts:
        return absent(_nothing_served(evidence, "prompt tokens"))
    includes = missing(len(evidence.served) - len(prompts), evidence.served, "requests")
    return Measured(value=max(prompts), n=len(prompts), includes=includes, source=evidence.counted_by)


def _prompt_cache_share(evidence: Evidence) -> Measured:
    known = [
        (one.cached_tokens, one.prompt_tokens)
        for one in evidence.served
        if one.cached_tokens is not None and one.prompt_tokens is not None
    ]
    prompt = sum(whole for _, whole in known)
    if not prompt:
        return absent(_nothing_served(evidence, "cached tokens"), len(known))
    includes = joined(missing(len(evidence.served) - len(known), evidence.served, "requests"), _preflight(evidence))
    share = sum(cached for cached, _ in known) / prompt
    return Measured(value=share, n=len(known), includes=includes, source=evidence.counted_by)


def _preflight(evidence: Evidence) -> str | None:
    """The harness's own first question may have left something in the cache; only a launch's first request can find it."""
    asked = {one.engine_process: one.prompt_tokens or 0 for one in evidence.requests if one.session == 0}
    first: dict[int, RequestRecord] = {}
    for one in sorted(evidence.served, key=lambda one: one.sent_at):
        first.setdefault(one.engine_process, one)
    found = [min(one.cached_tokens or 0, asked.get(process, 0)) for process, one in first.items()]
    return f"up to {sum(found)} cached tokens may come from the preflight" if any(found) else None


def _session_switch(kind: Literal["tokens", "share"]) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        first: dict[int, RequestRecord] = {}
        for one in sorted(evidence.served, key=lambda one: (one.session, one.index)):
            first.setdefault(one.session, one)
        known = [fresh for one in first.values() if (fresh := _fresh(one)) is not None]
        if not known:
            return absent(_nothing_served(evidence, "both prompt and cached tokens"), 0)
        whole = sum(fresh for one in evidence.served if (fresh := _fresh(one)) is not None)
        if kind == "share" and not whole:
            return absent("no request had a fresh prompt token", len(known))
        return Measured(
            value=sum(known) if kind == "tokens" else sum(known) / whole,
            n=len(known),
            includes=missing(len(first) - len(known), list(first), "sessions"),
            source=evidence.counted_by,
        )

    return compute


def _fresh(request: RequestRecord) -> int | None:
    """Prompt tokens that the cache did not have."""
    if request.prompt_tokens is None or request.cached_tokens is None:
        return None
    return max(0, request.prompt_tokens - request.cached_tokens)


def _unreported(kind: Literal["usage", "cached"]) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        if not evidence.served:
            return absent(_nothing_served(evidence, "anything"))
        if kind == "usage":
            silent = [one for one in evidence.served if one.prompt_tokens is None or one.output_tokens is None]
        else:
            silent = [one for one in evidence.served if one.cached_tokens is None]
        return Measured(value=len(silent), n=len(evidence.served), source=evidence.counted_by)

    return compute


def _claimed(name: Literal["input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"]) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        # A response that ended in an error often has nothing to report; what it does report counts.
        told = evidence.split_claims
        claims = [one for one in told if one.error is None or getattr(one, name) is not None]
        silent = len(told) - len(claims)
        nothing = "the agent reports no response" if evidence.ran else NO_RUN
        found = total((getattr(one, name) for one in claims), of_what="responses", nothing=nothing)
        zeros = _untold(evidence, name)
        if found.value is None:
            return replace(found, reason=joined(found.reason, zeros))
        failed = f"{silent} failed responses report none" if silent else None
        return replace(found, includes=joined(found.includes, zeros, failed))

    return compute


def _untold(evidence: Evidence, name: str) -> str | None:
    """How many counts are not taken although the agent gives one."""
    pairs = zip(evidence.claims, evidence.split_claims, strict=True)
    zeros = sum(getattr(said, name) is not None and getattr(taken, name) is None for said, taken in pairs)
    return f"{zeros} answers told no cached count, for which the agent writes 0" if zeros else None


TOKENS: Formulas = {
    "max_prompt_tokens": _max_prompt,
    "fresh_input_tokens": _claimed("input_tokens"),
    "cached_input_tokens": _claimed("cached_tokens"),
    "prompt_cache_share": _prompt_cache_share,
    "session_switch_fresh_tokens": _session_switch("tokens"),
    "session_switch_fresh_share": _session_switch("share"),
    "output_tokens": _claimed("output_tokens"),
    "reasoning_tokens": _claimed("reasoning_tokens"),
    "requests_without_usage": _unreported("usage"),
    "requests_without_cached": _unreported("cached"),
}


def _nothing_served(evidence: Evidence, what: str) -> str:
    if not evidence.ran:
        return "no engine ran: only a project was scored"
    if not evidence.served:
        return "no request was answered whole"
    return f"none of {len(evidence.served)} served requests reports {what}"
