"""Who is nearest among few: each record that is looked for is compared with every point that it might be."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.remaining import BLOCK, squared_distances


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
    m, hit, weight = own.shape[0], np.empty(own.shape[0], np.bool_), np.zeros(own.shape[0], np.int64)
    squares, near = np.empty(BLOCK), np.empty(points.shape[1] // BLOCK + 1)
    for i in range(m):
        squared_distances(points, own[i], 1.0, values[i], squares[:1])
        own_square = squares[0]
        limit = _tied_up_to(points, values[i], first[i], last[i], own_square, same, squares, near)
        hit[i] = own_square <= limit
        for start in range(first[i], last[i], BLOCK):
            if near[(start - first[i]) // BLOCK] <= limit:
                some = squares[: min(BLOCK, last[i] - start)]
                squared_distances(points, start, 1.0, values[i], some)
                for j in range(some.shape[0]):
                    if some[j] <= limit:
                        weight[i] += weights[start + j]
    return hit, weight


@jit
def _tied_up_to(
    points: Floats, value: Floats, first: int, last: int, least: float, same: float, squares: Floats, near: Floats
) -> float:
    """The squared distance up to which points are nearest, if the least that is known is that of one of them.

    Into ``near`` goes the least one of each block; infinity, where that is beyond what was the limit by then.
    """
    limit = (np.sqrt(least) * (1.0 + same) + same) ** 2
    for start in range(first, last, BLOCK):
        some = squares[: min(BLOCK, last - start)]
        squared_distances(points, start, 1.0, value, some)
        n_near = 0
        for j in range(some.shape[0]):
            n_near += some[j] <= limit
        least_here = np.inf
        if n_near > 0:
            for j in range(some.shape[0]):
                least_here = min(least_here, some[j])
        near[(start - first) // BLOCK] = least_here
        if least_here < least:
            least = least_here
            limit = (np.sqrt(least) * (1.0 + same) + same) ** 2
    return float(limit)
