"""Candidates: the released combinations that somebody may take for a record, and those that are nearest to it.

A record is compared with the combinations of its label that miss the same values. Where these are few, or few records
are asked for, each is compared with each; else combinations stand in a tree, which pays by being asked often. Both give
the same answers, as tests say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.tables.ordering import ascending_order
from microagg_core.data.trees import CodedTree
from microagg_core.kernels.scan.mixed_links import weigh_nearest_of_codes
from microagg_core.kernels.scan.remaining import weigh_nearest
from microagg_core.kernels.values import Values

#: Distances that differ by less than this share, or by less than this many deviations, are equal.
SAME = 1e-9
#: Up to so many combinations all are compared: it takes two microseconds a record, and a tree takes as long.
FEW_COMBINATIONS = 2_000
#: And for up to so many records that are asked for: comparing them all takes as long as growing the tree.
FEW_ASKED = 200


class Candidates:
    """The released combinations as somebody sees them who knows some of the quasi-identifiers.

    Of each: means, and which are missing; the number of its label; and its size. Where ``costs`` has one, an attribute
    holds codes of categories, and two that differ are so far apart, squared. Where ``trees`` has one, parents of these
    are codes too: who knows a value takes it for no mismatch that a parent of it is released.
    """

    def __init__(
        self,
        means: Floats,
        missing: Bools,
        labels: Ints,
        sizes: Ints,
        costs: Floats | None = None,
        trees: Sequence[CodedTree | None] = (),
    ) -> None:
        self._missing, self._sizes = missing, sizes
        points = np.where(missing, 0.0, means) if missing.any() else means
        self._trees_of_codes = [
            (j, tree, np.unique(tree.level[points[:, j].astype(np.int64)]))
            for j, tree in enumerate(trees)
            if tree is not None and len(points)
        ]
        self._points = self._by_level(points, is_released=True)
        self._costs = None
        if costs is not None and costs.any():
            self._costs = np.append(costs, [costs[j] for j, _, levels in self._trees_of_codes for _ in levels[1:]])
        #: Whom they may be: those of the label who miss the same values.
        self._keys = _distinct([labels, *missing.T]) if missing.any() else labels
        self._rivals = np.bincount(self._keys)
        self._trees: dict[bytes, _Tree] = {}

    def by_chance(self, own: Ints) -> Floats:
        """Compute the chance of each record, by its own combination, for who picks any of its label and pattern."""
        return 1.0 / np.bincount(self._keys, self._sizes)[self._keys[own]]

    def link(self, values: Floats, own: Ints) -> tuple[Floats, Floats]:
        """Look for records by what is known of them: the chances that ``own`` combination, and the record, is taken."""
        keys = self._keys[own]
        values = self._by_level(np.where(self._missing[own], 0.0, values), is_released=False)
        asked = np.bincount(keys, minlength=len(self._rivals))
        if self._costs is not None:
            return self._link_codes(values, own, self._costs)
        few = (asked <= FEW_ASKED) | (self._rivals <= FEW_COMBINATIONS)
        hit, weights = np.zeros(len(own), dtype=np.bool_), np.ones(len(own))
        for is_few in np.unique(few[keys]).tolist():
            near = self._compared if is_few else self._grown(~few & (asked > 0)).near
            rows = np.flatnonzero(few[keys] == is_few)
            hit[rows], weights[rows] = near(values[rows], own[rows])
        return np.where(hit, self._sizes[own] / weights, 0.0), np.where(hit, 1.0 / weights, 0.0)

    def squares(self, values: Floats) -> Floats:
        """Compute the squared distance of each record, by what is known of it, from each combination."""
        values, points = self._by_level(values, is_released=False), self._points
        costs = np.zeros(points.shape[1]) if self._costs is None else self._costs
        total = np.zeros((len(values), len(points)))
        for known, released, cost in zip(values.T[:, :, None], points.T, costs, strict=True):
            total += cost * (known != released) if cost else (known - released) ** 2
        return total

    def _by_level(self, codes: Floats, *, is_released: bool) -> Floats:
        """Write codes below parents as a column for each level on which one is released: the parent on that level.

        What is released is nothing on any level but its own. So a value that is known differs from each candidate on
        all levels but one, and on that one where it is not below it.
        """
        columns, more = list(codes.T), []
        for j, tree, levels in self._trees_of_codes:
            own = codes[:, j].astype(np.int64)
            by_level = tree.ancestors[own][:, levels].astype(np.float64)
            if is_released:
                by_level[tree.level[own][:, None] != levels] = -1.0
            columns[j], *others = by_level.T
            more += others
        return np.column_stack([*columns, *more]) if self._trees_of_codes else codes

    @cached_property
    def _order(self) -> Ints:
        return ascending_order(self._keys)

    @cached_property
    def _in_order(self) -> tuple[Floats, Ints, Ints]:
        """Points, one attribute a row, and sizes, by key; and the place of each combination among them."""
        order = self._order
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return np.ascontiguousarray(self._points[order].T), self._sizes[order], place

    def _compared(self, values: Floats, own: Ints) -> tuple[Bools, Ints]:
        """Compare all: whether the own combination is one of the nearest, and how many records these have."""
        points, sizes, place = self._in_order
        none = np.zeros(0)
        behind = np.cumsum(self._rivals)
        last = behind[self._keys[own]]
        first = last - self._rivals[self._keys[own]]
        return weigh_nearest(Values(points, none), sizes, np.ascontiguousarray(values), first, last, place[own], SAME)

    def _link_codes(self, values: Floats, own: Ints, costs: Floats) -> tuple[Floats, Floats]:
        """Look for records where some attributes are codes: all combinations are compared with each value once."""
        coded = costs > 0
        codes, points, keys = self._points[:, coded], self._points[:, ~coded], self._keys
        squares = (costs[coded] * (codes[own] != values[:, coded])).sum(axis=1)
        squares += ((points[own] - values[:, ~coded]) ** 2).sum(axis=1)
        order = np.lexsort((*codes.T, keys))
        in_order = np.column_stack([keys, codes])[order]
        starts = np.flatnonzero(np.any(np.diff(in_order, axis=0, prepend=-1.0) != 0, axis=1))
        runs = np.searchsorted(in_order[starts, 0], np.arange(len(self._rivals) + 1))
        asked, row, value = np.unique(
            np.column_stack([keys[own], values[:, coded], values[:, ~coded]]),
            axis=0, return_index=True, return_inverse=True,
        )  # fmt: skip
        key, asked_codes, asked_points = np.split(asked, [1, 1 + int(coded.sum())], axis=1)
        first, last = (runs[key[:, 0].astype(np.int64) + after] for after in range(2))
        limits, weights = weigh_nearest_of_codes(
            np.ascontiguousarray(in_order[starts, 1:]),
            costs[coded],
            np.append(starts, len(order)),
            np.ascontiguousarray(points[order]),
            self._sizes[order],
            (np.ascontiguousarray(asked_codes), np.ascontiguousarray(asked_points)),
            first,
            last,
            squares[row],
            SAME,
        )
        hit, weight = squares <= limits[value.ravel()], weights[value.ravel()]
        return np.where(hit, self._sizes[own] / weight, 0.0), np.where(hit, 1.0 / weight, 0.0)

    def _grown(self, keys: Bools) -> _Tree:
        name = keys.tobytes()
        if name not in self._trees:
            chosen = np.flatnonzero(keys[self._keys])
            self._trees[name] = _Tree(self._points[chosen], self._keys[chosen], self._sizes[chosen], chosen)
        return self._trees[name]


class _Tree:
    """A tree of points, in which those that nobody confuses lie farther apart than anything is looked for."""

    def __init__(self, points: Floats, keys: Ints, sizes: Ints, combinations: Ints) -> None:
        self._combinations = combinations
        self._point, first = _points_once(points, keys)
        self._weights = np.bincount(self._point, weights=sizes)
        self._points, self._keys = points[first], keys[first]
        self._tree: Any = None
        self._reach = 0.0

    def near(self, values: Floats, own: Ints) -> tuple[Bools, Floats]:
        """Tell whether the own combination is one of the nearest, and how many records these have."""
        own_point = self._point[np.searchsorted(self._combinations, own)]
        hit, weights = np.ones(len(own), dtype=np.bool_), self._weights[own_point]
        if len(self._points) > 1:
            tree = self._grown(values)
            queries = self._apart(values, self._keys[own_point])
            distances, places = tree.query(queries, k=2)
            limit = distances[:, 0] * (1.0 + SAME) + SAME
            hit = places[:, 0] == own_point
            tied = np.flatnonzero(distances[:, 1] <= limit)
            for row, near in zip(tied, tree.query_ball_point(queries[tied], limit[tied]), strict=True):
                hit[row], weights[row] = own_point[row] in near, self._weights[near].sum()
        return hit, np.asarray(weights, dtype=np.float64)

    def _grown(self, values: Floats) -> Any:
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


def _points_once(points: Floats, keys: Ints) -> tuple[Ints, Ints]:
    """Number the points of keys, equal ones the same; and find where each is first."""
    numbers = _distinct([keys, *points.T])
    first: Ints = np.unique(numbers, return_index=True)[1].astype(np.int64)
    return numbers, first


def _distinct(columns: list[NDArray[Any]]) -> Ints:
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, places = np.unique(column, return_inverse=True)
        if len(values) > 1:
            codes = np.unique(codes * len(values) + places, return_inverse=True)[1]
    return codes
