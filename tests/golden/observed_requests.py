"""The requests of a run of 62 sessions whose totals are those of the published run of 2026-10-12; the same every time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

FRESH, CACHED, OUTPUT, REASONING = 4_001_102, 25_155_774, 807_277, 584_641
DRAFTED, ACCEPTED = 550_069, 346_605
LONGEST_PROMPT = 113_626
MATCHED, ERROR_RESPONSES, TOOL_CALLS = 872, 26, 1_099
TTFT_MEDIAN, TTFT_P90, DECODE_RATE = 3_064_000, 19_180_000, 40.14
COMPACTED = 37
"""Session in which the agent shortened its history once."""


@dataclass
class Answer:
    """One successful response. Instants and durations in microseconds of engine time."""

    prompt: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    drafted: int = 0
    accepted: int = 0
    ttft: int = 0
    decode: int = 0
    calls: int = 1
    compaction: bool = False
    disturbed: bool = False
    """Another client's request ends while this one runs, so its counters cannot be told apart."""

    @property
    def fresh(self) -> int:
        return self.prompt - self.cached

    @property
    def key(self) -> tuple[int, int, int]:
        return self.prompt, self.output, self.cached


@dataclass
class Session:
    number: int
    segment: int
    role: str
    task: str | None
    attempt: int
    retry: int
    failed: bool
    """Ended by the engine, which has no memory for the next prompt."""

    verdict: str | None
    verified: bool | None
    """How the verify run after it ended; None: there was none."""

    answers: list[Answer]
    errors: int = 0


def sessions() -> list[Session]:
    """All sessions with their answers, in order."""
    dice = random.Random(20261012)
    listed = _course()
    everything = [answer for session in listed for answer in session.answers]
    repeated = _repeat(listed)
    free = [answer for answer in everything if id(answer) not in {id(one) for one in repeated}]
    _counts(dice, free, repeated)
    _times(dice, everything)
    assert sum(count > 1 for count in Counter(answer.key for answer in everything).values()) == 17
    assert len(everything) == MATCHED
    return listed


def _course() -> list[Session]:
    """Who did what: 1 bootstrap, 40 builders, 18 reviewers, 2 replans, 1 final reviewer; 14, 7, 0 engine errors."""
    listed: list[Session] = []

    def run(segment, role, answers, task=None, attempt=1, *, retry=0, **more):
        values = {"failed": False, "verdict": None, "verified": None, **more}
        made = [Answer() for _ in range(answers)]
        listed.append(Session(len(listed) + 1, segment, role, task, attempt, retry, answers=made, **values))

    def build(segment, task, attempt=1, retry=0, verdict="ACCEPT"):
        run(segment, "builder", 43 if segment == 1 else 20, task, attempt, retry=retry, verified=True)
        run(segment, "reviewer", 9, task, attempt, verdict=verdict)

    def fail(segment, task, retries, answers):
        for retry in retries:
            run(segment, "builder", answers(retry), task, 1, retry=retry, failed=True)

    run(1, "bootstrap", 43)
    build(1, "T001")
    fail(1, "T002", range(3), lambda _: 6)
    build(1, "T002", retry=3)
    fail(1, "T003", range(4), lambda _: 6)
    build(1, "T003", retry=4)
    build(1, "T004", verdict="CHANGES")
    build(1, "T004", 2)
    fail(1, "T005", range(2), lambda _: 3)
    build(1, "T005", retry=2)
    fail(1, "T006", range(5), lambda _: 5)
    fail(2, "T006", range(5, 12), lambda _: 5)
    run(3, "builder", 20, "T006", 1, retry=12, verified=False)
    run(3, "replan", 8, "T006")
    build(3, "T006", 2)
    build(3, "T007", verdict="CHANGES")
    build(3, "T007", 2)
    build(3, "T008", verdict="CHANGES")
    build(3, "T008", 2, verdict="CHANGES")
    run(3, "replan", 8, "T008")
    build(3, "T008", 3)
    for number in range(9, 15):
        build(3, f"T{number:03d}")
    run(3, "final-reviewer", 25, verdict="ACCEPT")
    listed[COMPACTED - 1].answers[12].compaction = True
    failed = [session for session in listed if session.failed]
    for place, session in enumerate(failed):
        session.errors = 2 if place < ERROR_RESPONSES - len(failed) else 1
    quiet = [one for session in listed for one in session.answers[:-1] if not one.compaction]
    talking = [one for session in listed if session.failed for one in session.answers[-1:]]
    for session in listed:
        if not session.failed:
            session.answers[-1].calls = 0
    listed[COMPACTED - 1].answers[12].calls = 0
    for one in quiet[: TOOL_CALLS - len(quiet) - len(talking)]:
        one.calls = 2
    return listed


