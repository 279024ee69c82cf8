"""Lower bounds: a loss below which no partition into groups of at least k can come.

The neighbour bound holds for any k. In a group of m records the sum of squared errors is 1/(2m) times the sum of
squared distances over ordered pairs. A record's m-1 mates are no nearer to it than its m-1 nearest neighbours, and the
mean of its m least squared distances (its own 0 among them) grows with m, so that m = k is the least: all groups
together lose at least 1/(2k) times the sum, over records, of the squared distances to the k-1 nearest.

Every bound is made a little smaller than its arithmetic gave it, by more than rounding can have added.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from microagg_core.algorithms.running import private_copy
from microagg_core.refine.neighbours import NeighbourGraph, Records

Floats = NDArray[np.float64]
Kind: TypeAlias = Literal["neighbours", "one group", "columns", "factor"]


@dataclass(frozen=True)
class Bound:
    """A proved lower bound on the sum of squared errors of partitions into groups of at least k.

    ``kind`` says how it was proved, ``facts`` holds what the proof went through, as plain values.
    """

    sse: float
    kind: Kind
    facts: Mapping[str, Any] = field(default_factory=dict)

    def gap(self, sse: float) -> float:
        """How much of a loss may be avoidable, in percent of that loss; a loss of nothing has no gap.

        >>> Bound(3.0, "neighbours").gap(4.0), Bound(0.0, "neighbours").gap(0.0)
        (25.0, 0.0)
        """
        return gap_percent(sse, self.sse)


def gap_percent(sse: float, bound: float) -> float:
    """The share of a loss that lies above a lower bound, in percent; 0 where there is no loss.

    >>> gap_percent(4.0, 3.0), gap_percent(0.0, 0.0)
    (25.0, 0.0)
    """
    return 100.0 * max(sse - bound, 0.0) / sse if sse > 0 else 0.0


def rounded_down(value: float, p: int) -> float:
    """Less than the sum of non-negative terms that ``value`` was computed as, whatever the rounding of each.

    A squared distance over p attributes is off by less than (p + 4) units of 2**-52, its root and square by less
    than four more; a tree may pass over a neighbour that is nearer by the rounding of as many additions as it has
    levels. The terms are added exactly and rounded once.
    """
    return value * (1.0 - (p + 512) * 2.0**-51)


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


def in_units_of(X: Floats, Z: Floats, bound: Bound) -> Bound:
    """A bound for Z, which is X times a power of two, as one for X; never rounded up."""
    exponent = int(np.frexp(np.abs(X).max())[1]) - int(np.frexp(np.abs(Z).max())[1])
    with np.errstate(over="ignore", under="ignore"):
        sse = float(np.ldexp(bound.sse, 2 * exponent))
    if sse < sys.float_info.min:
        sse = 0.0
    return Bound(min(sse, sys.float_info.max), bound.kind, bound.facts)
