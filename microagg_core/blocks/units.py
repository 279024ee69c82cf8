"""Groups of units: several rows that belong together, such as the persons of a household.

Units of equally many rows are grouped as wholes. Each row of a unit has a position, and the rows of one position of a
group are released alike, so that the units of a group have the same rows. A row's position is where it is most like the
rows of other units: first of all units, then of its group's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from math import factorial, sqrt

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.group.metrics.losses import sse_of_labels
from microagg_core.group.points import Points

#: How often units are grouped at most, each time with their rows as the groups before had them, until it gains nothing.
#: Of persons in households, the second time loses 0.1 to 0.5 % less than the first, and two more 0.1 %.
ROUNDS = 4
#: How often all units are matched to the others of their groups at most; after four, none of 6,000 households moves.
_PASSES = 4
#: Turns in which the units of a group are matched, one each; of a larger group, several. Of all units, 1,000 turns make
#: no better first positions than 8, and take 17 times as long.
_TURNS, _TURNS_OF_ALL = 1000, 8
#: Orders of rows that are all tried; 6 rows have 720, for which the assignment problem is solved.
_MOST_ORDERS = 120
#: Gains of a smaller share are rounding, which may differ between machines.
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Count the rows of each unit of a block, and mark the attributes that are the same in all of them."""

    n: int
    once: Bools
    #: Given rows and their groups, changes these until each position of each holds what is demanded besides k.
    protect: Callable[[Points, Ints], Ints] | None = None


def group_units(rows: Points, size: int, once: Bools, group: Callable[[Points], Ints]) -> Ints:
    """Group units of ``size`` rows, which follow each other; returns for each row: group * size + position.

    ``once`` marks columns whose value is the same in all rows of a unit. ``group`` makes groups of points, of at least
    k each, from 0; it is called :data:`ROUNDS` times at most.
    """
    if size == 1:
        return group(rows)
    positions = first_positions(rows, size, once)
    best, least = positions, np.inf
    for _ in range(ROUNDS):
        groups, before = group(points_of_units(rows, size, once, positions)), positions
        positions = matched(rows, size, once, positions, groups)
        labels = np.repeat(groups, size) * size + positions
        if (sse := sse_of_labels(rows, labels)) >= least * (1 - _NOTHING):
            break
        best, least = labels, sse
        if np.array_equal(positions, before):
            break
    return best


def points_of_units(rows: Points, size: int, once: Bools, positions: Ints) -> Points:
    """Make a point of each unit, of which squared distances are those of its rows in their positions, added up."""
    units = len(rows) // size
    order = np.argsort(np.repeat(np.arange(units), size) * size + positions)
    single, own = rows.columns(once), rows.columns(~once)
    X = np.hstack([single.X[::size] * np.where(single.is_code, 1.0, sqrt(size)), own.X[order].reshape(units, -1)])
    return Points(X, np.append(single.costs * size, np.tile(own.costs, size)))


def first_positions(rows: Points, size: int, once: Bools) -> Ints:
    """Match all units to each other; rows begin as given, or sorted by the column that makes units most alike."""
    units, own = len(rows) // size, rows.columns(~once)
    best = as_given = np.tile(np.arange(size), units)
    if once.all():
        return best
    least, by_all, unit = (
        sse_of_labels(own, best),
        np.argsort(np.lexsort(own.X.T[::-1])),
        np.repeat(np.arange(units), size),
    )
    for column in own.X.T:
        positions = np.empty_like(best)
        positions[np.lexsort((by_all, column, unit))] = as_given
        if (sse := sse_of_labels(own, positions)) < least * (1 - _NOTHING):
            best, least = positions, sse
    return matched(rows, size, once, best, np.zeros(units, dtype=np.int64), _TURNS_OF_ALL)


def matched(rows: Points, size: int, once: Bools, positions: Ints, groups: Ints, turns: int = _TURNS) -> Ints:
    """Put the rows of each unit, unit by unit, into the positions where they are most like its group's other units."""
    matching = _Matching.of(rows.columns(~once), size, positions, groups)
    parts = _parts(groups, turns)
    for _ in range(_PASSES):
        if not sum([matching.match(units) for units in parts]):
            break
    return matching.positions.ravel()


