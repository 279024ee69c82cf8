"""From the edges of a factor to groups of two and three records, and what they lose."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from microagg_core.arrays import Floats, Ints
from microagg_core.errors import InternalError
from microagg_core.group.factor.pairs import Graph


def cut(graph: Graph, chosen: Ints) -> Ints:
    """Leave out the edges of a factor that both of their records can do without; positions of those that stay.

    The heaviest goes first, of equally heavy ones that of the lowest records. What stays is edges, and paths of
    two edges. In a lightest factor only edges of weight 0 go.

    >>> graph = Graph(4, np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([5, 0, 7]))
    >>> cut(graph, np.arange(3)).tolist()
    [0, 2]
    """
    left, right = graph.left[chosen], graph.right[chosen]
    degree = np.bincount(np.concatenate([left, right]), minlength=graph.n)
    spare = np.flatnonzero((degree[left] > 1) & (degree[right] > 1))
    keep = np.ones(len(chosen), bool)
    for i in spare[np.lexsort((right[spare], left[spare], -graph.weight[chosen[spare]]))]:
        if degree[left[i]] > 1 and degree[right[i]] > 1:
            degree[left[i]] -= 1
            degree[right[i]] -= 1
            keep[i] = False
    return chosen[keep]


def labels_of(graph: Graph, chosen: Ints) -> Ints:
    """Group numbers 0..g-1 of the factor's components, in the order of each group's first record."""
    left, right = graph.left[chosen], graph.right[chosen]
    edges = coo_array((np.ones(len(chosen), np.int8), (left, right)), shape=(graph.n, graph.n))
    _, component = connected_components(edges, directed=False)
    _, first, labels, sizes = np.unique(component, return_index=True, return_inverse=True, return_counts=True)
    if sizes.min() < 2 or sizes.max() > 3:
        raise InternalError("a bug: a factor has a component that is no pair and no triple; please report it")
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbered: Ints = rank[labels]
    return numbered


def factor_sse(X: Floats, labels: Ints) -> float:
    """The sum of squared distances to the centroids of groups of two and three, from those between records.

    >>> factor_sse(np.array([[0.0], [2.0], [4.0], [1.0], [1.0]]), np.array([0, 0, 0, 1, 1]))
    8.0
    """
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    triple = sizes == 3

    def squared(a: Ints, b: Ints) -> Floats:
        total: Floats = ((X[order[a]] - X[order[b]]) ** 2).sum(axis=1)
        return total

    parts = squared(start, start + 1)
    one = start[triple]
    parts[triple] += squared(one, one + 2) + squared(one + 1, one + 2)
    return math.fsum(parts / sizes)
