"""MDAV as a kernel: four plain scans of what remains in each round of two groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microagg_core.kernels.exact_sum import add_record, total_of
from microagg_core.kernels.jit import jit
from microagg_core.kernels.scan import farthest, take_group

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def _take(
    X: Floats, ids: Ints, where: Ints, m: int, column: int, k: int, totals: Floats, labels: Ints, label: int
) -> int:
    """Group a record with its k-1 nearest and take them out of the totals; how many records remain."""
    remaining = take_group(X, ids, where, m, column, k)
    for i in range(remaining, m):
        labels[ids[i]] = label
        add_record(totals, X, i, -1.0)
    return remaining


@jit
def _nearer_group(X: Floats, ids: Ints, m: int, k: int) -> int:
    """Of the last round's two groups, 0 or 1: the one whose centroid is nearer to that of the rest."""
    rest = total_of(X, 0, m)[0]
    second = total_of(X, m, m + k)[0]
    first = total_of(X, m + k, m + 2 * k)[0]
    d_first, d_second = 0.0, 0.0
    for j in range(X.shape[0]):
        # Both centroids times m times k, so that nothing is divided.
        d_first += (m * first[j] - k * rest[j]) ** 2
        d_second += (m * second[j] - k * rest[j]) ** 2
    if d_first == d_second:
        return 0 if ids[m + k : m + 2 * k].min() < ids[m : m + k].min() else 1
    return 0 if d_first < d_second else 1


@jit
def mdav(X: Floats, k: int) -> Ints:
    """Group numbers of the n records of X, a (p, n) array whose columns are rearranged; n >= k."""
    n = X.shape[1]
    labels = np.empty(n, np.int64)
    ids, where = np.arange(n), np.arange(n)
    totals = total_of(X, 0, n)
    m, n_groups = n, 0
    while m >= 2 * k:
        column = farthest(X, ids, m, float(m), totals[0])
        point = X[:, column].copy()
        m = _take(X, ids, where, m, column, k, totals, labels, n_groups)
        column = farthest(X, ids, m, 1.0, point)
        m = _take(X, ids, where, m, column, k, totals, labels, n_groups + 1)
        n_groups += 2
    last = n_groups
    if 0 < m < k:
        last = n_groups - 2 + _nearer_group(X, ids, m, k)
    for column in range(m):
        labels[ids[column]] = last
    return labels
