"""How many tokens went in, came out, and were taken from the prefix cache?"""

from __future__ import annotations

from typing import Literal

from bench.figures.measured import Formula, Formulas, Measured, absent, missing, total
from bench.figures.run_evidence import Evidence
from bench.figures.session_figures import NO_RUN


def _max_prompt(evidence: Evidence) -> Measured:
    prompts = [one.prompt_tokens for one in evidence.served if one.prompt_tokens is not None]
    if not prompts:
        return absent(_nothing_served(evidence, "prompt tokens"))
    includes = missing(len(evidence.served) - len(prompts), evidence.served, "requests")
    return Measured(value=max(prompts), n=len(prompts), includes=includes)


def _prompt_cache_share(evidence: Evidence) -> Measured:
    known = [
        (one.cached_tokens, one.prompt_tokens)
        for one in evidence.served
        if one.cached_tokens is not None and one.prompt_tokens is not None
    ]
    prompt = sum(whole for _, whole in known)
    if not prompt:
        return absent(_nothing_served(evidence, "cached tokens"), len(known))
    includes = missing(len(evidence.served) - len(known), evidence.served, "requests")
    return Measured(value=sum(cached for cached, _ in known) / prompt, n=len(known), includes=includes)


def _claimed(name: Literal["input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"]) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        # A response that ended in an error had nothing to report; what it did report counts.
        claims = [one for one in evidence.claims if one.error is None or getattr(one, name) is not None]
        nothing = "the agent reports no response" if evidence.segments else NO_RUN
        return total((getattr(one, name) for one in claims), of_what="responses", nothing=nothing)

    return compute


TOKENS: Formulas = {
    "max_prompt_tokens": _max_prompt,
    "fresh_input_tokens": _claimed("input_tokens"),
    "cached_input_tokens": _claimed("cached_tokens"),
    "prompt_cache_share": _prompt_cache_share,
    "output_tokens": _claimed("output_tokens"),
    "reasoning_tokens": _claimed("reasoning_tokens"),
}


def _nothing_served(evidence: Evidence, what: str) -> str:
    if not evidence.segments:
        return "no engine ran: only a project was scored"
    if not evidence.served:
        return "no request was answered whole"
    return f"none of {len(evidence.served)} served requests reports {what}"
