"""A plain brute-force MDAV, against which speeds are given: what a careful programmer would write, and no more.

It shares nothing with the kernels but the processor that both are compiled for. Records that are grouped leave a dense
array; ties and rounding are left to chance.
"""

from __future__ import annotations

import numba
import numpy as np

from microagg_core.kernels.machine_code.target import pin_target

# The first function of a process decides for all: numba would compile it, and then kernels too, for this very machine.
pin_target()


@numba.njit
def _squared_distance(X: np.ndarray, i: int, point: np.ndarray) -> float:
    total = 0.0
    for j in range(X.shape[1]):
        total += (X[i, j] - point[j]) * (X[i, j] - point[j])
    return total


@numba.njit
def _centroid(X: np.ndarray, m: int) -> np.ndarray:
    total = np.zeros(X.shape[1])
    for i in range(m):
        for j in range(X.shape[1]):
            total[j] += X[i, j]
    return total / m


@numba.njit
def _farthest(X: np.ndarray, m: int, point: np.ndarray) -> int:
    best, farthest = -1, -1.0
    for i in range(m):
        d = _squared_distance(X, i, point)
        if d > farthest:
            best, farthest = i, d
    return best


@numba.njit
def _take_group(X: np.ndarray, ids: np.ndarray, m: int, row: int, k: int, labels: np.ndarray, label: int) -> int:
    """Group a record with its nearest; how many remain."""
    point = X[row].copy()
    near, rows = np.full(k, np.inf), np.empty(k, np.int64)
    for i in range(m):
        d = _squared_distance(X, i, point)
        if d < near[k - 1]:
            at = k - 1
            while at > 0 and near[at - 1] > d:
                near[at], rows[at] = near[at - 1], rows[at - 1]
                at -= 1
            near[at], rows[at] = d, i
    for i in np.sort(rows)[::-1]:
        labels[ids[i]] = label
        m -= 1
        X[i], ids[i] = X[m], ids[m]
    return m


@numba.njit
def brute_force_mdav(records: np.ndarray, k: int) -> np.ndarray:
    """Group numbers of the (n, p) records: two groups a round; the last records make a group, however few."""
    X, ids, labels = records.copy(), np.arange(records.shape[0]), np.zeros(records.shape[0], np.int64)
    m, n_groups = records.shape[0], 0
    while m >= 2 * k:
        row = _farthest(X, m, _centroid(X, m))
        first = X[row].copy()
        m = _take_group(X, ids, m, row, k, labels, n_groups)
        m = _take_group(X, ids, m, _farthest(X, m, first), k, labels, n_groups + 1)
        n_groups += 2
    labels[ids[:m]] = n_groups
    return labels
