"""The ten hidden cases of group `model`. Each checks one sentence of the brief and looks at nothing else.

`model` is the project's model.mjs in a boxed process; `play` submits prompts to a new cache and returns, for each,
the outcome and the cache after it. `expect(observed, expected, what)` misses the case if they differ.
"""

from playing import play, replay, text

from bench.scoring.case import about, case, expect

# A cache of exactly a thousand tokens, for cases about room.
SMALL = {"capacityBytes": 1_000_000, "bytesPerToken": 1_000}


@case(
    "miss.cold",
    brief="A miss resumes nothing, so its `resumeSeconds` is 0 and its `ttftSeconds` equals its `prefillSeconds`.",
)
def test_first_prompt_of_an_empty_cache(model):
    [cold] = play(model, ("first", text("a", 1_500)))
    expect(
        cold.outcome("kind", "reusedTokens", "resumeSeconds", "ttftSeconds"),
        {"kind": "miss", "reusedTokens": 0, "resumeSeconds": 0, "ttftSeconds": about(cold.seconds("prefillSeconds"))},
        "outcome of the first prompt of an empty cache",
    )


@case("miss.unrelated", brief="The kind is `miss` if no token matches, as for the first prompt of an empty cache.")
def test_prompt_that_begins_differently(model):
    # The last prompt holds all the tokens of a stored one, but behind another beginning.
    *_, unrelated = play(
        model,
        ("manual", text("m", 900)),
        ("letter", text("l", 400)),
        ("other", ["new", *text("m", 900)]),
    )
    expect(
        unrelated.outcome("kind", "reusedTokens", "resumeSeconds", "ttftSeconds"),
        {
            "kind": "miss",
            "reusedTokens": 0,
            "resumeSeconds": 0,
            "ttftSeconds": about(unrelated.seconds("prefillSeconds")),
        },
        "outcome of a prompt that shares no beginning with a stored state",
    )


@case(
    "reuse.whole",
    brief="A prompt equal to a stored state, whatever the ids, stores nothing new: it only makes that state the most "
    "recently used one, and the state keeps its id.",
)
def test_prompt_equal_to_a_stored_state(model):
    *_, equal = play(
        model,
        ("manual", text("m", 800)),
        ("letter", text("l", 300)),
        ("manual again", text("m", 800)),
    )
    expect(
        equal.outcome("kind", "reusedTokens", "prefillTokens", "prefillSeconds", "resumeSeconds"),
        {"kind": "reuse", "reusedTokens": 800, "prefillTokens": 0, "prefillSeconds": 0, "resumeSeconds": about(0.3)},
        "outcome of a prompt equal to a stored state",
    )
    expect(sorted(equal.stored), ["letter", "manual"], "states stored after it")


@case(
    "reuse.extended",
    brief="The kind is `reuse` if the best state is wholly a prefix of the prompt; a state equal to the prompt is one "
    "too.",
)
def test_prompt_that_goes_on_from_a_stored_state(model):
    *_, longer = play(
        model,
        ("question", text("q", 3_000)),
        ("letter", text("l", 700)),
        ("follow-up", [*text("q", 3_000), *text("f", 1_200)]),
        resumeSeconds=0.45,
        prefillTokensPerSecond=2_000,
    )
    expect(
        longer.outcome("kind", "reusedTokens", "prefillTokens", "resumeSeconds", "ttftSeconds"),
        {
            "kind": "reuse",
            "reusedTokens": 3_000,
            "prefillTokens": 1_200,
            "resumeSeconds": about(0.45),
            "ttftSeconds": about(1.05),
        },
        "outcome of a prompt that goes on from a stored state",
    )


@case(
    "partial.longest",
    brief="The best state for a prompt is the stored state that shares the longest prefix with it, compared token by "
    "token from the first token on.",
)
def test_longest_shared_prefix_wins(model):
    # `near` shares most; it is neither the oldest state nor the newest, and `short` is even wholly a prefix.
    shared = text("s", 600)
    *_, partial = play(
        model,
        ("short", shared[:60]),
        ("far", [*shared[:150], *text("x", 500)]),
        ("near", [*shared[:420], *text("y", 200)]),
        ("middle", [*shared[:250], *text("z", 400)]),
        ("prompt", [*shared, *text("p", 100)]),
    )
    expect(
        partial.outcome("kind", "reusedTokens", "resumeSeconds"),
        {"kind": "partial", "reusedTokens": 420, "resumeSeconds": about(0.3)},
        "outcome of a prompt that shares prefixes with four states, the longest of 420 tokens",
    )


