"""Who is nearest among few: each record that is looked for is compared with every point that it might be."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.remaining import squared_distances


@jit
def weigh_nearest(
    points: Floats, weights: Ints, values: Floats, first: Ints, last: Ints, own: Ints, same: float
) -> tuple[Bools, Ints]:
    """Whether a record's own point is one of those nearest to it, and what these weigh together.

    Args:
        points: (p, n), one attribute a row.
        weights: of the points.
        values: (m, p), of the records that are looked for.
        first: the first point that each of them might be.
        last: behind the last one.
        own: the point that each of them is.
        same: distances are equal that differ by no more than this, or by no more than this share.

    >>> points, weights = np.array([[0.0, 2.0, 9.0]]), np.array([3, 4, 5])
    >>> first, last, own = np.array([0, 1]), np.array([3, 3]), np.array([0, 2])
    >>> hit, weight = weigh_nearest(points, weights, np.array([[1.0], [1.0]]), first, last, own, 1e-9)
    >>> hit.tolist(), weight.tolist()
    ([True, False], [7, 4])
    """
    m, most = own.shape[0], 0
    for i in range(m):
        most = max(most, last[i] - first[i])
    hit, weight, distances = np.empty(m, np.bool_), np.empty(m, np.int64), np.empty(most)
    for i in range(m):
        start, size = first[i], last[i] - first[i]
        squares, theirs = distances[:size], weights[start : start + size]
        squared_distances(points, start, 1.0, values[i], squares)
        least = np.inf
        for j in range(size):
            least = min(least, squares[j])
        limit = (np.sqrt(least) * (1.0 + same) + same) ** 2
        total = 0
        for j in range(size):
            total += theirs[j] * (squares[j] <= limit)
        hit[i], weight[i] = squares[own[i] - start] <= limit, total
    return hit, weight
