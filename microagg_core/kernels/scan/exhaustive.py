"""The optimal groups of a few records, by dynamic programming over all sets of records.

A set is a number whose bit i stands for record i. The best partition of a set is a group with the set's lowest record,
and the best partition of the rest.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.remaining import distance
from microagg_core.kernels.tools.two_floats import is_less, over, plus

#: Sums beyond this share of the best are not tied with it, whatever their low parts.
_CLOSE = 1.0 + 1e-12
_MOST = float(np.finfo(np.float64).max)


@jit
def _lowest(members: int) -> int:
    """The lowest record of a set that is not empty."""
    record = 0
    while not members >> record & 1:
        record += 1
    return record


@jit
def _pair_sums(X: Floats) -> tuple[Floats, Floats]:
    """Sum of the squared distances between all pairs of every set, high and low parts."""
    n = X.shape[1]
    high, low = np.zeros(1 << n), np.zeros(1 << n)
    for members in range(1, 1 << n):
        record, others = _lowest(members), members & (members - 1)
        total = (high[others], low[others])
        for other in range(record + 1, n):
            if others >> other & 1:
                total = plus(total, (distance(X, record, other), 0.0))
        high[members], low[members] = total
    return high, low


@jit
def _sums_of_squares(X: Floats, k: int) -> tuple[Floats, Floats]:
    """Sum of squares of every set, high and low parts; infinite unless the set has k to 2k-1 records."""
    high, low = _pair_sums(X)
    sizes = np.zeros(high.shape[0], np.int8)
    for members in range(high.shape[0]):
        sizes[members] = sizes[members >> 1] + (members & 1)
        if k <= sizes[members] < 2 * k:
            high[members], low[members] = over((high[members], low[members]), float(sizes[members]))
        else:
            high[members] = np.inf
    return high, low


@jit
def _best_groups(X: Floats, k: int) -> ShortInts:
    """For the set of all records and every set without record 0, the group of its lowest record that is best.

    Others are never left when groups are taken. Of equally good groups it is the lowest number.
    """
    high, low = _sums_of_squares(X, k)
    n_sets = high.shape[0]
    groups = np.zeros(n_sets, np.int32)
    best_high, best_low = np.full(n_sets, np.inf), np.zeros(n_sets)
    best_high[0] = 0.0
    for step in range(2, n_sets + 2, 2):
        members = min(step, n_sets - 1)
        first = members & -members
        others, subset, limit = members ^ first, 0, _MOST
        while True:
            group = first | subset
            rest = members ^ group
            if high[group] + best_high[rest] <= limit:
                total = plus((high[group], low[group]), (best_high[rest], best_low[rest]))
                if limit == _MOST or is_less(total, (best_high[members], best_low[members])):
                    best_high[members], best_low[members] = total
                    groups[members] = group
                    limit = total[0] * _CLOSE
            subset = (subset - others) & others
            if subset == 0:
                break
    return groups


@jit
def exhaustive(X: Floats, k: int) -> Ints:
    """Group numbers of the n records of X, a (p, n) array; n >= k, and small: time grows as 3**n."""
    n = X.shape[1]
    groups = _best_groups(X, k)
    labels = np.empty(n, np.int64)
    members, label = groups.shape[0] - 1, 0
    while members:
        group = groups[members]
        for record in range(n):
            if group >> record & 1:
                labels[record] = label
        members, label = members ^ group, label + 1
    return labels
