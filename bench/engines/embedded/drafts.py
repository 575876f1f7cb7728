"""Multi-token drafts: how many tokens a decode step drafts and how many of them hold.

The "model" always says what its script says, so acceptance is a rule of its own: whether the draft of one output
position holds is decided by a hash of the prompt and that position. A draft is accepted up to its first wrong token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

POSITION_HOLDS = 0.825
"""Share of positions whose draft holds: with four drafts a step, about 63 % of the drafted tokens are accepted."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One decode step. It gives `accepted_tokens + 1` tokens."""

    drafted_tokens: int
    accepted_tokens: int


def decode_steps(*, output_tokens: int, draft_tokens: int, seed: bytes) -> Iterator[Step]:
    """The steps after the first token (which prefill gives) up to exactly `output_tokens`.

    No step drafts further than the last token that may be given.
    """
    position = 1
    while position < output_tokens:
        drafted = min(draft_tokens, output_tokens - position - 1)
        accepted = 0
        while accepted < drafted and _holds(seed, position + accepted):
            accepted += 1
        yield Step(drafted_tokens=drafted, accepted_tokens=accepted)
        position += accepted + 1


def _holds(seed: bytes, position: int) -> bool:
    digest = blake2b(position.to_bytes(8, "big"), digest_size=8, key=seed[:64]).digest()
    return int.from_bytes(digest, "big") < POSITION_HOLDS * 2**64
