"""MDAV and its kin as kernels: groups around the record farthest from the centroid of what remains.

They differ in when they still make two groups a round, the second around the record farthest from the first
group's; otherwise they make one.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.remaining import farthest, take_group
from microagg_core.kernels.scan.variable_groups import closest, totals_of_groups
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.tools.sums import add_record, total_of


@jit
def _take(
    X: Floats, ids: Ints, where: Ints, m: int, column: int, k: int, totals: Floats, labels: Ints, label: int
) -> int:
    """Group a record with its k-1 nearest and take them out of the totals; returns how many records remain.

    The record leaves the totals first, the others by number, so that rounding does not depend on the columns.
    """
    remaining = take_group(X, ids, where, m, column, k)
    labels[ids[remaining:m]] = label
    add_record(totals, X, m - 1, -1.0)
    for i in stable_order(ids[remaining : m - 1]):
        add_record(totals, X, remaining + i, -1.0)
    return remaining


@jit
def place_rest(X: Floats, ids: Ints, labels: Ints, m: int, k: int, n_groups: int) -> None:
    """Label the m records that have none (-1): a group of their own, or, if fewer than k, the nearer of the last two.

    ``ids`` holds the record in each column of X.
    """
    labels[labels < 0] = n_groups
    if 0 < m < k:
        totals, sizes, lowest = totals_of_groups(X, ids, labels, n_groups - 2, n_groups + 1)
        rest = totals[:, 2].copy()
        nearer = closest(rest, float(m), totals[:, :2], sizes[:2], lowest[:2], False)[0]
        labels[labels == n_groups] = n_groups - 2 + nearer


@jit
def peel(X: Floats, k: int, two_from: int) -> Ints:
    """Return group numbers of the n records of X, a (p, n) array whose columns are rearranged; n >= k.

    A round makes two groups while ``two_from`` records remain, and one while 2k do.
    """
    n = X.shape[1]
    labels = np.full(n, -1)
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
    place_rest(X, ids, labels, m, k, n_groups)
    return labels
