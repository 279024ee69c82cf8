"""Units: how often somebody who knows rows of a unit finds it among those that are released, where units have several.

He knows the blocking values and all quasi-identifiers exactly, of one row of a unit, or of all of them and so how many
they are. Which released rows are of one unit is taken to be plain to him, by whatever is released as it came. By one
row he takes the nearest combination, and any unit that has it. By all rows he takes the nearest profile, which is what
is released of a unit of as many rows, and any of its units: rows stand for each other one by one, so that the squares
of their distances have the least sum. As k units share each profile, nobody is found with a chance above 1/k.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.inspect.candidates import SAME, Candidates
from microagg_core.inspect.contract import RiskMeasure, share
from microagg_core.inspect.exposure import Exposure

#: Units of more rows are not asked: to compare two takes time by the cube of their rows.
MOST_ROWS = 40


@dataclass(frozen=True)
class UnitLinks:
    """Count units, those that are asked, and by how much these are expected to be found."""

    units: int = 0
    asked: int = 0
    by_one: float = 0.0
    by_all: float = 0.0
    chance: float = 0.0
    #: The greatest chance with which one is found.
    largest: float = 0.0
    #: By confidential column, units of which a value follows: one that all units of their profile have.
    certain: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: UnitLinks) -> UnitLinks:
        names = {**self.certain, **other.certain}
        return UnitLinks(
            self.units + other.units,
            self.asked + other.asked,
            self.by_one + other.by_one,
            self.by_all + other.by_all,
            self.chance + other.chance,
            max(self.largest, other.largest),
            {name: self.certain.get(name, 0) + other.certain.get(name, 0) for name in names},
        )


class Units(RiskMeasure[UnitLinks]):
    name = "units"
    notes = UnitLinks

    def measure(self, exposure: Exposure) -> UnitLinks:
        """Look for the units that are asked, by the rows of each one by one, and by all of them."""
        if exposure.units is None:
            return UnitLinks()
        whole, cells = np.unique(exposure.units), exposure.cells
        certain = {
            column.name: len(
                np.unique(exposure.units[cells.share_a_value(column.codes, exposure.units)[cells.of_rows]])
            )
            for column in exposure.confidential
        }
        by_one, by_all, chance = (
            np.concatenate(found) for found in zip(*_found(exposure, exposure.units), strict=True)
        )
        largest = max(by_one.max(initial=0.0), by_all.max(initial=0.0))
        one, every, guessed = (float(found.sum()) for found in (by_one, by_all, chance))
        return UnitLinks(len(whole), len(by_all), one, every, guessed, float(largest), certain)

    def figures(self, total: UnitLinks, names: tuple[str, ...]) -> dict[str, Any]:
        if not total.units:
            return {}
        return {
            "units": total.units,
            "asked": total.asked,
            "by_one_row": share(total.by_one, total.asked),
            "by_all_rows": share(total.by_all, total.asked),
            "by_chance": share(total.chance, total.asked),
            "largest_chance": share(total.largest, 1.0) if total.asked else None,
            "certain": {name: share(n, total.units) for name, n in total.certain.items()},
        }


def _found(exposure: Exposure, whose: Ints) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Find the units that are asked, by label and number of rows: by one row, by all rows, and by chance."""
    asked, cells = exposure.asked, exposure.cells
    candidates = exposure.candidates(
        range(len(exposure.names)), np.bincount(cells.groups, cells.units).astype(np.int64)
    )
    right = candidates.link(asked.values, exposure.own)[1]
    place = np.full(len(whose), -1)
    place[asked.rows] = np.arange(len(asked.rows))
    order = np.lexsort((exposure.groups, whose))
    first = np.flatnonzero(np.diff(whose[order], prepend=-1))
    sizes = np.diff(first, append=len(whose))
    kinds = np.unique(
        np.column_stack([exposure.labels[exposure.groups[order[first]]], sizes]), axis=0, return_inverse=True
    )[1]
    in_order = np.argsort(kinds.ravel(), kind="stable")
    yield np.zeros(0), np.zeros(0), np.zeros(0)
    for alike in np.split(in_order, np.cumsum(np.bincount(kinds.ravel()))[:-1]):
        rows = order[first[alike][:, None] + np.arange(sizes[alike[0]])]
        own = place[rows]
        is_asked = own[:, 0] >= 0
        if is_asked.any() and rows.shape[1] <= MOST_ROWS:
            by_all = _by_all_rows(exposure, exposure.groups[rows], own, np.flatnonzero(is_asked))
            yield right[own[is_asked]].mean(axis=1), by_all, np.full(len(by_all), 1.0 / len(alike))


def _by_all_rows(exposure: Exposure, released: Ints, own: Ints, asked: Ints) -> Floats:
    """Compute the chance of each unit that is asked, among units of equally many rows.

    ``released`` are the combinations of units, ascending, and ``own`` the places of their rows among those asked.
    """
    profiles, whose, shared = np.unique(released, axis=0, return_inverse=True, return_counts=True)
    shown, places = np.unique(profiles, return_inverse=True)
    means, missing, labels = exposure.means[shown], exposure.missing[shown], exposure.labels[shown]
    candidates = Candidates(means, missing, labels, shown, exposure.costs, exposure.trees)
    chances = np.zeros(len(asked))
    for i, unit in enumerate(asked.tolist()):
        near = nearest_profiles(candidates.squares(exposure.asked.values[own[unit]]), places.reshape(profiles.shape))
        if whose.ravel()[unit] in near:
            chances[i] = 1.0 / shared[near].sum()
    return chances


def nearest_profiles(squares: Floats, profiles: Ints) -> list[int]:
    """Find the profiles to whose rows those of a unit can be assigned with the least sum of squares, or nearly that.

    ``squares`` are those of the unit's rows (down) to all combinations, and ``profiles`` have places of these.

    >>> nearest_profiles(np.array([[0.0, 1.0, 9.0], [4.0, 5.0, 1.0]]), np.array([[0, 1], [1, 2], [0, 2], [2, 2]]))
    [2]
    """
    # Each released row costs its least at least, whichever row it is assigned to.
    least = squares.min(axis=0)[profiles].sum(axis=1)
    limit, sums = _nearly(_assigned(squares[:, profiles[np.argmin(least)]])), dict[int, float]()
    rivals = np.flatnonzero(least <= limit)
    for profile in rivals[np.argsort(least[rivals])].tolist():
        if least[profile] > limit:
            break
        sums[profile] = _assigned(squares[:, profiles[profile]])
        limit = min(limit, _nearly(sums[profile]))
    return [profile for profile, total in sums.items() if total <= limit]


def _assigned(costs: Floats) -> float:
    from scipy.optimize import linear_sum_assignment  # a sixth of a second at every start, and rarely needed

    return float(costs[linear_sum_assignment(costs)].sum())


def _nearly(square: float) -> float:
    """Compute up to which square a distance is taken for equal to this one's."""
    return float((np.sqrt(square) * (1.0 + SAME) + SAME) ** 2)
