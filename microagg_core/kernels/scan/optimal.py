"""The optimal groups of a few records, and of one attribute."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.tools.sums import is_less, minus, over, plus, square, two_sum
from microagg_core.kernels.values import Values, distance

#: Sums beyond this share of the best are not tied with it, whatever their low parts.
_CLOSE = 1.0 + 1e-12
_MOST = float(np.finfo(np.float64).max)


@jit
def _lowest(members: int) -> int:
    record = 0
    while not members >> record & 1:
        record += 1
    return record


@jit
def _pair_sums(values: Values) -> tuple[Floats, Floats]:
    """Add up the squared distances between all pairs of every set, high and low parts."""
    n = values.X.shape[1]
    high, low = np.zeros(1 << n), np.zeros(1 << n)
    for members in range(1, 1 << n):
        record, others = _lowest(members), members & (members - 1)
        total = (high[others], low[others])
        for other in range(record + 1, n):
            if others >> other & 1:
                total = plus(total, (distance(values, record, other), 0.0))
        high[members], low[members] = total
    return high, low


@jit
def _sums_of_squares(values: Values, k: int) -> tuple[Floats, Floats]:
    """Compute the sum of squares of every set, high and low parts; infinite unless it has k to 2k-1 records."""
    high, low = _pair_sums(values)
    sizes = np.zeros(high.shape[0], np.int8)
    for members in range(high.shape[0]):
        sizes[members] = sizes[members >> 1] + (members & 1)
        if k <= sizes[members] < 2 * k:
            high[members], low[members] = over((high[members], low[members]), float(sizes[members]))
        else:
            high[members] = np.inf
    return high, low


@jit
def _best_groups(values: Values, k: int) -> ShortInts:
    """Find the best group of the lowest record, for the set of all records and every set without record 0.

    Others are never left when groups are taken. Of equally good groups it is the lowest number.
    """
    high, low = _sums_of_squares(values, k)
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
def exhaustive(values: Values, k: int) -> Ints:
    """Return group numbers of the n records; n >= k, and small: time grows as 3**n.

    A set is a number whose bit i stands for record i. The best partition of a set is a group with the set's lowest
    record, and the best partition of the rest.
    """
    n = values.X.shape[1]
    groups = _best_groups(values, k)
    labels = np.empty(n, np.int64)
    members, label = groups.shape[0] - 1, 0
    while members:
        group = groups[members]
        for record in range(n):
            if group >> record & 1:
                labels[record] = label
        members, label = members ^ group, label + 1
    return labels


@jit
def _sorted_from_one_end(x: Floats) -> Ints:
    """Sort record numbers by value, starting at the end where the lowest record number stands.

    Equal values stand in the order of their numbers, so that the mirror image of the values gives the same groups.
    """
    lowest_at_an_end = np.argmax((x == x.min()) | (x == x.max()))
    rises = x[lowest_at_an_end] == x.min()
    return stable_order(x if rises else -x)


@jit
def _first_step(x: Floats, start: int, k: int, high: Floats, low: Floats) -> int:
    """Find the size of the first group of the best path from ``start``; what that path costs goes to high and low."""
    n, best = x.shape[0], 0
    total, squares = (0.0, 0.0), (0.0, 0.0)
    for size in range(1, min(2 * k - 1, n - start) + 1):
        # Offsets from the group's own first value: nothing far away can blur them.
        offset = two_sum(x[start + size - 1], -x[start])
        total, squares = plus(total, offset), plus(squares, square(offset))
        end = start + size
        if size < k or n - k < end < n:
            continue
        cost = plus(minus(squares, over(square(total), float(size))), (high[end], low[end]))
        if best == 0 or is_less(cost, (high[start], low[start])):
            best, high[start], low[start] = size, cost[0], cost[1]
    return best


@jit
def univariate(x: Floats, k: int) -> Ints:
    """Return group numbers of the n records with the values x; n >= k.

    In an optimal partition no group reaches into another, and none has 2k records or more, so that it is a path from
    the first of the sorted records to the end of them in steps of k to 2k-1, each as long as the sum of squares it
    spans.
    """
    n = x.shape[0]
    order = _sorted_from_one_end(x)
    x = x[order]
    steps = np.zeros(n, np.int64)
    high, low = np.zeros(n + 1), np.zeros(n + 1)
    for start in range(n - k, -1, -1):
        steps[start] = _first_step(x, start, k, high, low)
    labels = np.empty(n, np.int64)
    start, group = 0, 0
    while start < n:
        labels[order[start : start + steps[start]]] = group
        start, group = start + steps[start], group + 1
    return labels
