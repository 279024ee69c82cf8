"""Which of few points are nearest to a value, where some attributes are codes of categories that agree or do not."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit


@jit
def weigh_nearest_of_codes(
    points: Floats, costs: Floats, weights: Ints, values: Floats, first: Ints, last: Ints, most: Floats, same: float
) -> tuple[Floats, Ints]:
    """Compute up to which squared distance points are nearest to each value, and what these points weigh together.

    Of the (n, p) ``points``, those of a value are from ``first`` to ``last`` - 1, and one of them is no farther from it
    than ``most``, squared. An attribute with ``costs`` above 0 holds codes, which are so far apart, squared, where they
    differ. Distances are equal that differ by no more than ``same``, or by no more than this share.

    >>> points, costs = np.array([[0.0, 2.0], [1.0, 2.0], [1.0, 9.0]]), np.array([4.0, 0.0])
    >>> weights, values = np.array([3, 4, 5]), np.array([[1.0, 4.0], [0.0, 2.0]])
    >>> start, end, far = np.array([0, 1]), np.array([3, 3]), np.array([np.inf, np.inf])
    >>> limit, weight = weigh_nearest_of_codes(points, costs, weights, values, start, end, far, 1e-9)
    >>> limit.round(6).tolist(), weight.tolist()
    ([4.0, 4.0], [4, 4])
    """
    m = values.shape[0]
    limits, weight = np.empty(m), np.zeros(m, np.int64)
    for i in range(m):
        least = most[i]
        for j in range(first[i], last[i]):
            least = min(least, _square(points, costs, values[i], j, least))
        limits[i] = (np.sqrt(least) * (1.0 + same) + same) ** 2
        for j in range(first[i], last[i]):
            if _square(points, costs, values[i], j, limits[i]) <= limits[i]:
                weight[i] += weights[j]
    return limits, weight


@jit
def _square(points: Floats, costs: Floats, value: Floats, at: int, most: float) -> float:
    """Compute the squared distance of a point; or some number above ``most``, where it is more than that."""
    square = 0.0
    for a in range(costs.shape[0]):
        if costs[a] > 0.0:
            if points[at, a] != value[a]:
                square += costs[a]
        else:
            square += (points[at, a] - value[a]) ** 2
        if square > most:
            break
    return square
