"""Candidate pairs of records with whole weights: the graph that an engine is given."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.matching.pair_tree import PairTree, nearest_pairs, weights_of

#: Whole weights stay below 2**_BITS: exact as floats, with room for sums of many of them in 64 bits.
_BITS = 51


@dataclass(frozen=True)
class Graph:
    """Pairs ``left[i] < right[i]`` of n records, in ascending order, with their whole weights of 0 or more."""

    n: int
    left: Ints
    right: Ints
    weight: Ints

    @property
    def codes(self) -> Ints:
        return self.left * self.n + self.right


@dataclass(frozen=True)
class Points:
    """Records scaled by a power of two, and the power of two that makes whole weights of squared distances.

    ``rows`` is X times 2**``shift``; the weight of a pair is ``scale`` times the squared distance of its rows,
    rounded down; so a whole weight of W stands for W x 2**-``exponent`` in squared units of X.
    """

    rows: Floats
    scale: float
    shift: int
    exponent: int

    @property
    def n(self) -> int:
        return len(self.rows)

    def graph(self, left: Ints, right: Ints) -> Graph:
        """Build the graph of pairs given in any order, either way round and more than once.

        >>> points_of(np.array([[0.0], [1.0], [3.0]])).graph(np.array([2, 0, 1]), np.array([0, 1, 0])).right
        array([1, 2])
        """
        codes = np.unique(np.minimum(left, right) * self.n + np.maximum(left, right))
        low, high = codes // self.n, codes % self.n
        return Graph(self.n, low, high, weights_of(self.rows, low, high, self.scale))


def points_of(X: Floats) -> Points:
    """Scale the records of X, an (n, p) array of finite numbers, so that squares neither overflow nor vanish."""
    largest = max(float(X.max()), -float(X.min()))
    spread = float((X.max(axis=0) * 0.25 - X.min(axis=0) * 0.25).max())
    # What differs least decides, unless a large value that all records share would overflow.
    shift = min(-math.frexp(spread)[1], 900 - math.frexp(largest)[1])
    rows = np.ascontiguousarray(np.ldexp(X, shift))
    diagonal = float(((rows.max(axis=0) - rows.min(axis=0)) ** 2).sum())
    bits = _BITS - math.frexp(diagonal * 1.001)[1] if diagonal > 0 else 0
    return Points(rows, math.ldexp(1.0, bits), shift, bits + 2 * shift)


def neighbour_graph(points: Points, tree: PairTree, count: int) -> Graph:
    """Pair each record with its ``count`` nearest (all others, where there are fewer)."""
    return points.graph(*nearest_pairs(tree, min(count, points.n - 1)))


def complete_graph(points: Points) -> Graph:
    left, right = np.triu_indices(points.n, 1)
    return points.graph(left, right)


def with_pairs(points: Points, graph: Graph, left: Ints, right: Ints) -> Graph:
    return points.graph(np.concatenate([graph.left, left]), np.concatenate([graph.right, right]))
