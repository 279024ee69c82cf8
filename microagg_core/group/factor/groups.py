"""Groups of two and three records as columns of a set partition: rows of three numbers, -1 last in a pair."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array

from microagg_core.arrays import Ints
from microagg_core.group.factor.pairs import Points
from microagg_core.kernels.matching.pair_tree import PairTree, nearest_pairs, weights_of

#: Up to so many records, all groups there are.
_FEW = 24


def distinct(groups: Ints, n: int) -> Ints:
    """Each group once, its records ascending; of n records.

    >>> distinct(np.array([[2, 0, -1], [2, 1, 0], [0, 2, -1]]), 3).tolist()
    [[0, 1, 2], [0, 2, -1]]
    """
    rows = np.unique(np.sort(np.where(groups < 0, n, groups), axis=1), axis=0)
    return np.where(rows == n, -1, rows)


def costs(points: Points, groups: Ints) -> Ints:
    """Six times each group's SSE, in whole weights: 3 W of a pair, 2 (W + W + W) of a triple."""
    a, b, c = groups.T.copy()
    whole = weights_of(points.rows, a, b, points.scale)
    triple = np.flatnonzero(c >= 0)
    others = weights_of(points.rows, a[triple], c[triple], points.scale)
    others += weights_of(points.rows, b[triple], c[triple], points.scale)
    total = 3 * whole
    total[triple] += 2 * others - whole[triple]
    return total


def incidence(groups: Ints, n: int) -> csc_array:
    """Records by groups: 1 where a record is in a group."""
    inside = groups >= 0
    ends = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    records = groups[inside]
    return csc_array((np.ones(len(records)), records, ends), shape=(n, len(groups)))


def groups_of(labels: Ints) -> Ints:
    """The groups of a partition whose groups have two or three records.

    >>> groups_of(np.array([0, 1, 0, 1, 1])).tolist()
    [[0, 2, -1], [1, 3, 4]]
    """
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    start = np.cumsum(sizes) - sizes
    third = np.where(sizes == 3, order[np.minimum(start + 2, len(order) - 1)], -1)
    return np.stack([order[start], order[start + 1], third], axis=1)


def labels_from(groups: Ints, n: int) -> Ints | None:
    """Group numbers in the order of first records, or None if the groups do not hold each record exactly once.

    >>> labels_from(np.array([[1, 3, -1], [0, 2, 4]]), 5).tolist()
    [0, 1, 0, 1, 0]
    """
    if not np.array_equal(np.sort(groups[groups >= 0]), np.arange(n)):
        return None
    ordered = groups[np.argsort(groups[:, 0])]
    labels = np.empty(n, np.int64)
    for place in range(3):
        inside = ordered[:, place] >= 0
        labels[ordered[inside, place]] = np.flatnonzero(inside)
    return labels


def first_groups(tree: PairTree, neighbours: int) -> Ints:
    """Each record with any one, and any two, of its nearest; of few records, all groups."""
    n = len(tree.order)
    count = n - 1 if n <= _FEW else min(neighbours, n - 1)
    left, right = nearest_pairs(tree, count)
    own, near = left[::count], right.reshape(n, count)
    i, j = np.triu_indices(count, 1)
    triples = np.stack([np.repeat(own, len(i)), near[:, i].ravel(), near[:, j].ravel()], axis=1)
    pairs = np.stack([left, right, np.full(len(left), -1)], axis=1)
    return distinct(np.concatenate([pairs, triples]), n)
