"""Totals of the groups made so far, and the group that is closest to a point.

A group's centroid is its total over its size; distances are taken of multiples, so that nothing is divided before
they are compared and what is tied on whole numbers stays tied.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microagg_core.kernels.exact_sum import total_of
from microagg_core.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def totals_of_groups(X: Floats, ids: Ints, labels: Ints, m: int, n_groups: int) -> tuple[Floats, Ints, Ints]:
    """Total of each group, one a column, its number of records, and its lowest record number.

    The groups stand one behind the other after the first m columns of X, the first of them at the end.
    """
    totals = np.empty((X.shape[0], n_groups))
    sizes = np.zeros(n_groups, np.int64)
    lowest = np.full(n_groups, X.shape[1])
    stop = X.shape[1]
    for group in range(n_groups):
        start = stop
        while start > m and labels[ids[start - 1]] == group:
            start -= 1
            lowest[group] = min(lowest[group], ids[start])
        totals[:, group] = total_of(X, start, stop)[0]
        sizes[group] = stop - start
        stop = start
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
