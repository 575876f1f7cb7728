from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.engines.embedded.prefix_cache import PrefixCache
from bench.engines.embedded.refusal import Refusal
from bench.engines.embedded.state_memory import StateMemory

BLOCK_TOKENS = 4


def memory_of(*, budget_tokens, ram_tokens):
    """One token of state is one byte, so bytes can be read as tokens."""
    cache = PrefixCache(block_bytes=BLOCK_TOKENS, ram_bytes=ram_tokens, ssd_bytes=0, files=None)
    return StateMemory(cache, budget_bytes=budget_tokens, block_tokens=BLOCK_TOKENS, bytes_per_token=1)


def test_a_whole_prompt_again_computes_at_least_one_token():
    memory = memory_of(budget_tokens=100, ram_tokens=50)
    prompt = list("abcdefgh")
    memory.release(memory.admit(prompt, free_bytes=None), prompt)
    assert memory.admit(prompt, free_bytes=None).hit.count == 1
    assert memory.admit([*prompt, "i"], free_bytes=None).hit.count == 2


def test_the_cache_makes_room_before_a_prompt_is_refused():
    memory = memory_of(budget_tokens=20, ram_tokens=16)
    memory.release(memory.admit(list("a" * 16), free_bytes=None), list("a" * 16))
    assert memory.use().ram_cache_bytes == 16
    grant = memory.admit(list("b" * 18), free_bytes=None)
    assert memory.use().ram_cache_bytes == 0
    with pytest.raises(Refusal, match=r"needs 3 bytes more, 2 bytes are free") as caught:
        memory.admit(list("ccc"), free_bytes=None)
    assert (caught.value.status, caught.value.kind) == (400, "insufficient_memory")
    memory.release(grant, [])
    assert memory.admit(list("ccc"), free_bytes=None).reserved_bytes == 3


def test_cached_state_in_ram_needs_no_new_memory():
    memory = memory_of(budget_tokens=20, ram_tokens=16)
    prompt = list("a" * 16)
    memory.release(memory.admit(prompt, free_bytes=None), prompt)
    grant = memory.admit([*prompt, *"bbbb"], free_bytes=4)
    assert (grant.hit.ram_blocks, grant.reserved_bytes) == (4, 4)


def test_what_other_programs_leave_free_is_a_bound_of_its_own():
    memory = memory_of(budget_tokens=100, ram_tokens=16)
    assert memory.admit(list("abcde"), free_bytes=5).reserved_bytes == 5
    with pytest.raises(Refusal, match="needs 5 bytes more, 4 bytes are free"):
        memory.admit(list("abcde"), free_bytes=4)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.text(alphabet="ab", min_size=1, max_size=30), st.integers(0, 3), st.integers(0, 9)), max_size=30
    )
)
def test_the_budget_holds_whatever_runs_together(requests):
    memory = memory_of(budget_tokens=40, ram_tokens=24)
    running = []
    for text, ends, more in requests:
        with suppress(Refusal):
            running.append((memory.admit(list(text), free_bytes=None), list(text) + ["x"] * more))
        for _ in range(min(ends, len(running))):
            memory.release(*running.pop(0))
        use = memory.use()
        assert use.ram_cache_bytes + use.reserved_bytes <= 40
        assert use.ram_cache_bytes <= 24
        assert use.reserved_bytes == sum(grant.reserved_bytes for grant, _ in running)
    for grant, computed in running:
        memory.release(grant, computed)
    assert memory.use().reserved_bytes == 0
