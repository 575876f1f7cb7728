"""Rules of the reference model that the ten hidden cases leave out, and some that they do not."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "options",
    [
        "{ capacity: 1 }",
        "{ capacityBytes: 0 }",
        "{ bytesPerToken: -1 }",
        "{ resumeSeconds: NaN }",
        "{ prefillTokensPerSecond: Infinity }",
        "{ capacityBytes: '4' }",
        "{ capacityBytes: 4n }",
        "{ capacityBytes: undefined }",
        "{ toString: 1 }",
        "null",
        "[]",
    ],
)
def test_wrong_options_are_range_errors(reference, options):
    caught = f"try {{ createCache({options}); return 'accepted'; }} catch (error) {{ return error.name; }}"
    assert reference.evaluate(caught) == "RangeError"


def test_wrong_prompts_are_range_errors_and_change_nothing(reference):
    prompts = (
        "undefined, null, 7, {}, { id: '', tokens: [1] }, { id: 1, tokens: [1] }, { id: 'x' }, { id: 'x', tokens: [] },"
        "{ id: 'x', tokens: 'abc' }, { id: 'x', tokens: [1.5] }, { id: 'x', tokens: [NaN] }, { id: 'x', tokens: [1, , 2] },"
        "{ id: 'x', tokens: [null] }, { id: 'x', tokens: [['a']] }, { id: 'x', tokens: { length: 1, 0: 'a' } }"
    )
    names, entries = reference.evaluate(f"""
        const cache = createCache({{ capacityBytes: 20, bytesPerToken: 1 }});
        cache.submit({{ id: 'a', tokens: run('a', 8) }});
        cache.submit({{ id: 'b', tokens: run('b', 8) }});
        const names = [{prompts}].map((prompt) => {{
            try {{ cache.submit(prompt); return JSON.stringify(prompt) ?? 'undefined'; }} catch (error) {{ return error.name; }}
        }});
        return [names, cache.entries()];
    """)
    assert set(names) == {"RangeError"}
    assert entries == [{"id": "a", "tokens": 8, "bytes": 8}, {"id": "b", "tokens": 8, "bytes": 8}]


def test_on_a_tie_a_whole_state_comes_first_then_the_most_recent(reference):
    kind, order = reference.evaluate("""
        const whole = createCache();
        whole.submit({ id: 'whole', tokens: run('a', 5) });
        whole.submit({ id: 'longer', tokens: [...run('a', 5), 'x'] });
        const { kind } = whole.submit({ id: 'new', tokens: [...run('a', 5), 'y'] });
        const parts = createCache();
        parts.submit({ id: 'first', tokens: [...run('a', 5), 'x'] });
        parts.submit({ id: 'second', tokens: [...run('a', 5), 'y'] });
        parts.submit({ id: 'other', tokens: run('o', 5) });
        parts.submit({ id: 'new', tokens: [...run('a', 5), 'z'] });
        return [kind, parts.entries().map((entry) => entry.id)];
    """)
    assert kind == "reuse"
    # The touched one of the two equals is seen by its place: it went behind `other`.
    assert order == ["first", "other", "second", "new"]


def test_a_prompt_inside_a_longer_state_is_partial_and_is_stored(reference):
    outcome, entries = reference.evaluate("""
        const cache = createCache();
        cache.submit({ id: 'long', tokens: run('a', 9) });
        const outcome = cache.submit({ id: 'inside', tokens: run('a', 4) });
        return [outcome, cache.entries().map((entry) => entry.id)];
    """)
    assert (outcome["kind"], outcome["reusedTokens"], outcome["prefillTokens"], outcome["ttftSeconds"]) == (
        "partial",
        4,
        0,
        0.3,
    )
    assert entries == ["long", "inside"]


def test_an_equal_prompt_under_another_id_leaves_that_ids_state_alone(reference):
    assert reference.evaluate("""
        const cache = createCache({ capacityBytes: 20, bytesPerToken: 1 });
        cache.submit({ id: 'a', tokens: run('a', 8) });
        cache.submit({ id: 'b', tokens: run('b', 8) });
        const outcome = cache.submit({ id: 'b', tokens: run('a', 8) });
        return [outcome.kind, outcome.storedBytes, cache.entries().map((entry) => entry.id)];
    """) == ["reuse", 8, ["b", "a"]]


def test_a_state_of_the_same_id_is_replaced_before_anything_is_evicted(reference):
    assert reference.evaluate("""
        const cache = createCache({ capacityBytes: 20, bytesPerToken: 1 });
        cache.submit({ id: 'a', tokens: run('a', 8) });
        cache.submit({ id: 'b', tokens: run('b', 8) });
        const grown = cache.submit({ id: 'b', tokens: run('b', 12) });
        const swapped = cache.submit({ id: 'b', tokens: run('c', 13) });
        return [grown.kind, grown.evicted, swapped.kind, swapped.evicted, cache.usedBytes];
    """) == ["reuse", [], "miss", ["a"], 13]


def test_the_state_that_was_resumed_leaves_last_but_does_leave(reference):
    assert reference.evaluate("""
        const cache = createCache({ capacityBytes: 20, bytesPerToken: 1 });
        cache.submit({ id: 'a', tokens: run('a', 8) });
        cache.submit({ id: 'b', tokens: run('b', 8) });
        return cache.submit({ id: 'c', tokens: [...run('a', 8), ...run('x', 8)] }).evicted;
    """) == ["b", "a"]


def test_nothing_is_shared_with_the_caller(reference):
    assert reference.evaluate("""
        const cache = createCache();
        const tokens = run('a', 5);
        const outcome = cache.submit({ id: 'a', tokens });
        tokens[0] = 'changed';
        outcome.evicted.push('forged');
        cache.entries().pop();
        cache.entries()[0].bytes = 0;
        const again = cache.submit({ id: 'b', tokens: run('a', 5) });
        const frozen = Object.isFrozen(defaults);
        return [again.reusedTokens, again.evicted, cache.entries(), frozen];
    """) == [5, [], [{"id": "a", "tokens": 5, "bytes": 400_000}], True]


def test_a_string_is_not_the_number_it_spells(reference):
    assert (
        reference.evaluate("""
        const cache = createCache();
        cache.submit({ id: 'a', tokens: [1, 2] });
        return cache.submit({ id: 'b', tokens: ['1', 2] }).kind;
    """)
        == "miss"
    )
