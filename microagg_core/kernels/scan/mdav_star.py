"""MDAV* as a kernel: each record in turn, from the outside in, starts a group or joins one that is closed.

Both ways are weighed by what they add to the sum of squares for each record that they place. A group's sum of squares
is that over its pairs divided by its size, and nothing is divided before the comparison, so that on whole numbers
what is tied stays tied.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.centroids import closest
from microagg_core.kernels.scan.remaining import distance, exchange, gather, nearest, outside_in
from microagg_core.kernels.tools.exact_sum import add_record
from microagg_core.kernels.tools.sorting import stable_order


@jit
def _pair_sum(X: Floats, ids: Ints, columns: Ints) -> float:
    """Sum of the squared distances between all pairs of the columns, in the order of record numbers."""
    ordered = columns[stable_order(ids[columns])]
    total = 0.0
    for a in range(ordered.shape[0]):
        for b in range(a + 1, ordered.shape[0]):
            total += distance(X, ordered[a], ordered[b])
    return total


@jit
def _nearest_of(X: Floats, ids: Ints, columns: Ints, column: int) -> int:
    """Of the columns, the one nearest to another."""
    best, best_distance = int(columns[0]), np.inf
    for candidate in columns:
        d = distance(X, candidate, column)
        if d < best_distance or (d == best_distance and ids[candidate] < ids[best]):
            best, best_distance = int(candidate), d
    return best


@jit
def _starts_group(X: Floats, ids: Ints, m: int, k: int, near: Ints, growth: float, weight: float) -> bool:
    """Whether the record in column m - 1 starts a group with the ``near`` ones; else it joins one that is closed.

    That one grows by ``growth / weight``, and leaves the record's nearest, y, to start a group of its own.
    """
    # Means a record, of k records placed and of k + 1, both times k x k x (k + 1) x weight.
    started = _pair_sum(X, ids, np.append(near, m - 1)) * (k + 1) * weight
    joined = float(k) * k * growth
    if started <= joined:
        return True
    y = _nearest_of(X, ids, near, m - 1)
    around_y = nearest(X, ids, m - 1, X[:, y].copy(), k)
    return bool(started <= joined + k * _pair_sum(X, ids, around_y) * weight)


@jit
def _destination(X: Floats, ids: Ints, m: int, k: int, near: Ints, totals: Floats, sizes: Ints, lowest: Ints) -> int:
    """The group of the record in column m - 1; one more than there are where it starts its own."""
    n_groups: int = sizes.shape[0]
    if n_groups == 0 or m == k:
        return n_groups
    group, growth = closest(X[:, m - 1].copy(), 1.0, totals, sizes, lowest, True)
    size = float(sizes[group])
    starts = m > k and _starts_group(X, ids, m, k, near, growth, size * (size + 1.0))
    return n_groups if starts else group


@jit
def mdav_star(X: Floats, k: int) -> Ints:
    """Group numbers of the n records of X, a (p, n) array whose columns are rearranged; n >= k."""
    n = X.shape[1]
    labels = np.full(n, -1)
    ids, where = np.arange(n), np.arange(n)
    totals = np.zeros((2, X.shape[0], n // k))
    sizes, lowest = np.zeros(n // k, np.int64), np.full(n // k, n)
    m, n_groups = n, 0
    for record in outside_in(X):
        if labels[record] >= 0:
            continue
        exchange(X, ids, where, where[record], m - 1)
        near = nearest(X, ids, m - 1, X[:, m - 1].copy(), k - 1 if m >= k else 0)
        group = _destination(X, ids, m, k, near, totals[0], sizes[:n_groups], lowest)
        remaining = gather(X, ids, where, m - 1, near) if group == n_groups else m - 1
        n_groups = max(n_groups, group + 1)
        for column in range(remaining, m):
            labels[ids[column]] = group
            add_record(totals[:, :, group], X, column, 1.0)
            sizes[group] += 1
            lowest[group] = min(lowest[group], ids[column])
        m = remaining
    return labels
