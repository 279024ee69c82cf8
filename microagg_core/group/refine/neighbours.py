"""Neighbours of records, and the lower bound that they alone give.

Equal records are searched for once: a tree of a thousand copies of one point would have to look at all of them
for each of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.group.bounds import Bound, in_units_of, rounded_down
from microagg_core.group.costs import leaves_read
from microagg_core.group.labels import checked_labels, exponent_of, points_of, private_copy
from microagg_core.group.points import AnyPoints, Points
from microagg_core.kernels.refinement.nearest_lists import nearest_of_all, nearest_sums, spread
from microagg_core.kernels.values import Values


def order_by_values(X: Floats) -> Ints:
    """Order the columns of a (p, n) array as ``np.lexsort(X[::-1])`` does, most of them by their first value alone.

    >>> order_by_values(np.array([[2.0, 1.0, 2.0], [5.0, 9.0, 4.0]])).tolist()
    [1, 2, 0]
    """
    order = np.argsort(X[0])
    same = np.append(np.diff(X[0, order]) == 0, False)
    tied = np.flatnonzero(same | np.roll(same, 1))
    if 4 * len(tied) > len(order):
        return np.asarray(np.lexsort(X[::-1]))
    among = np.sort(order[tied])
    order[tied] = among[np.lexsort(X[::-1, among])]
    return order


@dataclass(frozen=True)
class Records:
    """Records scaled by a power of two and put in an order that depends on their values alone, with neighbours.

    Numbers come before codes. The order makes the groups found independent of the order of the input, but for equal
    records, and keeps neighbours near each other in memory. ``order`` is the input's record at each place,
    ``by_value`` its rank by value. Equal records are of one class: ``record_class`` by rank, with the ``sizes`` of
    classes and, (classes, found) by distance, the nearest classes of each, itself first, and their ``squared``
    distances; with many attributes near ones, and what their distances are at least.
    """

    points: Points
    order: Ints
    by_value: Ints
    record_class: Ints
    sizes: Ints
    classes: ShortInts
    squared: Floats

    @classmethod
    def of(cls, X: AnyPoints, count: int) -> Records:
        """Order finite records, and find ``count`` neighbours of each."""
        scaled = private_copy(X)
        costs = points_of(scaled).costs
        order = order_by_values(scaled.X)
        ordered = np.ascontiguousarray(scaled.X.T[order])
        new = np.ones(len(X), dtype=np.bool_)
        new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        record_class = np.cumsum(new) - 1
        sizes = np.bincount(record_class)
        once = Values(np.ascontiguousarray(ordered[new].T), scaled.costs)
        del scaled
        nearest = nearest_of_all(once, min(count + 1, len(sizes)), leaves_read(len(sizes), len(once.X)))
        rank = np.empty(len(sizes), dtype=np.int64)
        rank[nearest.order] = np.arange(len(sizes))
        by_value = np.argsort(rank[record_class], kind="stable")
        points = Points(np.ascontiguousarray(ordered[by_value]), costs)
        return cls(points, order[by_value], by_value, record_class, sizes, nearest.near, nearest.squared)

    def near(self, count: int) -> ShortInts:
        first = np.concatenate([[0], np.cumsum(self.sizes)])
        place = np.empty(len(self.by_value), dtype=np.int32)
        place[self.by_value] = np.arange(len(self.by_value), dtype=np.int32)
        near = spread(np.ascontiguousarray(self.classes[:, : count + 1]), self.record_class, first, count)
        return place[near[self.by_value]]

    def inward(self, labels: Ints) -> Ints:
        """Convert labels of the input's records to labels of places, numbered by each group's first place."""
        return checked_labels(labels[self.order], (1, None), "a partition")

    def outward(self, labels: Ints, k: int) -> Ints:
        """Convert labels of places to labels of the input's records, numbered by each group's first record."""
        of_records = np.empty_like(labels)
        of_records[self.order] = labels
        return checked_labels(of_records, (k, None), "refinement")


def neighbour_bound(records: Records, k: int) -> Bound:
    """Compute the neighbour bound of records with at least k-1 neighbours, in their scaled units.

    It holds for any k. In a group of m records the sum of squared errors is 1/(2m) times the sum of squared distances
    over ordered pairs. A record's m-1 mates are no nearer to it than its m-1 nearest neighbours, and the mean of its m
    least squared distances (its own 0 among them) grows with m, so that m = k is the least: all groups together lose at
    least 1/(2k) times the sum, over records, of the squared distances to the k-1 nearest. With many
    attributes, distances are no greater than those of records that nobody looked at can be, and so too small.
    """
    n, p = records.points.shape
    of_classes = nearest_sums(records.classes, records.squared, records.sizes, k - 1)
    total = math.fsum(of_classes[records.record_class])
    return Bound(rounded_down(total / (2 * k), p), "neighbours", {"records": n, "neighbours": k - 1})


def neighbour_bound_of(X: AnyPoints, k: int) -> Bound:
    """Compute the neighbour bound of finite records in near-linear time; exact for fewer than 2k of them."""
    points, n = Points.of(X), len(X)
    if k < 2:
        return Bound(0.0, "neighbours", {"records": n, "neighbours": 0})
    if n < 2 * k:
        Z = points.scaled(exponent_of(points))  # one group, whose loss is the sum over its pairs
        others = np.arange(n)
        total = math.fsum(float(np.sum(Z.squared_distances(others, np.full(n, i)))) for i in range(n))
        return in_units_of(points, Bound(rounded_down(total / (2 * n), sum(points.shape)), "one group", {"records": n}))
    return in_units_of(points, neighbour_bound(Records.of(points, k - 1), k))
