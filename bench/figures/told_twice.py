"""What do relay and agent say of the same response? Requests of the relay beside the claim that speaks of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.figures.run_evidence import Evidence
from bench.records.schema import RequestRecord, UsageRecord


@dataclass(frozen=True, kw_only=True)
class ToldTwice:
    """One response, or the several that one claim sums up."""

    requests: tuple[RequestRecord, ...]
    claim: UsageRecord

    @property
    def prompts(self) -> tuple[int | None, int | None]:
        """Prompt tokens as the relay saw them and as the agent claims them."""
        claim = self.claim
        said = None if claim.input_tokens is None else claim.input_tokens + (claim.cached_tokens or 0)
        return _whole_sum(one.prompt_tokens for one in self.requests), said

    @property
    def outputs(self) -> tuple[int | None, int | None]:
        return _whole_sum(one.output_tokens for one in self.requests), self.claim.output_tokens

    @property
    def apart(self) -> int:
        """By how many tokens the two sides differ, as far as both report them."""
        pairs = (self.prompts, self.outputs)
        return sum(abs(seen - said) for seen, said in pairs if seen is not None and said is not None)


@dataclass(frozen=True, kw_only=True)
class Alone:
    """A request or a claim that nothing speaks of on the other side."""

    session: int
    request: RequestRecord | None
    claim: UsageRecord | None
    reason: str

    @property
    def counts(self) -> tuple[int | None, ...]:
        """Its token counts; they do not overlap."""
        if self.request is not None:
            return self.request.prompt_tokens, self.request.output_tokens
        if self.claim is not None:
            return self.claim.input_tokens, self.claim.cached_tokens, self.claim.output_tokens
        return ()


def told_twice(evidence: Evidence) -> tuple[tuple[ToldTwice, ...], tuple[Alone, ...]]:
    """Every asked request and every claim: those that both sides tell, and those that stand alone."""
    requests = {(one.session, one.index): one for one in evidence.asked}
    claims = {(one.session, one.index): one for one in evidence.claims}
    together: dict[tuple[int, int], list[RequestRecord]] = {}
    alone = []
    for match in evidence.matches:
        seen = None if match.request_index is None else requests[match.session, match.request_index]
        said = None if match.usage_index is None else claims[match.session, match.usage_index]
        if seen is not None and said is not None:
            together.setdefault((said.session, said.index), []).append(seen)
        else:
            alone.append(Alone(session=match.session, request=seen, claim=said, reason=match.reason or ""))
    pairs = tuple(ToldTwice(requests=tuple(seen), claim=claims[key]) for key, seen in together.items())
    return pairs, tuple(alone)


def _whole_sum(counts: Iterable[int | None]) -> int | None:
    """The sum; None where one of them is not known."""
    listed = list(counts)
    known = [count for count in listed if count is not None]
    return sum(known) if len(known) == len(listed) else None
