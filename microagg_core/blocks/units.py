"""Groups of units: several records that belong together, such as the persons of a household.

Units of equally many rows are grouped as wholes. Within a group each row of a unit has a position, and the rows of one
position are released alike, so that at least k units have the same rows. Rows are put into positions by what they are
like: first after one template for all units, then, within each group, after the other units of the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from math import factorial

import numpy as np
from scipy.optimize import linear_sum_assignment

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.group.metrics.losses import sse_of_labels
from microagg_core.group.points import Points

#: Groupings at most, each after rows were matched in the groups of the one before.
ROUNDS = 4
#: Passes over the units of all groups, and over those of the template.
_PASSES = 4
#: Units of a group that are matched at once are one in so many: of few units, each by itself.
_TURNS = 64
#: Fewer orders of rows than this are tried one by one: 5 rows have 120.
_MOST_ORDERS = 120
#: Gains below it are rounding.
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class UnitRows:
    """How many rows each unit of a block has, and which attributes are the same in all of them."""

    n: int
    once: Bools


def group_units(rows: Points, size: int, once: Bools, group: Callable[[Points], Ints]) -> Ints:
    """Group units of ``size`` rows, which follow each other; returns for each row: group * size + position.

    ``once`` marks columns whose value is the same in all rows of a unit. ``group`` makes groups of points, of at least
    k each; it is called :data:`ROUNDS` times at most.
    """
    if size == 1:
        return group(rows)
    units = len(rows) // size
    positions = matched(rows, size, once, _starts(rows, size), np.zeros(units, dtype=np.int64))
    best, least = np.zeros(len(rows), dtype=np.int64), np.inf
    for _ in range(ROUNDS):
        groups = group(side_by_side(rows, size, once, positions))
        positions = matched(rows, size, once, positions, groups)
        labels = np.repeat(groups, size) * size + positions
        sse = sse_of_labels(rows, labels)
        if sse >= least * (1 - _NOTHING):
            break
        best, least = labels, sse
    return best


def side_by_side(rows: Points, size: int, once: Bools, positions: Ints) -> Points:
    """Make a point of each unit, whose squares are those of its rows: their columns by position, ``once`` ones once."""
    order = np.argsort(np.repeat(np.arange(len(rows) // size), size) * size + positions)
    several, single = rows.columns(~once), rows.columns(once)
    X = several.X[order].reshape(len(rows) // size, -1)
    stretch = np.where(single.is_code, 1.0, np.sqrt(size))
    return Points(
        np.hstack([X, single.X[::size] * stretch]), np.append(np.tile(several.costs, size), single.costs * size)
    )


def matched(rows: Points, size: int, once: Bools, positions: Ints, groups: Ints) -> Ints:
    """Put the rows of each unit into the positions where they are most like those of its group's other units."""
    matching = _Matching.of(rows.columns(~once), size, positions, groups)
    for _ in range(_PASSES):
        if not sum([matching.turn(units) for units in _turns(groups)]):
            break
    return matching.positions.ravel()


def _starts(rows: Points, size: int) -> Ints:
    """Number the rows of each unit by their values, column by column."""
    unit = np.repeat(np.arange(len(rows) // size), size)
    order = np.lexsort((*rows.X.T[::-1], unit))
    positions = np.empty(len(rows), dtype=np.int64)
    positions[order] = np.tile(np.arange(size), len(rows) // size)
    return positions


def _turns(groups: Ints) -> list[Ints]:
    """Part units into turns, of which each has at most one unit of a group, or one in many."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    place = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    turn = np.empty_like(groups)
    turn[order] = place % _TURNS
    return [np.flatnonzero(turn == t) for t in range(min(sizes.max(), _TURNS))]


@dataclass(frozen=True, eq=False)
class _Matching:
    """Sums and counts of each position of each group, and the rows in positions; both change with each turn."""

    numbers: Floats
    costs: Floats
    #: Of each code, unit and row: the place in ``counts`` of its category in its group.
    places: list[Ints]
    groups: Ints
    sizes: Ints
    positions: Ints
    sums: Floats
    counts: list[Floats]

    @classmethod
    def of(cls, rows: Points, size: int, positions: Ints, groups: Ints) -> _Matching:
        units = len(rows) // size
        numbers = rows.X[:, ~rows.is_code].reshape(units, size, -1)
        n_groups, positions = int(groups.max()) + 1, positions.reshape(units, size).copy()
        sums = np.zeros((n_groups, size, numbers.shape[2]))
        np.add.at(sums, (groups[:, None], positions), numbers)
        places, counts = [], []
        for j in np.flatnonzero(rows.is_code):
            codes = rows.X[:, j].astype(np.int64)
            found, place = np.unique(np.repeat(groups, size) * (codes.max() + 1) + codes, return_inverse=True)
            places.append(place.reshape(units, size))
            counts.append(np.zeros((len(found), size)))
            np.add.at(counts[-1], (places[-1], positions), 1.0)
        costs = rows.costs[rows.is_code]
        return cls(numbers, costs, places, groups, np.bincount(groups), positions, sums, counts)

    def turn(self, units: Ints) -> int:
        """Match these units anew to the others of their groups; returns how many have other positions now."""
        self._add(units, -1.0)
        likeness = self._likeness(units)
        before = self.positions[units]
        after = _best_positions(likeness)
        gain = (_picked(likeness, after) - _picked(likeness, before)).sum(axis=1)
        changed = gain > _NOTHING * (1.0 + np.abs(likeness).max(axis=(1, 2), initial=0.0))
        self.positions[units] = np.where(changed[:, None], after, before)
        self._add(units, 1.0)
        return int(np.count_nonzero(changed))

    def _add(self, units: Ints, sign: float) -> None:
        positions = self.positions[units]
        np.add.at(self.sums, (self.groups[units][:, None], positions), sign * self.numbers[units])
        for place, count in zip(self.places, self.counts, strict=True):
            np.add.at(count, (place[units], positions), sign)

    def _likeness(self, units: Ints) -> Floats:
        """For each row and position, by how much less than others it is distant, squared, from others in it."""
        own, size = self.groups[units], self.positions.shape[1]
        others = (self.sizes[own] - np.bincount(own)[own])[:, None, None]
        total = np.zeros((len(units), size, size))
        for j in range(self.numbers.shape[2]):
            total += 2.0 * self.numbers[units, :, j][:, :, None] * self.sums[own, :, j][:, None, :]
        for place, count, cost in zip(self.places, self.counts, self.costs, strict=True):
            total += cost * count[place[units]]
        return np.asarray(total / np.maximum(others, 1))


def _picked(likeness: Floats, positions: Ints) -> Floats:
    return np.take_along_axis(likeness, positions[:, :, None], axis=2)[:, :, 0]


def _best_positions(likeness: Floats) -> Ints:
    """Assign rows to positions, one each, with the greatest sum; of equal ones the first in order."""
    size = likeness.shape[1]
    if factorial(size) > _MOST_ORDERS:
        return np.array([linear_sum_assignment(each, maximize=True)[1] for each in likeness], dtype=np.int64)
    orders = np.array(list(permutations(range(size))))
    totals = np.zeros((len(likeness), len(orders)))
    for row in range(size):
        totals += likeness[:, row, orders[:, row]]
    return np.asarray(orders[np.argmax(totals, axis=1)])
