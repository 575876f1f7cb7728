from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.engines.embedded.block_files import BlockFiles, block_of
from bench.engines.embedded.prefix_cache import PrefixCache, chain

BLOCK_TOKENS = 2
SEQUENCES = st.lists(st.sampled_from("ab"), max_size=12)


def cache_of(folder: Path, *, ram=3, ssd=4) -> PrefixCache:
    return PrefixCache(block_bytes=10, ram_bytes=ram * 10 + 9, ssd_bytes=ssd * 10, files=BlockFiles(folder))


class NaiveCache:
    """Two lists of prefixes, oldest first; slow and plain."""

    def __init__(self, ram, ssd):
        self.ram_size, self.ssd_size = ram, ssd
        self.ram, self.ssd = [], []

    def hit(self, tokens):
        found = []
        for end in range(BLOCK_TOKENS, len(tokens) + 1, BLOCK_TOKENS):
            prefix = tuple(tokens[:end])
            if prefix not in self.ram and prefix not in self.ssd:
                break
            found.append("ram" if prefix in self.ram else "ssd")
        return found.count("ram"), found.count("ssd")

    def store(self, tokens):
        whole = len(tokens) // BLOCK_TOKENS * BLOCK_TOKENS
        for end in range(whole, 0, -BLOCK_TOKENS):
            prefix = tuple(tokens[:end])
            for tier in (self.ram, self.ssd):
                if prefix in tier:
                    tier.remove(prefix)
            self.ram.append(prefix)
        while len(self.ram) > self.ram_size:
            gone = self.ram.pop(0)
            if self.ssd_size:
                self.ssd.append(gone)
        while len(self.ssd) > self.ssd_size:
            self.ssd.pop(0)


@settings(deadline=None)
@given(ram=st.integers(0, 4), ssd=st.integers(0, 4), sequences=st.lists(SEQUENCES, max_size=25))
def test_agrees_with_a_naive_cache(ram, ssd, sequences):
    with tempfile.TemporaryDirectory() as name:
        cache, naive = cache_of(Path(name), ram=ram, ssd=ssd), NaiveCache(ram, ssd)
        for tokens in sequences:
            blocks = chain(tokens, BLOCK_TOKENS)
            hit = cache.pin(blocks)
            assert (hit.ram_blocks, hit.ssd_blocks) == naive.hit(tokens)
            cache.unpin(hit)
            cache.store(blocks)
            naive.store(tokens)
            assert cache.ram_used_bytes == 10 * len(naive.ram)
            assert cache.ssd_used_bytes == 10 * len(naive.ssd) == 10 * len(list(Path(name).iterdir()))


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=6), max_size=20), st.lists(st.text(min_size=1, max_size=6), max_size=20))
def test_equal_keys_mean_equal_tokens(first, second):
    assert (block_of(b"", first).key == block_of(b"", second).key) == (first == second)


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=6), max_size=40), st.integers(1, 7), st.integers(0, 5))
def test_a_chain_can_be_continued(tokens, size, known):
    whole = chain(tokens, size)
    assert len(whole) == len(tokens) // size
    assert chain(tokens, size, whole[:known]) == whole


def test_pinned_blocks_stay_in_ram(tmp_path):
    cache = cache_of(tmp_path, ram=2)
    first, second = chain("aaaa", BLOCK_TOKENS), chain("bbbb", BLOCK_TOKENS)
    cache.store(first)
    held = cache.pin(first)
    cache.store(second)
    again = cache.pin(first)
    assert again.ram_blocks == 2
    cache.unpin(again)
    cache.unpin(held)
    cache.shrink_ram(2)
    assert cache.pin(first).ssd_blocks == 2


def test_a_damaged_or_lost_file_is_a_miss(tmp_path):
    cache = cache_of(tmp_path, ram=0)
    blocks = chain("aabbab", BLOCK_TOKENS)
    cache.store(blocks)
    assert cache.pin(blocks).ssd_blocks == 3
    (tmp_path / f"{blocks[1].key.hex()}.block").write_bytes(b"something else")
    assert cache.pin(blocks).ssd_blocks == 1
    assert cache.ssd_used_bytes == 20
    (tmp_path / f"{blocks[0].key.hex()}.block").unlink()
    assert cache.pin(blocks).ssd_blocks == 0


def test_files_of_an_earlier_launch(tmp_path):
    (tmp_path / "notes.txt").write_text("not ours")
    (tmp_path / f"{'0' * 32}.block").symlink_to(tmp_path / "notes.txt")
    blocks = chain("aabb", BLOCK_TOKENS)
    cache_of(tmp_path, ram=0).store(blocks)
    files = BlockFiles(tmp_path)
    left_over = files.left_over()
    assert set(left_over) == {block.key for block in blocks}
    cache = cache_of(tmp_path, ram=0)
    assert cache.pin(blocks).ssd_blocks == 0
    cache.adopt(left_over)
    assert cache.pin(blocks).ssd_blocks == 2
    for key in left_over:
        files.remove(key)
    assert len(list(tmp_path.iterdir())) == 2
