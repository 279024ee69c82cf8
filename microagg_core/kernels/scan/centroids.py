"""Totals of the groups made so far, and the group that is closest to a point.

A group's centroid is its total over its size; distances are taken of multiples, so that nothing is divided before
they are compared and what is tied on whole numbers stays tied.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.exact_sum import add


@jit
def totals_of_groups(X: Floats, ids: Ints, labels: Ints, first: int, n_groups: int) -> tuple[Floats, Ints, Ints]:
    """Total of each group from ``first`` on, one a column, its number of records, and its lowest record number.

    ``ids`` holds the record in each column of X; records with a lower label, or none (-1), are left out.
    """
    totals = np.zeros((X.shape[0], n_groups - first))
    sizes = np.zeros(n_groups - first, np.int64)
    lowest = np.full(n_groups - first, X.shape[1])
    for column in range(X.shape[1]):
        group = labels[ids[column]] - first
        if labels[ids[column]] >= 0 and group >= 0:
            sizes[group] += 1
            lowest[group] = min(lowest[group], ids[column])
    low = np.empty(n_groups - first)
    for j in range(X.shape[0]):
        row, high = X[j], totals[j]
        low[:] = 0.0
        for column in range(X.shape[1]):
            group = labels[ids[column]] - first
            if labels[ids[column]] >= 0 and group >= 0:
                high[group], low[group] = add(high[group], low[group], row[column])
    return totals, sizes, lowest


@jit
def closest(point: Floats, factor: float, totals: Floats, sizes: Ints, lowest: Ints, joins: bool) -> tuple[int, float]:
    """The group whose centroid is closest to ``point / factor``, and |size x point - factor x total| squared.

    With ``joins``, closest is the group whose sum of squares grows least when a record at the point joins it, which
    is size / (size + 1) times the squared distance. Ties go to the group with the lowest record number.
    """
    squares = np.zeros(sizes.shape[0])
    for j in range(point.shape[0]):
        row, c = totals[j], point[j]
        for group in range(sizes.shape[0]):
            squares[group] += (sizes[group] * c - factor * row[group]) ** 2
    best, best_distance = -1, np.inf
    for group in range(sizes.shape[0]):
        size = float(sizes[group])
        d = squares[group] / (size * (size + 1.0 if joins else size))
        if d < best_distance or (d == best_distance and lowest[group] < lowest[best]):
            best, best_distance = group, d
    return best, squares[best]


@jit
def join_closest(X: Floats, ids: Ints, labels: Ints, n_groups: int) -> None:
    """Give each record without a label (-1) to the group whose centroid is closest, as it was before any joined."""
    left_over = np.flatnonzero(labels[ids] < 0)
    if left_over.shape[0] == 0:
        return
    totals, sizes, lowest = totals_of_groups(X, ids, labels, 0, n_groups)
    for column in left_over:
        labels[ids[column]] = closest(X[:, column].copy(), 1.0, totals, sizes, lowest, False)[0]
