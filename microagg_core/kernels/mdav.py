"""MDAV and its kin as kernels: groups around the record farthest from the centroid of what remains.

They differ in when they still make two groups a round, the second around the record farthest from the first
group's; otherwise they make one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microagg_core.kernels.centroids import closest, totals_of_groups
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
def _last_group(X: Floats, ids: Ints, labels: Ints, m: int, k: int, n_groups: int) -> int:
    """The group of the m records that remain: one of their own, or the nearer of the last round's two."""
    if m >= k:
        return n_groups
    totals, sizes, lowest = totals_of_groups(X, ids, labels, m, n_groups)
    rest, last = total_of(X, 0, m)[0], n_groups - 2
    return last + closest(rest, float(m), totals[:, last:], sizes[last:], lowest[last:], False)[0]


@jit
def _peel(X: Floats, k: int, two_from: int) -> Ints:
    """Group numbers of the n records of X: two groups a round while ``two_from`` remain, one while 2k do."""
    n = X.shape[1]
    labels = np.empty(n, np.int64)
    ids, where = np.arange(n), np.arange(n)
    totals = total_of(X, 0, n)
    m, n_groups = n, 0
    while m >= 2 * k:
        column = farthest(X, ids, m, float(m), totals[0])
        point = X[:, column].copy()
        makes_two = m >= two_from
        m = _take(X, ids, where, m, column, k, totals, labels, n_groups)
        n_groups += 1
        if makes_two:
            column = farthest(X, ids, m, 1.0, point)
            m = _take(X, ids, where, m, column, k, totals, labels, n_groups)
            n_groups += 1
    if m > 0:
        last = _last_group(X, ids, labels, m, k, n_groups)
        for column in range(m):
            labels[ids[column]] = last
    return labels


@jit
def mdav(X: Floats, k: int) -> Ints:
    """Group numbers of the n records of X, a (p, n) array whose columns are rearranged; n >= k."""
    return _peel(X, k, 2 * k)


@jit
def mdav_generic(X: Floats, k: int) -> Ints:
    """As :func:`mdav`, but two groups a round only while 3k records remain, so that no group is ever short."""
    return _peel(X, k, 3 * k)


@jit
def mdav_single(X: Floats, k: int) -> Ints:
    """As :func:`mdav`, but one group a round."""
    return _peel(X, k, X.shape[1] + 1)
