"""The neighbour bound: a loss below which no partition can come, from each record's nearest alone.

It holds for any k. In a group of m records the sum of squared errors is 1/(2m) times the sum of
squared distances over ordered pairs. A record's m-1 mates are no nearer to it than its m-1 nearest neighbours, and the
mean of its m least squared distances (its own 0 among them) grows with m, so that m = k is the least: all groups
together lose at least 1/(2k) times the sum, over records, of the squared distances to the k-1 nearest.
"""

from __future__ import annotations

import math

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.group.grouping.bounds import Bound, in_units_of, rounded_down
from microagg_core.group.grouping.scaling import private_copy
from microagg_core.group.refine.neighbours import NeighbourGraph, Records


def neighbour_bound(graph: NeighbourGraph, k: int, p: int) -> Bound:
    """The neighbour bound from a graph with at least k-1 neighbours a class, in the graph's units."""
    n = len(graph.record_class)
    total = math.fsum(graph.squared_to_nearest(k - 1))
    return Bound(rounded_down(total / (2 * k), p), "neighbours", {"records": n, "neighbours": k - 1})


def one_group_bound(X: Floats) -> Bound:
    """Of fewer than 2k records there is one partition: its loss, as the sum over pairs, is the bound."""
    total = math.fsum(float(np.sum((X - row) ** 2)) for row in X)
    n, p = X.shape
    return Bound(rounded_down(total / (2 * n), n + p), "one group", {"records": n})


def neighbour_bound_of(X: Floats, k: int) -> Bound:
    """The neighbour bound of an (n, p) array of finite numbers, in near-linear time; exact for fewer than 2k records.

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
