"""Sums carried in two floats, so that a total is right to its last bit.

The total of what remains is kept up to date by taking records away. In plain floats the rounding errors of
everything that was ever in it would stay behind, and would tell records apart that lie at the same distance
from the centroid. Two floats carry about 32 digits: their sum, rounded once, is the true total unless what left
was 1e16 times as large as what stays.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.kernels.machine_code.jit import inlined, jit
from microagg_core.kernels.tools.two_floats import Pair, two_sum


@inlined
def add(high: float, low: float, value: float) -> Pair:
    """Add a float to a pair; the error of each addition is computed exactly and carried on."""
    total, error = two_sum(high, value)
    return two_sum(total, error + low)


@jit
def add_record(totals: Floats, X: Floats, position: int, sign: float) -> None:
    """Add (sign 1) the record at a position to the totals, or take it away (sign -1).

    ``totals`` is (2, p): high and low parts; ``X`` is (p, n).
    """
    for j in range(X.shape[0]):
        totals[0, j], totals[1, j] = add(totals[0, j], totals[1, j], sign * X[j, position])


@jit
def total_of(X: Floats, start: int, stop: int) -> Floats:
    """Total of the records at positions start to stop - 1, as a (2, p) array."""
    totals = np.zeros((2, X.shape[0]))
    for position in range(start, stop):
        add_record(totals, X, position, 1.0)
    return totals
