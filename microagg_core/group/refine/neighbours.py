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
from microagg_core.group.labels import checked_labels, private_copy
from microagg_core.kernels.refinement.nearest_lists import nearest_of_all, nearest_sums, spread


@dataclass(frozen=True)
class Records:
    """Records scaled by a power of two and put in an order that depends on their values alone, with neighbours.

    The order makes the groups found independent of the order of the input, but for equal records, and keeps
    neighbours near each other in memory. ``order`` is the input's record at each place, ``by_value`` its rank by value.
    Equal records are of one class: ``record_class`` by rank, with the ``sizes`` of classes and, (classes, found) by
    distance, the nearest classes of each, itself first, and their ``squared`` distances.
    """

    Z: Floats
    order: Ints
    by_value: Ints
    record_class: Ints
    sizes: Ints
    classes: ShortInts
    squared: Floats

    @classmethod
    def of(cls, X: Floats, count: int) -> Records:
        """Order the records of an (n, p) array of finite numbers, and find ``count`` neighbours of each."""
        scaled = private_copy(X)
        order = np.lexsort(scaled.T[::-1])
        ordered = np.ascontiguousarray(scaled[order])
        del scaled
        new = np.ones(len(X), dtype=np.bool_)
        new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        record_class = np.cumsum(new) - 1
        sizes = np.bincount(record_class)
        nearest = nearest_of_all(np.ascontiguousarray(ordered[new].T), min(count + 1, len(sizes)))
        rank = np.empty(len(sizes), dtype=np.int64)
        rank[nearest.order] = np.arange(len(sizes))
        by_value = np.argsort(rank[record_class], kind="stable")
        Z = np.ascontiguousarray(ordered[by_value])
        return cls(Z, order[by_value], by_value, record_class, sizes, nearest.near, nearest.squared)

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
    least 1/(2k) times the sum, over records, of the squared distances to the k-1 nearest.
    """
    n, p = records.Z.shape
    of_classes = nearest_sums(records.classes, records.squared, records.sizes, k - 1)
    total = math.fsum(of_classes[records.record_class])
    return Bound(rounded_down(total / (2 * k), p), "neighbours", {"records": n, "neighbours": k - 1})


def neighbour_bound_of(X: Floats, k: int) -> Bound:
    """Compute the neighbour bound of finite (n, p) numbers in near-linear time; exact for fewer than 2k records."""
    n = len(X)
    if k < 2:
        return Bound(0.0, "neighbours", {"records": n, "neighbours": 0})
    if n < 2 * k:
        Z = private_copy(X)  # one group, whose loss is the sum over its pairs
        total = math.fsum(float(np.sum((Z - row) ** 2)) for row in Z)
        return in_units_of(X, Z, Bound(rounded_down(total / (2 * n), sum(X.shape)), "one group", {"records": n}))
    records = Records.of(X, k - 1)
    return in_units_of(X, records.Z, neighbour_bound(records, k))
