"""The SSD tier's files: one a block, real and small.

A file holds the key of the block before it and what makes the block (its tokens' lengths and text), some hundred
bytes in place of the megabytes of state that a model would store; sizes in the budget are the modelled ones. A file
is believed only if its content hashes to its name.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

KEY_BYTES = 16
ROOT = bytes(KEY_BYTES)
"""Stands for the block before the first."""

_NAME = re.compile(r"[0-9a-f]{32}\.block")


class Block(NamedTuple):
    """Some consecutive tokens of a sequence, told apart by everything before them."""

    key: bytes
    before: bytes
    payload: bytes


def block_of(before: bytes, tokens: list[str]) -> Block:
    """The block of these tokens after the block `before`; equal keys mean equal tokens from the start on."""
    payload = bytes(map(len, tokens)) + "".join(tokens).encode("utf-8", "surrogatepass")
    return Block(key=_key(before, payload), before=before, payload=payload)


def _key(before: bytes, payload: bytes) -> bytes:
    return blake2b(before + payload, digest_size=KEY_BYTES).digest()


class BlockFiles:
    """A folder of block files. Only files with a block's name are ever touched."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def left_over(self) -> list[bytes]:
        """Keys of the files that an earlier launch left, longest unused first."""
        found = [path for path in self._folder.iterdir() if _NAME.fullmatch(path.name) and not path.is_symlink()]
        found.sort(key=lambda path: (path.stat().st_mtime_ns, path.name))
        return [bytes.fromhex(path.stem) for path in found]

    def write(self, block: Block) -> None:
        self._path(block.key).write_bytes(block.before + block.payload)

    def read(self, key: bytes) -> Block | None:
        """None for a file that is gone or damaged."""
        try:
            content = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        before, payload = content[:KEY_BYTES], content[KEY_BYTES:]
        return Block(key=key, before=before, payload=payload) if _key(before, payload) == key else None

    def remove(self, key: bytes) -> None:
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: bytes) -> Path:
        return self._folder / f"{key.hex()}.block"
