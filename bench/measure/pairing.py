"""How are two lists of ended requests paired? By id, else by token counts where the order leaves no other choice."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from bench.measure.forced_order import forced_pairs

_OVERLAPPED = "ambiguous: these counts are repeated, and the requests overlapped"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One list, in the order in which its requests ended."""

    ids: Sequence[Hashable | None] | None
    """What names an entry on both sides; None: nothing does, of this entry or of the whole list."""

    keys: Iterable[Hashable | None]
    """Token counts; None: not known. Gone through once."""

    begins: Sequence[float] | None = None
    ends: Sequence[float] | None = None
    """When each began and ended. None: the order is certain."""


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Positions that belong together, and why the others stand alone."""

    partner: Sequence[int]
    """Position on the left -> position on the right; below 0: it stands alone."""

    by_id: frozenset[int]
    """Positions on the left that an id paired; the others were forced by order."""

    why_left: dict[int, str]
    why_right: dict[int, str]
    """Only what is known from ids and keys alone; an entry without a reason has no counterpart with its id or counts."""

    repeated_keys: int
    """How many keys occur more than once among the pairs that order forced."""


def pair(left: Side, right: Side) -> Paired:
    """Pairs two lists; the instants of the left are looked at, those of the right are not.

    An id that occurs twice on one side proves nothing. Where both sides have ids, an entry with an id is never paired
    by its counts. Requests that overlapped may have ended in another order than either list says: a key that is
    repeated among them is ambiguous, and one that occurs once on either side needs only to cross no pair whose order is
    certain.
    """
    mine, theirs, keys = _numbered(left.keys, right.keys)
    partner = array("q", [-1]) * len(mine)
    why_left: dict[int, str] = {}
    why_right: dict[int, str] = {}
    if left.ids is None or right.ids is None:
        by_id: frozenset[int] = frozenset()
        rows: Sequence[int] = range(len(mine))
        columns: Sequence[int] = range(len(theirs))
    else:
        by_id = _by_id(left.ids, right.ids, partner, (why_left, why_right))
        rows = _nameless(left.ids)
        columns = _nameless(right.ids)
    ours = _Counts(mine, theirs, rows, columns, keys)
    forced = forced_pairs(ours.keys_of(mine, ours.rows), ours.keys_of(theirs, ours.columns))
    for row, column in zip(forced.left, forced.right, strict=True):
        partner[ours.rows[row]] = ours.columns[column]
    if left.begins is not None and left.ends is not None:
        _mind_overlaps(ours, partner, why_left, left.begins, left.ends)
    repeated = ours.explain(partner, why_left, why_right)
    return Paired(partner=partner, by_id=by_id, why_left=why_left, why_right=why_right, repeated_keys=repeated)


def _numbered(left: Iterable[Hashable | None], right: Iterable[Hashable | None]) -> tuple[array[int], array[int], int]:
    """The keys as numbers from 0, and how many of them the left has; -1: not known, or not on the left."""
    numbers: dict[Hashable, int] = {}
    mine = array("q", (-1 if key is None else numbers.setdefault(key, len(numbers)) for key in left))
    theirs = array("q", (-1 if key is None else numbers.get(key, -1) for key in right))
    return mine, theirs, len(numbers)


class _Counts:
    """What may be paired by its key: which entries, and how often each key stands on either side."""

    def __init__(
        self, mine: Sequence[int], theirs: Sequence[int], rows: Iterable[int], columns: Iterable[int], keys: int
    ) -> None:
        self.mine, self.theirs = mine, theirs
        self.rows = array("q", (row for row in rows if mine[row] >= 0))
        self.columns = array("q", (column for column in columns if theirs[column] >= 0))
        self.here, self.there = array("q", [0]) * keys, array("q", [0]) * keys
        for row in self.rows:
            self.here[mine[row]] += 1
        for column in self.columns:
            self.there[theirs[column]] += 1

    @staticmethod
    def keys_of(keys: Sequence[int], places: Sequence[int]) -> array[int]:
        return array("q", (keys[place] for place in places))

    def once(self, key: int) -> bool:
        """Whether the key stands exactly once on either side."""
        return self.here[key] == self.there[key] == 1

    def explain(self, partner: Sequence[int], why_left: dict[int, str], why_right: dict[int, str]) -> int:
        """Says of what stayed alone although its counts stand on the other side that they do.

        Gives how many keys were paired more than once.
        """
        here, there = array("q", self.here), array("q", self.there)
        paired: Counter[int] = Counter()
        taken = bytearray(len(self.theirs))
        for row in self.rows:
            if partner[row] >= 0:
                key = self.mine[row]
                here[key] -= 1
                there[key] -= 1
                taken[partner[row]] = 1
                if self.here[key] > 1:
                    paired[key] += 1
        for row in self.rows:
            key = self.mine[row]
            if partner[row] < 0 and there[key]:
                why_left.setdefault(row, _undecided(here[key], there[key]))
        for column in self.columns:
            key = self.theirs[column]
            if not taken[column] and here[key]:
                why_right.setdefault(column, _undecided(here[key], there[key]))
        return sum(count > 1 for count in paired.values())


def _undecided(here: int, there: int) -> str:
    return f"ambiguous: its counts stand {here} times on one side and {there} on the other, and no order decides"


def _by_id(
    left: Sequence[Hashable | None],
    right: Sequence[Hashable | None],
    partner: array[int],
    reasons: tuple[dict[int, str], dict[int, str]],
) -> frozenset[int]:
    """Pairs what an id names on both sides once; the positions on the left."""
    asked, told = Counter(left), Counter(right)
    there = {one: place for place, one in enumerate(right) if one is not None}
    found = []
    for place, one in enumerate(left):
        if one is not None and asked[one] == told[one] == 1:
            partner[place] = there[one]
            found.append(place)
    for ids, why in zip((left, right), reasons, strict=True):
        for place, one in enumerate(ids):
            if one is not None and asked[one] and told[one] and not asked[one] == told[one] == 1:
                why[place] = f"ambiguous: its id occurs {asked[one]} times on one side and {told[one]} on the other"
    return frozenset(found)


def _nameless(ids: Sequence[Hashable | None]) -> list[int]:
    return [place for place, one in enumerate(ids) if one is None]


# --- overlaps ------------------------------------------------------------------------------------------------------


def _mind_overlaps(
    counts: _Counts, partner: array[int], why: dict[int, str], begins: Sequence[float], ends: Sequence[float]
) -> None:
    """Takes back what rests on an order that is not certain, and adds what no order can deny."""
    mine = counts.mine
    repeated: dict[int, list[int]] = defaultdict(list)
    lonely = []
    for row in counts.rows:
        if counts.there[mine[row]] and not counts.once(mine[row]):
            repeated[mine[row]].append(row)
        elif partner[row] < 0 and counts.once(mine[row]):
            lonely.append(row)
    met: set[int] | None = None
    for key, members in repeated.items():
        if counts.here[key] == counts.there[key]:
            doubtful = members if _overlapping(members, begins, ends) else []
        else:
            met = _overlapping(counts.rows, begins, ends) if met is None else met
            doubtful = [row for row in members if row in met]
        for row in doubtful:
            if partner[row] >= 0:
                partner[row] = -1
                why[row] = _OVERLAPPED
    if lonely:
        alone = {mine[row] for row in lonely}
        column_of = {counts.theirs[column]: column for column in counts.columns if counts.theirs[column] in alone}
        for row in lonely:
            partner[row] = column_of[mine[row]]
        for row in _crossing(lonely, counts.rows, partner, begins, ends):
            partner[row] = -1


def _overlapping(rows: Sequence[int], begins: Sequence[float], ends: Sequence[float]) -> set[int]:
    """Those of the rows that were under way at the same time as another one."""
    met: set[int] = set()
    latest, holder = float("-inf"), -1
    for row in sorted(rows, key=begins.__getitem__):
        if begins[row] < latest:
            met |= {row, holder}
        if ends[row] > latest:
            latest, holder = ends[row], row
    return met


def _crossing(
    asked: Sequence[int], rows: Sequence[int], partner: Sequence[int], begins: Sequence[float], ends: Sequence[float]
) -> list[int]:
    """Those of `asked` that cross a pair which certainly ended before they began, or began after they ended."""
    by_end = sorted((row for row in rows if partner[row] >= 0), key=ends.__getitem__)
    by_begin = sorted(by_end, key=begins.__getitem__)
    ended, begun = array("d", (ends[row] for row in by_end)), array("d", (begins[row] for row in by_begin))
    highest, lowest = array("q", [-1]), array("q", [2**62])
    for row in by_end:
        highest.append(max(highest[-1], partner[row]))
    for row in reversed(by_begin):
        lowest.append(min(lowest[-1], partner[row]))
    lowest.reverse()
    return [
        row
        for row in asked
        if not highest[bisect_right(ended, begins[row])] < partner[row] < lowest[bisect_left(begun, ends[row])]
    ]
