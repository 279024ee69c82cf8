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
class NeighbourGraph:
    """Classes of equal records, and of each the nearest classes, itself first.

    ``record_class`` is each record's class; ``near`` and their ``squared`` distances are (classes, found) by distance;
    ``order`` lists the records so that neighbours are mostly near each other.
    """

    record_class: Ints
    sizes: Ints
    near: ShortInts
    squared: Floats
    order: Ints

    @classmethod
    def of(cls, X: Floats, count: int) -> NeighbourGraph:
        """Search ``count`` neighbours of each class of sorted records, fewer where there are fewer classes."""
        new = np.ones(len(X), dtype=np.bool_)
        new[1:] = (X[1:] != X[:-1]).any(axis=1)
        record_class = np.cumsum(new) - 1
        sizes = np.bincount(record_class)
        nearest = nearest_of_all(np.ascontiguousarray(X[new].T), min(count + 1, len(sizes)))
        rank = np.empty(len(sizes), dtype=np.int64)
        rank[nearest.order] = np.arange(len(sizes))
        order = np.argsort(rank[record_class], kind="stable")
        return cls(record_class, sizes, nearest.near, nearest.squared, order)

    def records_near(self, count: int) -> ShortInts:
        first = np.concatenate([[0], np.cumsum(self.sizes)])
        records = np.argsort(self.record_class, kind="stable")
        near = np.ascontiguousarray(self.near[:, : count + 1])
        return spread(near, self.record_class, first, records, count)

    def squared_to_nearest(self, count: int) -> Floats:
        """Add up, for each record, the squared distances to its ``count`` nearest others, as floats give it."""
        sums = nearest_sums(self.near, self.squared, self.sizes, count)
        return sums[self.record_class]


@dataclass(frozen=True)
class Records:
    """Records scaled by a power of two and put in an order that depends on their values alone, with neighbours.

    The order makes the groups found independent of the order of the input, but for equal records, and keeps
    neighbours near each other in memory. ``order`` is the input's record at each place.
    """

    Z: Floats
    order: Ints
    graph: NeighbourGraph
    spatial: Ints

    @classmethod
    def of(cls, X: Floats, count: int) -> Records:
        """Order the records of an (n, p) array of finite numbers, and find ``count`` neighbours of each."""
        scaled = private_copy(X)
        by_value = np.lexsort(scaled.T[::-1])
        ordered = np.ascontiguousarray(scaled[by_value])
        del scaled
        graph = NeighbourGraph.of(ordered, count)
        return cls(np.ascontiguousarray(ordered[graph.order]), by_value[graph.order], graph, graph.order)

    def near(self, count: int) -> ShortInts:
        rank = np.empty(len(self.spatial), dtype=np.int32)
        rank[self.spatial] = np.arange(len(self.spatial), dtype=np.int32)
        return rank[self.graph.records_near(count)[self.spatial]]

    def inward(self, labels: Ints) -> Ints:
        """Convert labels of the input's records to labels of places, numbered by each group's first place."""
        return checked_labels(labels[self.order], (1, None), "a partition")

    def outward(self, labels: Ints, k: int) -> Ints:
        """Convert labels of places to labels of the input's records, numbered by each group's first record."""
        of_records = np.empty_like(labels)
        of_records[self.order] = labels
        return checked_labels(of_records, (k, None), "refinement")


def neighbour_bound(graph: NeighbourGraph, k: int, p: int) -> Bound:
    """Compute the neighbour bound from a graph with at least k-1 neighbours a class, in the graph's units.

    It holds for any k. In a group of m records the sum of squared errors is 1/(2m) times the sum of squared distances
    over ordered pairs. A record's m-1 mates are no nearer to it than its m-1 nearest neighbours, and the mean of its m
    least squared distances (its own 0 among them) grows with m, so that m = k is the least: all groups together lose at
    least 1/(2k) times the sum, over records, of the squared distances to the k-1 nearest.
    """
    n = len(graph.record_class)
    total = math.fsum(graph.squared_to_nearest(k - 1))
    return Bound(rounded_down(total / (2 * k), p), "neighbours", {"records": n, "neighbours": k - 1})


def one_group_bound(X: Floats) -> Bound:
    """Bound fewer than 2k records by the loss of their one partition, as the sum over pairs."""
    total = math.fsum(float(np.sum((X - row) ** 2)) for row in X)
    n, p = X.shape
    return Bound(rounded_down(total / (2 * n), n + p), "one group", {"records": n})


def neighbour_bound_of(X: Floats, k: int) -> Bound:
    """Compute the neighbour bound of finite (n, p) numbers in near-linear time; exact for fewer than 2k records.

    >>> neighbour_bound_of(np.array([[0.0], [2.0], [10.0], [12.0]]), 2).sse > 3.999
    True
    """
    n, p = X.shape
    if k < 2:
        return Bound(0.0, "neighbours", {"records": n, "neighbours": 0})
    if n < 2 * k:
        Z = private_copy(X)
        return in_units_of(X, Z, one_group_bound(Z))
    records = Records.of(X, k - 1)
    return in_units_of(X, records.Z, neighbour_bound(records.graph, k, p))