@case(
    "evict.oldest",
    brief="To make room, the least recently used states leave, one at a time and no more than needed, until the new "
    "state fits.",
)
def test_oldest_leave_first(model):
    # 800 of 1,000 tokens are in use; 700 more fit exactly when `first` and `second` have left.
    *before, full = play(
        model,
        ("first", text("a", 200)),
        ("second", text("b", 300)),
        ("third", text("c", 300)),
        ("large", text("d", 700)),
        **SMALL,
    )
    expect(
        [served.outcome("evicted") for served in before], [{"evicted": []}] * 3, "evicted while there was room enough"
    )
    expect(full.outcome("evicted"), {"evicted": ["first", "second"]}, "evicted for a prompt of 700 tokens")
    expect(full.stored, ["third", "large"], "states stored after it, least recently used first")


@case(
    "evict.touched",
    brief="The best state counts as used first and the new state after it, so when room has to be made, a state that "
    "has just been resumed is the last of the older ones to leave.",
)
def test_resumed_state_outlives_a_younger_one(model):
    # `chat` is the oldest, but has been resumed since `letter` was stored.
    *_, last = play(
        model,
        ("chat", text("c", 300)),
        ("letter", text("l", 200)),
        ("chat goes on", [*text("c", 300), *text("d", 100)]),
        ("report", text("r", 250)),
        **SMALL,
    )
    expect(sorted(last.stored), ["chat", "chat goes on", "report"], "states stored after `letter` should have left")


@case(
    "refuse.oversized",
    brief="A refused prompt changes nothing: no state is stored, touched or evicted, not even one under the same id.",
)
def test_prompt_larger_than_the_capacity(model):
    # The prompt goes on from the oldest state, which must not be touched by it.
    _, before, refused = play(
        model,
        ("chat", text("c", 300)),
        ("letter", text("l", 200)),
        ("too long", [*text("c", 300), *text("d", 701)]),
        **SMALL,
    )
    zeros = ("reusedTokens", "prefillTokens", "resumeSeconds", "prefillSeconds", "ttftSeconds", "storedBytes")
    expect(
        refused.outcome("kind", *zeros, "evicted"),
        {"kind": "refused"} | dict.fromkeys(zeros, 0) | {"evicted": []},
        "outcome of a prompt of 1,001 tokens where 1,000 fit",
    )
    expect(sorted(refused.stored), ["chat", "letter"], "states stored after it")
    expect(refused.stored, before.stored, "order of the states after it")
    [exact] = play(model, ("exact", text("e", 1_000)), **SMALL)
    expect(exact.stored, ["exact"], "states stored after a prompt of exactly 1,000 tokens")


@case(
    "size.linear",
    brief="The state of a prompt of n tokens takes `n * bytesPerToken` bytes, so with the defaults 15,000 tokens are "
    "1.2 GB (1,200,000,000 bytes).",
)
def test_bytes_grow_with_tokens(model):
    *_, defaults = play(model, ("book", list(range(15_000))), ("page", text("p", 500)), ("word", ["w"]))
    expect(
        defaults.stored_bytes,
        {"book": 1_200_000_000, "page": 40_000_000, "word": 80_000},
        "bytes of states of 15,000, 500 and 1 tokens with the defaults",
    )
    expect(defaults.used_bytes, 1_240_080_000, "bytes used by the three")
    *_, other = play(model, ("page", text("p", 500)), ("line", text("n", 12)), bytesPerToken=1_250)
    expect(other.stored_bytes, {"page": 625_000, "line": 15_000}, "bytes of states at 1,250 bytes a token")
    expect(other.used_bytes, 640_000, "bytes used by the two")


@case(
    "replay.same",
    brief="The same submissions to a new cache with the same options always give the same outcomes, in every cache "
    "and in every process.",
)
def test_same_submissions_give_the_same_outcomes(model):
    prompts = [
        ("chat", text("c", 300)),
        ("letter", text("l", 200)),
        ("chat goes on", [*text("c", 300), *text("d", 100)]),
        ("branch", [*text("c", 150), *text("b", 250)]),
        ("letter again", text("l", 200)),
        ("too long", text("t", 1_001)),
        ("chat", text("n", 400)),
        ("numbers", [1, 2, 3, "3"]),
    ]
    spoiled, plain, at_end, arguments = replay(model, prompts, **SMALL)
    _, elsewhere, _, _ = replay(model, prompts, **SMALL)
    expect([outcome_id(outcome) for outcome in plain], [prompt_id for prompt_id, _ in prompts], "ids of the outcomes")
    expect(spoiled, plain, "outcomes of two caches of one process, the first with its outcomes changed by the caller")
    expect(elsewhere, plain, "outcomes of a second process")
    expect(at_end, plain, "outcomes looked at again after all submissions")
    submitted = [[{"id": prompt_id, "tokens": tokens}] for prompt_id, tokens in prompts]
    expect(arguments, submitted, "arguments after submit")


def outcome_id(outcome):
    return outcome.get("id") if isinstance(outcome, dict) else outcome
