"""Which of few points are nearest to a value, where some attributes are codes of categories that agree or do not."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit


@jit
def weigh_nearest_of_codes(
    codes: Floats,
    costs: Floats,
    starts: Ints,
    points: Floats,
    weights: Ints,
    asked: tuple[Floats, Floats],
    first: Ints,
    last: Ints,
    most: Floats,
    same: float,
) -> tuple[Floats, Ints]:
    """Compute up to which squared distance points are nearest to each value, and what these points weigh together.

    Points stand in runs of equal codes, which are the rows of ``codes``; run r has the points from ``starts[r]`` to
    ``starts[r + 1]`` - 1, and ``points`` are their other attributes. Codes that differ are so much farther apart,
    squared, as ``costs`` say. Of each value that is ``asked`` for come the codes, then the other attributes. Its points
    are in the runs from ``first`` to ``last`` - 1, and one of them is no farther from it than ``most``, squared. Values
    of equal codes are quickest one after the other. Distances are equal that differ by no more than ``same``, or by no
    more than this share.

    >>> codes, starts, points = np.array([[0.0], [1.0]]), np.array([0, 1, 3]), np.array([[2.0], [2.0], [9.0]])
    >>> asked, end = (np.array([[0.0], [1.0]]), np.array([[2.0], [4.0]])), np.array([2, 2])
    >>> limit, weight = weigh_nearest_of_codes(
    ...     codes, np.array([4.0]), starts, points, np.array([3, 4, 5]), asked, end - 2, end, np.full(2, np.inf), 1e-9
    ... )
    >>> limit.round(6).tolist(), weight.tolist()
    ([0.0, 4.0], [3, 4])
    """
    m = first.shape[0]
    limits, weight, apart = np.empty(m), np.zeros(m, np.int64), np.empty(codes.shape[0])
    for i in range(m):
        if i == 0 or first[i] != first[i - 1] or np.any(asked[0][i] != asked[0][i - 1]):
            _mismatches(codes, costs, asked[0][i], first[i], last[i], apart)
        least = most[i]
        for run in range(first[i], last[i]):
            if apart[run] < least:
                for j in range(starts[run], starts[run + 1]):
                    least = min(least, apart[run] + _square(points, asked[1], j, i))
        limits[i] = (np.sqrt(least) * (1.0 + same) + same) ** 2
        for run in range(first[i], last[i]):
            if apart[run] <= limits[i]:
                for j in range(starts[run], starts[run + 1]):
                    if apart[run] + _square(points, asked[1], j, i) <= limits[i]:
                        weight[i] += weights[j]
    return limits, weight


@jit
def _mismatches(codes: Floats, costs: Floats, value: Floats, first: int, last: int, apart: Floats) -> None:
    """Write what the codes of a value cost that differ from those of each run."""
    apart[first:last] = 0.0
    for run in range(first, last):
        for a in range(costs.shape[0]):
            apart[run] += costs[a] * (codes[run, a] != value[a])


@jit
def _square(points: Floats, values: Floats, j: int, i: int) -> float:
    square = 0.0
    for a in range(points.shape[1]):
        square += (points[j, a] - values[i, a]) ** 2
    return square
