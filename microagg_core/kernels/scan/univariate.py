"""The optimal groups of one attribute, as a shortest path through the sorted values.

In an optimal partition no group reaches into another, and none has 2k records or more, so that it is a path from the
first of the sorted records to the end of them in steps of k to 2k-1, each as long as the sum of squares it spans.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.tools.two_floats import is_less, minus, over, plus, square, two_sum


@jit
def _sorted_from_one_end(x: Floats) -> Ints:
    """Record numbers in the order of their values, starting at the end where the lowest record number stands.

    Equal values stand in the order of their numbers, so that the mirror image of the values gives the same groups.
    """
    lowest_at_an_end = np.argmax((x == x.min()) | (x == x.max()))
    rises = x[lowest_at_an_end] == x.min()
    return stable_order(x if rises else -x)


@jit
def _first_step(x: Floats, start: int, k: int, high: Floats, low: Floats) -> int:
    """Size of the first group of the best path from ``start``; what that path costs goes to high and low."""
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
    """Group numbers of the n records with the values x; n >= k."""
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
