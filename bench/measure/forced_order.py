"""Which pairs of two ordered lists does their order force? Pure: keys in, pairs out.

An assignment pairs entries of equal keys without crossing. Of all assignments with the most pairs, those pairs are
forced that stand in every one of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

POINTS = 2_000
POINTS_PER_ENTRY = 8
"""How many pairs of equal keys are searched in a stretch, whichever is more; above that, the keys that occur most often
are set aside as ambiguous, if neither side of the stretch is a part of the other."""


@dataclass(frozen=True, kw_only=True)
class Forced:
    """Positions that belong together, in order."""

    left: array[int]
    right: array[int]
    set_aside: frozenset[int]
    """Keys that occur too often for all their assignments to be looked at."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.left, self.right, strict=True))


def forced_pairs(left: Sequence[int], right: Sequence[int]) -> Forced:
    """The forced pairs of two lists of keys: small whole numbers from 0. Time and memory grow with the lists only."""
    keys = 1 + max(max(left, default=0), max(right, default=0))
    here, there = bytearray(keys), bytearray(keys)
    for key in left:
        here[key] = 1
    for key in right:
        there[key] = 1
    lefts = array("q", (place for place, key in enumerate(left) if there[key]))
    rights = array("q", (place for place, key in enumerate(right) if here[key]))
    one, other = array("q", (left[place] for place in lefts)), array("q", (right[place] for place in rights))
    found_left, found_right = array("q"), array("q")
    aside: set[int] = set()
    row = place = 0
    cuts = _cuts(one, other, keys)
    cuts.left.append(len(one))
    cuts.right.append(len(other))
    for cut_row, cut_place in zip(cuts.left, cuts.right, strict=True):
        if row < cut_row and place < cut_place:
            pairs, heavy = _stretch(one[row:cut_row], other[place:cut_place])
            found_left.extend(lefts[row + first] for first, _ in pairs)
            found_right.extend(rights[place + second] for _, second in pairs)
            aside |= heavy
        if cut_row < len(one):
            found_left.append(lefts[cut_row])
            found_right.append(rights[cut_place])
        row, place = cut_row + 1, cut_place + 1
    return Forced(left=found_left, right=found_right, set_aside=frozenset(aside))


def _cuts(one: Sequence[int], other: Sequence[int], keys: int) -> Forced:
    """Pairs of keys that occur once on either side and cross no pair of equal keys at all.

    Such a pair can be added to any assignment, so it stands in every best one, and the lists fall apart there.
    """
    first, last, once = array("q", [-1]) * keys, array("q", [-1]) * keys, bytearray(keys)
    for place, key in enumerate(other):
        if first[key] < 0:
            first[key] = place
        last[key] = place
    for key in one:
        once[key] = 1 if once[key] == 0 else 2
    nearest_after = array("q", [0]) * len(one)
    nearest = len(other)
    for row in range(len(one) - 1, -1, -1):
        nearest_after[row] = nearest
        nearest = min(nearest, first[one[row]])
    cuts = Forced(left=array("q"), right=array("q"), set_aside=frozenset())
    furthest_before = -1
    for row, key in enumerate(one):
        place = first[key]
        if place == last[key] and once[key] == 1 and furthest_before < place < nearest_after[row]:
            cuts.left.append(row)
            cuts.right.append(place)
        furthest_before = max(furthest_before, last[key])
    return cuts


def _stretch(one: Sequence[int], other: Sequence[int]) -> tuple[list[tuple[int, int]], frozenset[int]]:
    """The forced pairs between two cuts, and the keys that were set aside."""
    if (found := _inside(one, other)) is not None:
        return found, frozenset()
    if (turned := _inside(other, one)) is not None:
        return [(row, place) for place, row in turned], frozenset()
    aside = _heaviest(one, other, max(POINTS, POINTS_PER_ENTRY * (len(one) + len(other))))
    return _critical(one, other, aside), aside


def _inside(short: Sequence[int], long: Sequence[int]) -> list[tuple[int, int]] | None:
    """The forced pairs where all of `short` stands in `long` in its order, else None.

    Then every best assignment pairs all of `short`, each entry somewhere between its place in the leftmost of them
    and that in the rightmost: it is forced where both agree.
    """
    if len(short) > len(long):
        return None
    leftmost = array("q")
    place = 0
    for key in short:
        while place < len(long) and long[place] != key:
            place += 1
        if place == len(long):
            return None
        leftmost.append(place)
        place += 1
    forced = []
    place = len(long) - 1
    for index in range(len(short) - 1, -1, -1):
        while long[place] != short[index]:
            place -= 1
        if place == leftmost[index]:
            forced.append((index, place))
        place -= 1
    forced.reverse()
    return forced


def _heaviest(one: Sequence[int], other: Sequence[int], points: int) -> frozenset[int]:
    """Keys to be left out so that at most `points` pairs of equal keys remain."""
    there = Counter(other)
    products = {key: count * there[key] for key, count in Counter(one).items()}
    total = sum(products.values())
    aside = set()
    for key, product in sorted(products.items(), key=lambda item: -item[1]):
        if total <= points:
            break
        aside.add(key)
        total -= product
    return frozenset(aside)


def _critical(one: Sequence[int], other: Sequence[int], aside: frozenset[int]) -> list[tuple[int, int]]:
    """Pairs that stand in every longest chain of pairs that grows on both sides.

    A pair's rank from the front is the length of the longest chain that ends in it; from the back, that begins in it.
    It stands in a longest chain if both add up, and in all of them if no other such pair has its rank.
    """
    places: dict[int, list[int]] = defaultdict(list)
    for place, key in enumerate(other):
        if key not in aside:
            places[key].append(place)
    rows = [(index, places[key]) for index, key in enumerate(one) if key not in aside]
    front = _ranks([places_of for _, places_of in rows])
    size = len(other)
    mirrored = {key: [size - 1 - place for place in reversed(places_of)] for key, places_of in places.items()}
    back = _ranks([mirrored[one[index]] for index, _ in reversed(rows)])
    longest = max(front, default=0)
    best: dict[int, tuple[int, int] | None] = {}
    point, total = 0, len(front)
    for index, places_of in rows:
        for place in places_of:
            # `back` lists the same pairs from the last to the first.
            if front[point] + back[total - 1 - point] == longest + 1:
                best[front[point]] = None if front[point] in best else (index, place)
            point += 1
    return [pair for _, pair in sorted(best.items()) if pair is not None]


def _ranks(rows: Sequence[Sequence[int]]) -> array[int]:
    """For every place of every row, in order, the length of the longest chain that ends in it.

    A chain takes at most one place of a row and grows from row to row.
    """
    ranks = array("q")
    tails: list[int] = []
    for places_of in rows:
        found = [bisect_left(tails, place) for place in places_of]
        for rank, place in zip(found, places_of, strict=True):
            # The first place of a rank is its smallest: places grow within a row.
            if rank == len(tails):
                tails.append(place)
            elif place < tails[rank]:
                tails[rank] = place
            ranks.append(rank + 1)
    return ranks
