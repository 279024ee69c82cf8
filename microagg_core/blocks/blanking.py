"""Blank cells, so that nobody is withheld for what he lacks: at least k records share each pattern of missing values.

Within the records that are released under the same blocking values, a *pattern* is the set of quasi-identifiers that a
record lacks. A pattern that fewer than k have grows, and whoever has it loses the cells that it grows by: it joins a
larger pattern, is united with others, or takes the nearest records of a pattern that many have, which then lose what it
lacks. What costs fewest cells is done first. None of it looks at more than counts, but which records are the nearest.

What a reader learns. Records that lost a cell and records that lacked it are released together, as null: both are in
groups of at least k with the same nulls, and no released value tells them apart. Who knows what a person lacks, or has,
finds him among at least k, as by any quasi-identifier. That some are near to others is what a group tells anyway. What
could tell more is a total known elsewhere: less that of the release, it is the sum of the cells that were blanked. So
of each quasi-identifier none is blanked, or at least k cells are, or all that there are, for whichever blocking values
totals are known: that is why k records, and not k - 1, lose their cells beside a single one that lacked them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.blocks.merging import prefix_groups
from microagg_core.blocks.withholding import CountedKeys, number_cells
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.errors import InternalError
from microagg_core.group.points import Points


class Move(NamedTuple):
    """The nearest records of a released pattern go to another; both by their places, or as strata."""

    source: int
    target: int
    rows: int


@dataclass(frozen=True)
class Blanked:
    """Outcome of blanking for the patterns of missing values under the same blocking values."""

    #: The released pattern of each pattern, by its place; and the released patterns, of which two may be equal.
    released: Mapping[int, int]
    patterns: tuple[int, ...]
    #: No target is a source.
    moves: tuple[Move, ...]
    #: Cells blanked, by quasi-identifier.
    cells: Ints


def blank_patterns(counts: Mapping[int, int], k: int, p: int, forced: Collection[int] = ()) -> Blanked:
    """Let patterns grow until at least k records share each; ``counts`` are the records of each pattern.

    A pattern has a bit for each missing one of ``p`` quasi-identifiers. Of those ``forced`` cells are blanked anyway.

    >>> blank_patterns({0b00: 90, 0b01: 1}, 5, 2)
    Blanked(released={0: 0, 1: 1}, patterns=(0, 1), moves=(Move(source=0, target=1, rows=5),), cells=array([5, 0]))
    >>> made = blank_patterns({0b00: 7, 0b01: 3, 0b11: 40, 0b10: 4}, 5, 2)
    >>> made.released, made.patterns, made.cells.tolist()
    ({0: 0, 1: 2, 2: 1, 3: 2}, (0, 2, 3), [0, 5])
    """
    # Where uniting costs as much as taking, either may turn out to have been the better: 3 to 10 % of the cells.
    ways = (_Growing(counts, k, p, unites_first=first).grown(forced) for first in (True, False))
    return min(ways, key=lambda way: int(way.cells.sum()))


class _Growing:
    """Sets of records that are to be released with one pattern each: at first those that have it.

    Of each: what it lacks, its records, the set from which it took some (or -1), and how many others took from it.
    """

    def __init__(self, counts: Mapping[int, int], k: int, p: int, *, unites_first: bool) -> None:
        self.k, self._unites_first = k, unites_first
        came = sorted(counts)
        self.came: list[list[int]] = [[pattern] for pattern in came]
        self.lacks: Bools = np.array([[pattern >> j & 1 for j in range(p)] for pattern in came], dtype=np.bool_)
        self.rows: Ints = np.array([counts[pattern] for pattern in came], dtype=np.int64)
        self.source: Ints = np.full(len(came), -1, dtype=np.int64)
        self.taken: Ints = np.zeros(len(came), dtype=np.int64)
        self.given: Ints = np.zeros(len(came), dtype=np.int64)
        self._lacked = self.rows @ self.lacks
        #: As many cells as are blanked of a quasi-identifier at least, if any is.
        self.enough: Ints = np.minimum(k, self.rows.sum() - self._lacked)

    @property
    def blanked(self) -> Ints:
        return np.asarray(self.rows @ self.lacks - self._lacked)

    def grown(self, forced: Collection[int]) -> Blanked:
        while len(small := np.flatnonzero((self.rows > 0) & (self.rows < self.k))):
            # Who lacks most first: others join.
            self._grow(int(small[np.argmax(self.lacks[small].sum(axis=1))]))
        is_forced = np.isin(np.arange(len(self.enough)), list(forced))
        while len(few := np.flatnonzero(self._short(self.blanked, is_forced))):
            self._blank_more(int(few[0]), is_forced)
        return self._result()

    def _short(self, blanked: Ints, is_forced: Bools | bool = False) -> Ints:
        """Count the cells that are too few of each quasi-identifier."""
        return np.where((blanked > 0) | is_forced, np.maximum(self.enough - blanked, 0), 0)

    def _cost(self, more: Ints, is_forced: Bools | bool = False) -> Ints:
        """Count cells that are blanked more, and those that are then still to be blanked, of each of several ways."""
        blanked = self.blanked
        short = self._short(blanked + more, is_forced).sum(axis=1) - self._short(blanked, is_forced).sum()
        return np.asarray(more.sum(axis=1) + short)

    def _grow(self, small: int) -> None:
        """Unite a set that is too small with another, or with the nearest records of another."""
        own, n, rows = self.lacks[small], int(self.rows[small]), self.rows
        gains, loses = self.lacks & ~own, own & ~self.lacks
        other = (rows > 0) & (np.arange(len(rows)) != small)
        # A set that stays too small will lose what it lacks for each record that it has to take; one less is cheaper.
        still = np.maximum(self.k - rows - n, 0) * (self.lacks | own).sum(axis=1)
        still -= np.maximum(self.k - rows, 0) * self.lacks.sum(axis=1)
        whole = self._cost(n * gains + rows[:, None] * loses) + still
        may_unite = other & ((self.given == 0) | ~loses.any(axis=1))
        short = np.where(loses, self.enough - self.blanked, 0).max(axis=1, initial=0)
        some = np.maximum(self.k - n, short)
        part = self._cost(n * gains + some[:, None] * loses)
        may_take = other & (self.source < 0) & loses.any(axis=1) & (rows - some >= self.k)
        whole, part = np.where(may_unite, whole, np.inf), np.where(may_take, part, np.inf)
        if min(whole.min(), part.min()) == np.inf:
            raise InternalError("a bug: fewer than k records are left with a pattern alone; please report it")
        if whole.min() < part.min() or (self._unites_first and whole.min() == part.min()):
            self._unite(small, int(np.argmin(whole)))
        else:
            self._take(small, chosen := int(np.argmin(part)), int(some[chosen]))

    def _take(self, target: int, source: int, rows: int) -> None:
        self.lacks[target] |= self.lacks[source]
        self.rows[target] += rows
        self.rows[source] -= rows
        self.source[target] = source
        self.taken[target] += rows
        self.given[source] += rows

    def _unite(self, small: int, other: int) -> None:
        self.lacks[other] |= self.lacks[small]
        self.rows[other] += self.rows[small]
        self.rows[small] = 0
        self.came[other] += self.came[small]
        self.came[small] = []

    def _blank_more(self, column: int, is_forced: Bools) -> None:
        """Blank more cells of a quasi-identifier: of records that join a set, of k by themselves, or of a whole set."""
        rows, one = self.rows, np.arange(len(self.enough)) == column
        has, few = (rows > 0) & ~self.lacks[:, column], int(self.enough[column] - self.blanked[column])
        may_give = has & (self.source < 0) & (rows - few >= self.k)
        sources = self._sources(may_give)
        may_join = (rows > 0) & self.lacks[:, column] & (sources >= 0)
        join = self._cost(few * (self.lacks & ~self.lacks[sources]), is_forced)
        some = max(few, self.k)
        may_part = has & (self.source < 0) & (rows - some >= self.k)
        part = self._cost(np.where(may_part, some, 0)[:, None] * one, is_forced)
        whole = self._cost(rows[:, None] * one, is_forced)
        ways = [(may_join, join), (may_part, part), (has, whole)]
        best = int(np.argmin(np.concatenate([np.where(may, cost, np.inf) for may, cost in ways])))
        way, chosen = divmod(best, len(rows))
        if way == 0:
            self._take(chosen, int(sources[chosen]), few)
        elif way == 1:
            self._append(self.lacks[chosen] | one)
            self._take(len(rows), chosen, some)
        else:
            self.lacks[chosen] |= one

    def _sources(self, may_give: Bools) -> Ints:
        """Find the set of those that ``may_give`` from which each may take records: its own, or what lacks most; or -1.

        Sets that are cut into several blocks take none.
        """
        may: Bools = may_give[:, None] & (self.lacks.astype(np.int64) @ ~self.lacks.T == 0)
        own = np.arange(len(self.rows))
        is_first = (self.source < 0) & (self.given == 0) & (self.rows < 2 * self.k)
        may &= np.where(self.source >= 0, own[:, None] == self.source, is_first)
        return np.where(may.any(axis=0), np.argmax(may * (1 + self.lacks.sum(axis=1))[:, None], axis=0), -1)

    def _append(self, lacks: Bools) -> None:
        """Add a set to which nobody belongs yet."""
        self.came.append([])
        self.lacks = np.vstack([self.lacks, lacks])
        self.rows, self.taken, self.given = (np.append(of, 0) for of in (self.rows, self.taken, self.given))
        self.source = np.append(self.source, -1)

    def _result(self) -> Blanked:
        there = np.flatnonzero(self.rows > 0).tolist()
        place = {number: i for i, number in enumerate(there)}
        moves = [
            Move(place[int(self.source[number])], place[number], int(self.taken[number]))
            for number in there
            if self.source[number] >= 0
        ]
        released = {pattern: place[number] for number in there for pattern in self.came[number]}
        patterns = tuple(sum(1 << j for j in np.flatnonzero(self.lacks[number]).tolist()) for number in there)
        return Blanked(dict(sorted(released.items())), patterns, tuple(moves), self.blanked)


@dataclass(frozen=True)
class ReleasedPatterns:
    """The strata of counted keys by the patterns that are released."""

    #: Of each: the stratum of blocking values; the pattern; and where it stands among those of the same label.
    stratum: Ints
    pattern: UInt64s
    place: Ints
    #: Of each key the one that it goes to.
    of_key: Ints
    moves: tuple[Move, ...] = ()
    missing_cells: tuple[int, ...] | None = None
    blanked_cells: tuple[int, ...] | None = None

    @classmethod
    def as_they_are(cls, keys: CountedKeys) -> Self:
        """Take strata whose keys have one pattern each."""
        pattern = keys.pattern[keys.first]
        return cls(np.arange(len(keys.first)), pattern, pattern.astype(np.int64), keys.stratum)


def blank_few(keys: CountedKeys, keep: Bools, k: int, levels: Iterable[int]) -> ReleasedPatterns:
    """Blank cells in the kept strata of keys, so that k records have each pattern and no total tells of few cells.

    A total is known of what shares as many leading blocking values as one of the ``levels`` says.
    """
    p = int(np.bitwise_or.reduce(keys.pattern, initial=np.uint64(0))).bit_length()
    patterns = _Patterns.of(keys, p)
    few = (patterns.rows < k) & keep[patterns.stratum]
    plans = {number: patterns.blanked(number, k) for number in np.unique(patterns.stratum[few]).tolist()}
    _blank_enough(keys, patterns, keep, plans, k, sorted(levels, reverse=True))
    lacks = missing_of(patterns.pattern, p) & keep[patterns.stratum, None]
    cells = np.sum([plan.cells for plan in plans.values()], axis=0) if plans else np.zeros(p, dtype=np.int64)
    return patterns.released(plans, tuple((patterns.rows @ lacks).tolist()), tuple(cells.tolist()))


@dataclass(frozen=True)
class _Patterns:
    """The patterns of each stratum, ascending, and how many records have each."""

    stratum: Ints
    pattern: UInt64s
    rows: Ints
    #: Of each key the place of its pattern.
    of_key: Ints
    p: int

    @classmethod
    def of(cls, keys: CountedKeys, p: int) -> Self:
        order = np.lexsort((keys.pattern, keys.stratum))
        of_key = np.empty(len(order), dtype=np.int64)
        of_key[order] = prefix_groups(np.column_stack([keys.stratum, keys.pattern.astype(np.int64)])[order])
        first = np.unique(of_key, return_index=True)[1]
        rows = np.bincount(of_key, weights=keys.rows).astype(np.int64)
        return cls(keys.stratum[first], keys.pattern[first], rows, of_key, p)

    @cached_property
    def _bounds(self) -> Ints:
        return np.searchsorted(self.stratum, np.arange(self.stratum[-1] + 2))

    def places(self, stratum: int) -> range:
        return range(int(self._bounds[stratum]), int(self._bounds[stratum + 1]))

    def blanked(self, stratum: int, k: int, forced: Collection[int] = ()) -> Blanked:
        own = self.places(stratum)
        counts = zip(self.pattern[own].tolist(), self.rows[own].tolist(), strict=True)
        return blank_patterns(dict(counts), k, self.p, forced)

    def rows_with(self, column: int) -> Ints:
        """Count the records of each stratum that have a quasi-identifier."""
        has = self.pattern >> np.uint64(column) & np.uint64(1) == 0
        return np.bincount(self.stratum, weights=self.rows * has).astype(np.int64)

    def released(
        self, plans: Mapping[int, Blanked], missing_cells: tuple[int, ...], blanked_cells: tuple[int, ...]
    ) -> ReleasedPatterns:
        """Put what the patterns of some strata become in the place of these patterns."""
        stratum, pattern, moves = self.stratum.tolist(), self.pattern.tolist(), list[Move]()
        becomes = np.arange(len(stratum))
        for number, plan in plans.items():
            places = dict[int, int]()
            for own in self.places(number):
                becomes[own] = places.setdefault(plan.released[pattern[own]], own)
            for i in sorted(set(range(len(plan.patterns))) - places.keys()):  # what only records that move have
                places[i] = len(stratum)
                stratum.append(number)
                pattern.append(0)
            for i, grown in enumerate(plan.patterns):
                pattern[places[i]] = grown
            moves += [Move(places[source], places[target], rows) for source, target, rows in plan.moves]
        there = np.union1d(becomes, np.arange(len(becomes), len(stratum)))
        # What takes records stands behind what it takes them from.
        behind = np.arange(len(stratum))
        behind[[move.target for move in moves]] = [move.source for move in moves]
        place: Ints = np.empty(len(there), dtype=np.int64)
        place[np.lexsort((there, behind[there] != there, behind[there]))] = np.arange(len(there))
        at = {number: i for i, number in enumerate(there.tolist())} if moves else {}
        return ReleasedPatterns(
            np.array(stratum, dtype=np.int64)[there],
            np.array(pattern, dtype=np.uint64)[there],
            place,
            np.searchsorted(there, becomes[self.of_key]),
            tuple(Move(at[source], at[target], rows) for source, target, rows in moves),
            missing_cells,
            blanked_cells,
        )


def _blank_enough(
    keys: CountedKeys, patterns: _Patterns, keep: Bools, plans: dict[int, Blanked], k: int, levels: list[int]
) -> None:
    """Blank k cells more where a cell of blocking values would blank fewer than k of a quasi-identifier, and not all.

    Within a stratum that is never so, but where fewer than k records have the quasi-identifier, which all lose it.
    """
    forced: dict[int, set[int]] = {}
    while True:
        few = np.any([(plan.cells > 0) & (plan.cells < k) for plan in plans.values()], axis=0) if plans else ()
        chosen = {
            (stratum, column)
            for column in np.flatnonzero(few).tolist()
            for level in levels
            for stratum in _lacking(keys, patterns, keep, plans, k, level, column)
        }
        if not chosen:
            return
        for stratum, column in sorted(chosen):
            forced.setdefault(stratum, set()).add(column)
            plans[stratum] = patterns.blanked(stratum, k, forced[stratum])


def _lacking(
    keys: CountedKeys, patterns: _Patterns, keep: Bools, plans: Mapping[int, Blanked], k: int, level: int, column: int
) -> list[int]:
    """The strata of which k records are to lose a quasi-identifier too: of each cell that needs it the smallest."""
    cell, lost = number_cells(keys.codes[:, 1 : 1 + level])[keys.first], np.zeros(len(keep), dtype=np.int64)
    lost[list(plans)] = [plan.cells[column] for plan in plans.values()]
    own, has = keep & (keys.depth > level), patterns.rows_with(column)
    of_cell = np.bincount(cell, weights=lost * own)
    candidates = np.flatnonzero(own & (has > lost) & ((of_cell > 0) & (of_cell < k))[cell])
    ordered = candidates[np.lexsort((candidates, has[candidates], cell[candidates]))]
    return [int(stratum) for stratum in ordered[np.unique(cell[ordered], return_index=True)[1]]]


def missing_of(patterns: UInt64s | Sequence[int], p: int) -> Bools:
    """Tell which of ``p`` quasi-identifiers each pattern lacks.

    >>> missing_of([0b01, 0b10], 2).tolist()
    [[True, False], [False, True]]
    """
    bits = np.asarray(patterns, dtype=np.uint64)[:, None] >> np.arange(p, dtype=np.uint64)
    return np.asarray(bits & np.uint64(1), dtype=np.bool_)


@dataclass(frozen=True)
class BlankedRecords:
    """Records with the stratum, or block, in which they are released, and what they lack there."""

    stratum: Ints
    ticks: list[NDArray[Any]]
    missing: Bools

    @classmethod
    def of(
        cls,
        encoding: Encoding,
        ticks: Sequence[NDArray[Any]],
        missing: Bools,
        stratum: Ints,
        patterns: UInt64s | Sequence[int],
        moves: Collection[Move] = (),
    ) -> Self:
        """Move records of some strata, whose ``patterns`` are what they are released without; blank their cells."""
        lacks = missing_of(patterns, missing.shape[1])
        if moves:
            points = encoding.points(encoding.offsets_of(ticks), missing)
            stratum = move_records(points, stratum, moves, lacks)
        released = lacks[stratum]
        if (missing & ~released).any():
            raise InternalError("a bug: a missing value would be released as if it was there; please report it")
        columns = zip(ticks, released.T, strict=True)
        return cls(stratum, [np.where(gone, of.dtype.type(0), of) for of, gone in columns], released)


def move_records(points: Points, stratum: Ints, moves: Collection[Move], lacks: Bools) -> Ints:
    """Find the stratum, or block, of each record once the nearest have moved, in the order of the moves.

    Records are in the order of their numbers, and equally near ones go in it. Near are those at the least sum of
    squared distances from the target's own, in what the target does not lack; where it has none, from the first.

    >>> points, own = Points.of(np.array([[1.0], [9.0], [2.0], [8.0], [7.0]])), np.array([0, 1, 0, 0, 0])
    >>> move_records(points, own, [Move(0, 1, 2)], np.array([[False], [False]])).tolist()
    [0, 1, 0, 1, 1]
    """
    moved = stratum.copy()
    for source, target, rows in moves:
        there, own = np.flatnonzero(moved == source), np.flatnonzero(moved == target)
        if len(there) < rows:
            raise InternalError("a bug: a pattern of missing values has fewer records than it should; please report it")
        seen = points.columns(~lacks[target])
        distances = _distances(seen.rows(there), seen.rows(own if len(own) else there[:1]))
        moved[there[np.argsort(distances, kind="stable")[:rows]]] = target
    return moved


def _distances(points: Points, others: Points) -> Floats:
    """Sum the squared distances of each point from some others."""
    sums = np.zeros(len(points))
    for other in others.X:
        apart = points.X - other
        sums += np.where(points.is_code, points.costs * (apart != 0), apart * apart).sum(axis=1)
    return sums
