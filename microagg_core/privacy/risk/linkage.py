"""Linkage: how often somebody who knows a record's quasi-identifiers finds it among those that are released.

He knows the blocking values, and some or all of the quasi-identifiers, exactly or nearly, and which of them are
missing. He takes the released combination that is nearest, and one of its records at random; of combinations that are
equally near, any of their records. His candidates are the released combinations of the label in the same file: there
are many fewer of them than records, so that all of them are tried. Where a label's rows lie in several files, he has
more of them than that, and finds less: the figure is an upper bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.plain import PlainFloats
from microagg_core.privacy.risk.asking import noise
from microagg_core.privacy.risk.contract import Exposure, RiskMeasure, share

#: What is known is off by so many deviations: not at all, about as much as a rounded number, as an old one.
NOISES = (0.0, 0.1, 0.5)
#: Distances that differ by less than this share, or by less than this many deviations, are equal.
_SAME = 1e-9


def knowledge(p: int) -> tuple[tuple[int, ...], ...]:
    """Which of p quasi-identifiers an intruder knows: all, each half, each one.

    >>> knowledge(3)
    ((0, 1, 2), (0, 1), (2,), (0,), (1,))
    """
    every, half = tuple(range(p)), (p + 1) // 2
    sets = [every, every[:half], every[half:], *((j,) for j in every)]
    return tuple(dict.fromkeys(some for some in sets if some))


@dataclass(frozen=True)
class Linked:
    """Record by record: the chance that its own combination is taken, and that the record itself is."""

    nearest: Floats
    correct: Floats


@dataclass(frozen=True)
class Links:
    """What links come to, over the records that were asked: one number for each knowledge and noise."""

    asked: int
    #: The sum over the asked records of what somebody has who takes any record of the label.
    chance: float
    nearest: PlainFloats
    correct: PlainFloats

    def __add__(self, other: Links) -> Links:
        if not other.asked or not self.asked:
            return self if not other.asked else other
        sums = (self.nearest + other.nearest, self.correct + other.correct)
        return Links(self.asked + other.asked, self.chance + other.chance, *sums)


class Candidates:
    """The released combinations as somebody sees them who knows some of the quasi-identifiers."""

    def __init__(self, means: Floats, missing: Bools, labels: Ints, sizes: Ints) -> None:
        self._missing, self._sizes = missing, sizes
        #: Whom they may be: those of the label who miss the same values.
        keys = _distinct([labels, *missing.T])
        points = np.where(missing, 0.0, means)
        self._key, self._point = keys, _distinct([keys, *points.T])
        first = np.unique(self._point, return_index=True)[1]
        self._weights = np.bincount(self._point, weights=sizes)
        self._points, self._keys = points[first], keys[first]
        self._tree: Any = None
        self._reach = 0.0

    def link(self, values: Floats, own: Ints) -> Linked:
        """Look for records.

        Args:
            values: what is known of them.
            own: the combination of each.
        """
        values, mine = np.where(self._missing[own], 0.0, values), self._point[own]
        hit, weights = np.ones(len(own), dtype=np.bool_), self._weights[mine]
        if len(self._points) > 1:
            tree = self._grown(values)
            queries = self._apart(values, self._key[own])
            distances, places = tree.query(queries, k=2)
            limit = distances[:, 0] * (1.0 + _SAME) + _SAME
            hit = places[:, 0] == mine
            tied = np.flatnonzero(distances[:, 1] <= limit)
            for row, near in zip(tied, tree.query_ball_point(queries[tied], limit[tied]), strict=True):
                hit[row], weights[row] = mine[row] in near, self._weights[near].sum()
        return Linked(np.where(hit, self._sizes[own] / weights, 0.0), np.where(hit, 1.0 / weights, 0.0))

    def _grown(self, values: Floats) -> Any:
        """The tree of points, in which those whom nobody confuses lie farther apart than anything is looked for."""
        from scipy.spatial import cKDTree

        reach = float(max(np.abs(self._points).max(initial=0.0), np.abs(values).max(initial=0.0)))
        if self._tree is None or reach > self._reach:
            self._reach = reach
            points = self._apart(self._points, self._keys)
            # Not balanced: it takes half the time to grow, and as long to search.
            self._tree = cKDTree(points, balanced_tree=False, compact_nodes=False)
        return self._tree

    def _apart(self, points: Floats, keys: Ints) -> Floats:
        step = 4.0 * (self._reach + 1.0) * (points.shape[1] + 1)
        return np.column_stack([points, keys * step]) if self._keys.max() else points


def _distinct(columns: list[NDArray[Any]]) -> Ints:
    """A number for each row, 0, 1, ..., the same for rows that are equal in all columns."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, places = np.unique(column, return_inverse=True)
        if len(values) > 1:
            codes = np.unique(codes * len(values) + places, return_inverse=True)[1]
    return codes


class Linkage(RiskMeasure[Links]):
    """Counts the records that are found."""

    name = "linkage"
    note = Links

    def of_piece(self, exposure: Exposure) -> Links:
        """Every knowledge with every noise, on the records that are asked."""
        asked = exposure.asked
        if asked is None or not len(asked.rows):
            return Links(0, 0.0, np.zeros(0), np.zeros(0))
        own = exposure.groups[asked.rows]
        errors = noise(asked.records, len(exposure.names), exposure.seed)
        sums = []
        for attributes in knowledge(len(exposure.names)):
            some = list(attributes)
            candidates = Candidates(exposure.means[:, some], exposure.missing[:, some], exposure.labels, exposure.sizes)
            for size in NOISES:
                linked = candidates.link(asked.values[:, some] + size * errors[:, some], own)
                sums.append((linked.nearest.sum(), linked.correct.sum()))
        nearest, correct = np.array(sums).T
        chance = float((1.0 / exposure.rows_of_labels[exposure.labels[own]]).sum())
        return Links(len(own), chance, nearest, correct)

    def of_release(self, total: Links, names: tuple[str, ...]) -> dict[str, Any]:
        """Who knows all exactly comes first; then everybody, by what he knows."""
        if not total.asked:
            return {"asked": 0}
        intruders = [(some, size) for some in knowledge(len(names)) for size in NOISES]
        figures = [
            {
                "knows": [names[j] for j in some],
                "noise": size,
                "own_nearest": share(nearest, total.asked),
                "expected_correct": share(correct, total.asked),
            }
            for (some, size), nearest, correct in zip(intruders, total.nearest, total.correct, strict=True)
        ]
        first = {name: figures[0][name] for name in ("own_nearest", "expected_correct")}
        return {"asked": total.asked, **first, "by_chance": share(total.chance, total.asked), "intruders": figures}

    def of_labels(self, exposure: Exposure) -> Mapping[str, NDArray[Any]]:
        """Who knows all exactly."""
        asked = exposure.asked
        if asked is None:
            return {}
        own = exposure.groups[asked.rows]
        candidates = Candidates(exposure.means, exposure.missing, exposure.labels, exposure.sizes)
        linked, label = candidates.link(asked.values, own), exposure.labels[own]
        n = exposure.n_labels
        return {
            "asked": np.bincount(label, minlength=n),
            "own_nearest": np.bincount(label, linked.nearest, n),
            "expected_correct": np.bincount(label, linked.correct, n),
        }