def _parts(groups: Ints, turns: int) -> list[Ints]:
    """Part units so that of each group no part has more than one, or, if these were too many turns, a share."""
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    turn = np.empty_like(groups)
    turn[order] = (np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)) % turns
    return np.split(np.argsort(turn, kind="stable"), np.cumsum(np.bincount(turn))[:-1])


@dataclass(frozen=True, eq=False)
class _Matching:
    """Units in groups, and of each group and position its rows' sums and counts, which change with the positions."""

    groups: Ints
    #: By unit and row.
    positions: Ints
    #: Of each column of numbers, by unit and row; and their sums by group and position.
    numbers: list[Floats]
    sums: list[Floats]
    #: Of each column of codes, by unit and row: which row of the counts by position is that of its group and code.
    places: list[Ints]
    counts: list[Floats]
    costs: Floats

    @classmethod
    def of(cls, rows: Points, size: int, positions: Ints, groups: Ints) -> _Matching:
        numbers = [column.reshape(-1, size) for column in rows.X[:, ~rows.is_code].T]
        sums = [np.zeros((groups.max() + 1, size)) for _ in numbers]
        places, counts = [], []
        for codes in rows.X[:, rows.is_code].T.astype(np.int64):
            pairs, place = np.unique(np.repeat(groups, size) * (codes.max() + 1) + codes, return_inverse=True)
            places.append(place.reshape(-1, size))
            counts.append(np.zeros((len(pairs), size)))
        costs = rows.costs[rows.is_code]
        matching = cls(groups, positions.reshape(-1, size).copy(), numbers, sums, places, counts, costs)
        matching._add(np.arange(len(groups)), 1.0)
        return matching

    def match(self, units: Ints) -> int:
        """Match these units to the others of their groups; returns how many have other positions now."""
        self._add(units, -1.0)
        likeness, before = self._likeness(units), self.positions[units]
        after = _most_alike(likeness)
        gain = _of_positions(likeness, after) - _of_positions(likeness, before)
        better = gain > _NOTHING * np.abs(likeness).max(axis=(1, 2))
        self.positions[units] = np.where(better[:, None], after, before)
        self._add(units, 1.0)
        return int(np.count_nonzero(better))

    def _add(self, units: Ints, sign: float) -> None:
        positions, size = self.positions[units], self.positions.shape[1]
        cells = self.groups[units][:, None] * size + positions
        for numbers, sums in zip(self.numbers, self.sums, strict=True):
            np.add.at(sums.reshape(-1), cells, sign * numbers[units])
        for places, counts in zip(self.places, self.counts, strict=True):
            np.add.at(counts.reshape(-1), places[units] * size + positions, sign)

    def _likeness(self, units: Ints) -> Floats:
        """By row and position: how much less the row adds to squares there, but for what is the same of all orders."""
        groups, size = self.groups[units], self.positions.shape[1]
        total = np.zeros((len(units), size, size))
        for numbers, sums in zip(self.numbers, self.sums, strict=True):
            total += 2.0 * numbers[units][:, :, None] * sums[groups][:, None, :]
        for places, counts, cost in zip(self.places, self.counts, self.costs, strict=True):
            total += cost * counts[places[units]]
        return total


def _of_positions(likeness: Floats, positions: Ints) -> Floats:
    return np.asarray(np.take_along_axis(likeness, positions[:, :, None], axis=2).sum(axis=(1, 2)))


def _most_alike(likeness: Floats) -> Ints:
    """Assign the rows of each unit to positions so that likeness adds up to the most; the first of equal orders."""
    size = likeness.shape[1]
    if factorial(size) > _MOST_ORDERS:
        from scipy.optimize import linear_sum_assignment  # a sixth of a second at every start, and rarely needed

        return np.array([linear_sum_assignment(of_unit, maximize=True)[1] for of_unit in likeness], dtype=np.int64)
    orders = np.array(list(permutations(range(size))))
    totals = np.zeros((len(likeness), len(orders)))
    for row in range(size):
        totals += likeness[:, row, orders[:, row]]
    return np.asarray(orders[np.argmax(totals, axis=1)])
