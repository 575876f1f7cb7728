"""The memory that holds model state: one budget for running requests and the cache's RAM tier, and one lock for both.

A request needs memory for the state of its prompt that is not in RAM already: what it must compute and what comes
back from SSD. The RAM tier makes room before a request is refused. What a session's script leaves free is a second
bound in the same check. State of output tokens comes out of a work area of its own that is not part of the budget,
until the request ends and its blocks go to the RAM tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from bench.engines.embedded.block_files import Block
from bench.engines.embedded.prefix_cache import Hit, PrefixCache, chain
from bench.engines.embedded.refusal import out_of_memory


@dataclass(frozen=True, kw_only=True)
class Grant:
    """Memory and cached blocks that a running request holds."""

    blocks: tuple[Block, ...]
    """All whole blocks of its prompt."""

    hit: Hit
    reserved_bytes: int


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    ram_cache_bytes: int
    ssd_cache_bytes: int
    reserved_bytes: int


class StateMemory:
    """Safe for threads."""

    def __init__(self, cache: PrefixCache, *, budget_bytes: int, block_tokens: int, bytes_per_token: int) -> None:
        self._cache = cache
        self._budget_bytes = budget_bytes
        self._block_tokens = block_tokens
        self._bytes_per_token = bytes_per_token
        self._reserved_bytes = 0
        self._lock = Lock()

    def admit(self, prompt: Sequence[str], *, free_bytes: int | None) -> Grant:
        """Reserves memory for a prompt's new state. Raises Refusal (400, insufficient_memory).

        At least one token of a prompt is always computed, so that there is something to sample from.
        """
        blocks = chain(prompt, self._block_tokens)
        with self._lock:
            hit = self._cache.pin(blocks[: (len(prompt) - 1) // self._block_tokens])
            needed = (len(prompt) - hit.ram_blocks * self._block_tokens) * self._bytes_per_token
            self._make_room(needed)
            free = self._free_bytes() if free_bytes is None else min(self._free_bytes(), free_bytes)
            if needed > free:
                self._cache.unpin(hit)
                raise out_of_memory(needed, max(free, 0))
            self._reserved_bytes += needed
        return Grant(blocks=blocks, hit=hit, reserved_bytes=needed)

    def release(self, grant: Grant, computed: Sequence[str]) -> None:
        """Ends a request: its memory is free again, the whole blocks of what it computed are kept in the cache.

        `computed` is the prompt and what was generated after it; empty when the prefill was not finished.
        """
        blocks = chain(computed, self._block_tokens, grant.blocks) if computed else ()
        with self._lock:
            self._reserved_bytes -= grant.reserved_bytes
            self._cache.unpin(grant.hit)
            self._cache.store(blocks)
            self._make_room(0)

    def use(self) -> MemoryUse:
        with self._lock:
            return MemoryUse(
                ram_cache_bytes=self._cache.ram_used_bytes,
                ssd_cache_bytes=self._cache.ssd_used_bytes,
                reserved_bytes=self._reserved_bytes,
            )

    def _free_bytes(self) -> int:
        return self._budget_bytes - self._reserved_bytes - self._cache.ram_used_bytes

    def _make_room(self, needed_bytes: int) -> None:
        """Shrinks the RAM tier by whole blocks until so much is free, as far as its blocks are not in use."""
        missing = needed_bytes - self._free_bytes()
        self._cache.shrink_ram(-(-missing // (self._block_tokens * self._bytes_per_token)))
