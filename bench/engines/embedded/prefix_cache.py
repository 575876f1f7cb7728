"""The prefix cache: whole blocks of tokens in a RAM tier and an SSD tier, each with least recent use first to go.

A block lies in exactly one tier. What leaves RAM goes to SSD, what leaves SSD is gone; what is used comes (back) to
RAM. Within a sequence the later blocks are the older ones, so a chain is shortened from its end and never torn.
Not safe for threads: `state_memory.py` holds the lock.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from bench.engines.embedded.block_files import ROOT, Block, BlockFiles, block_of


@dataclass(frozen=True, kw_only=True)
class Hit:
    """The longest stored chain of whole blocks that a prompt begins with."""

    blocks: tuple[Block, ...]
    ram_blocks: int
    ssd_blocks: int

    @property
    def count(self) -> int:
        return self.ram_blocks + self.ssd_blocks


def chain(tokens: Sequence[str], block_tokens: int, known: Sequence[Block] = ()) -> tuple[Block, ...]:
    """The whole blocks of a sequence; `known` are its first ones, computed before. A rest at the end has none."""
    blocks = list(known)
    for start in range(len(blocks) * block_tokens, len(tokens) - block_tokens + 1, block_tokens):
        before = blocks[-1].key if blocks else ROOT
        blocks.append(block_of(before, list(tokens[start : start + block_tokens])))
    return tuple(blocks)


class PrefixCache:
    """Sizes are whole blocks' modelled bytes. Without files there is no SSD tier."""

    def __init__(self, *, block_bytes: int, ram_bytes: int, ssd_bytes: int, files: BlockFiles | None) -> None:
        self._block_bytes = block_bytes
        self._ram_blocks = ram_bytes // block_bytes
        self._ssd_blocks = ssd_bytes // block_bytes if files else 0
        self._files = files
        self._ram: OrderedDict[bytes, Block] = OrderedDict()
        self._ssd: OrderedDict[bytes, None] = OrderedDict()
        self._pins: Counter[bytes] = Counter()

    @property
    def ram_used_bytes(self) -> int:
        return len(self._ram) * self._block_bytes

    @property
    def ssd_used_bytes(self) -> int:
        return len(self._ssd) * self._block_bytes

    def adopt(self, keys: Sequence[bytes]) -> None:
        """Takes over an earlier launch's files, given longest unused first."""
        self._ssd.update(dict.fromkeys(keys))
        self._trim_ssd()

    def pin(self, blocks: Sequence[Block]) -> Hit:
        """Looks a prompt's blocks up; those found in RAM stay there until they are unpinned."""
        found: list[Block] = []
        ram_blocks = 0
        for block in blocks:
            if block.key in self._ram:
                ram_blocks += 1
            elif not self._readable(block.key):
                break
            self._pins[block.key] += 1
            found.append(block)
        return Hit(blocks=tuple(found), ram_blocks=ram_blocks, ssd_blocks=len(found) - ram_blocks)

    def unpin(self, hit: Hit) -> None:
        for block in hit.blocks:
            self._pins[block.key] -= 1
            if self._pins[block.key] <= 0:
                del self._pins[block.key]

    def store(self, blocks: Sequence[Block]) -> None:
        """Makes the blocks of a computed sequence the most recently used ones, its first block last of all."""
        for block in reversed(blocks):
            if block.key in self._ssd:
                self._drop_from_ssd(block.key)
            self._ram[block.key] = block
            self._ram.move_to_end(block.key)
        self.shrink_ram(len(self._ram) - self._ram_blocks)

    def shrink_ram(self, blocks: int) -> None:
        """Moves so many blocks (fewer if the rest is pinned) from RAM to SSD."""
        if blocks <= 0:
            return
        unpinned = (key for key in self._ram if key not in self._pins)
        for key in list(islice(unpinned, blocks)):
            block = self._ram.pop(key)
            if self._files is not None and self._ssd_blocks > 0:
                self._files.write(block)
                self._ssd[key] = None
        self._trim_ssd()

    def _trim_ssd(self) -> None:
        while len(self._ssd) > self._ssd_blocks:
            self._drop_from_ssd(next(iter(self._ssd)))

    def _drop_from_ssd(self, key: bytes) -> None:
        del self._ssd[key]
        if self._files is not None:
            self._files.remove(key)

    def _readable(self, key: bytes) -> bool:
        """Whether the SSD tier really has the block; a file that is gone or damaged is forgotten."""
        if key not in self._ssd or self._files is None:
            return False
        if self._files.read(key) is None:
            self._drop_from_ssd(key)
            return False
        return True