def _repeat(listed: list[Session]) -> list[Answer]:
    """Greedy sampling repeats itself where a session is run again: 17 keys, each once a session, in the same order."""
    repeated = []
    for task, retries, length in (("T002", range(1, 3), 6), ("T003", range(1, 4), 6), ("T006", range(1, 12), 5)):
        for session in listed:
            if session.failed and session.task == task and session.retry in retries:
                for place, one in enumerate(session.answers[:length]):
                    base = int(task[1:]) * 1_000 + place * 37
                    one.prompt, one.cached, one.output = 9_000 + base + place * 900, 8_192 + place * 900, 300 + place
                    one.reasoning, one.drafted, one.accepted = 200 + place, 210, 130 + place
                    repeated.append(one)
    return repeated


def _counts(dice: random.Random, free: list[Answer], repeated: list[Answer]) -> None:
    """Gives the answers counts that add up to the totals, those of the repeated ones taken off."""

    def left(total: int, name: str) -> int:
        return total - sum(getattr(one, name) for one in repeated)

    longest = max(range(len(free)), key=lambda place: (place * 7_919) % 787)
    others = [place for place in range(len(free)) if place != longest]
    prompts = fit(
        [dice.uniform(0.3, 2.2) for _ in others],
        left(FRESH + CACHED, "prompt") - LONGEST_PROMPT,
        [LONGEST_PROMPT - 1 - place % 97 for place in others],
    )
    free[longest].prompt = LONGEST_PROMPT
    for place, prompt in zip(others, prompts, strict=True):
        free[place].prompt = prompt
    fresh = fit(
        [dice.paretovariate(1.2) for _ in free],
        FRESH - sum(one.fresh for one in repeated),
        [one.prompt for one in free],
    )
    outputs = fit([dice.lognormvariate(0, 0.8) for _ in free], left(OUTPUT, "output"), [16_000] * len(free))
    for one, new, output in zip(free, fresh, outputs, strict=True):
        one.cached, one.output = one.prompt - new, output
    reasoning = fit([one.output * dice.uniform(0.5, 1) for one in free], left(REASONING, "reasoning"), outputs)
    drafted = fit([one.output * dice.uniform(0.8, 1.2) for one in free], left(DRAFTED, "drafted"), [10**6] * len(free))
    accepted = fit([count * dice.uniform(0.5, 1) for count in drafted], left(ACCEPTED, "accepted"), drafted)
    for one, *counts in zip(free, reasoning, drafted, accepted, strict=True):
        one.reasoning, one.drafted, one.accepted = counts


def _times(dice: random.Random, answers: list[Answer]) -> None:
    """TTFT by how much was fresh, with the published median and p90; decode seconds with the published rate."""
    candidates = [one for one in answers if not one.compaction and one.fresh > 2_000]
    disturbed = candidates[len(candidates) // 2]
    disturbed.disturbed, disturbed.ttft, disturbed.decode = True, 2_500_000, disturbed.output * 25_000
    timed = sorted((one for one in answers if one is not disturbed), key=lambda one: (one.fresh, one.key))
    middle, high = (len(timed) - 1) // 2, (len(timed) - 1) * 9 // 10
    values = [dice.randrange(300_000, TTFT_MEDIAN) for _ in range(middle)]
    values += [TTFT_MEDIAN, *(dice.randrange(TTFT_MEDIAN, TTFT_P90) for _ in range(high - middle - 1))]
    values += [TTFT_P90, *(dice.randrange(TTFT_P90, 60_000_000) for _ in range(len(timed) - high - 1))]
    for one, ttft in zip(timed, sorted(values), strict=True):
        one.ttft = ttft
    total = round(sum(one.output for one in timed) * 1_000_000 / DECODE_RATE)
    spent = fit([one.output * dice.uniform(0.85, 1.15) for one in timed], total, [10**9] * len(timed))
    for one, decode in zip(timed, spent, strict=True):
        one.decode = decode


def fit(weights: list[float], total: int, most: list[int], least: int = 1) -> list[int]:
    """Whole numbers in proportion to weights, between `least` and `most`, that add up to `total`."""
    low, high = 0.0, float(total)
    for _ in range(200):
        scale = (low + high) / 2
        made = [min(cap, max(least, int(weight * scale))) for weight, cap in zip(weights, most, strict=True)]
        low, high = (scale, high) if sum(made) <= total else (low, scale)
    made = [min(cap, max(least, int(weight * low))) for weight, cap in zip(weights, most, strict=True)]
    missing = total - sum(made)
    for place, cap in enumerate(most):
        added = min(missing, 1, cap - made[place])
        made[place] += added
        missing -= added
    assert missing == 0, missing
    assert sum(made) == total
    return made
