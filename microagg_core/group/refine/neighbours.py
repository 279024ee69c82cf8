"""Neighbours of records, and the lower bound that they alone give.

Equal records are searched for once: a tree of a thousand copies of one point would have to look at all of them
for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.group.grouping.labels import checked_labels
from microagg_core.group.grouping.scaling import private_copy
from microagg_core.kernels.refinement.nearest_lists import nearest_of_all, nearest_sums, spread


@dataclass(frozen=True)
class NeighbourGraph:
    """The classes of equal records, and of each the nearest classes, itself first.

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
        """The graph of sorted records with ``count`` neighbours a class, fewer where there are fewer classes."""
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
        """For each record, ``count`` records near it."""
        first = np.concatenate([[0], np.cumsum(self.sizes)])
        records = np.argsort(self.record_class, kind="stable")
        near = np.ascontiguousarray(self.near[:, : count + 1])
        return spread(near, self.record_class, first, records, count)

    def squared_to_nearest(self, count: int) -> Floats:
        """For each record, the sum of squared distances to its ``count`` nearest others, as floats give it."""
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
        """The records of an (n, p) array of finite numbers, with ``count`` neighbours each."""
        scaled = private_copy(X)
        by_value = np.lexsort(scaled.T[::-1])
        ordered = np.ascontiguousarray(scaled[by_value])
        del scaled
        graph = NeighbourGraph.of(ordered, count)
        return cls(np.ascontiguousarray(ordered[graph.order]), by_value[graph.order], graph, graph.order)

    def near(self, count: int) -> ShortInts:
        """For each place, ``count`` places of records near it."""
        rank = np.empty(len(self.spatial), dtype=np.int32)
        rank[self.spatial] = np.arange(len(self.spatial), dtype=np.int32)
        return rank[self.graph.records_near(count)[self.spatial]]

    def inward(self, labels: Ints) -> Ints:
        """Labels of the input's records as labels of places, numbered 0 to g-1 by each group's first place."""
        return checked_labels(labels[self.order], (1, None), "a partition")

    def outward(self, labels: Ints, k: int) -> Ints:
        """Labels of places as labels of the input's records, numbered by each group's first record."""
        of_records = np.empty_like(labels)
        of_records[self.order] = labels
        return checked_labels(of_records, (k, None), "refinement")
