"""Sums over the records of each value of a column: arrays in, arrays out."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.kernels.machine_code.jit import jit


@jit
def sums_by_value(codes: Ints, n_values: int, Z: Floats, missing: Bools) -> Floats:
    """Records of each value, and count, sum and sum of squares of each attribute among them, in one pass.

    Args:
        codes: the value of each record; what is none of the ``n_values`` is left out.
        n_values: how many there are.
        Z: (p, n), one attribute a row.
        missing: of the same shape, which of these are not there.

    Returns:
        (n_values, 1 + 3 p), the records first; sums are added up in the order of the records.

    >>> Z, missing = np.array([[1.0, 2.0, 4.0]]), np.array([[False, False, True]])
    >>> sums_by_value(np.array([1, 1, 0]), 2, Z, missing).tolist()
    [[1.0, 0.0, 0.0, 0.0], [2.0, 2.0, 3.0, 5.0]]
    """
    p = Z.shape[0]
    sums = np.zeros((n_values, 1 + 3 * p))
    for i in range(codes.shape[0]):
        if codes[i] >= n_values:
            continue
        of_value = sums[codes[i]]
        of_value[0] += 1.0
        for j in range(p):
            if not missing[j, i]:
                z = Z[j, i]
                of_value[1 + 3 * j] += 1.0
                of_value[2 + 3 * j] += z
                of_value[3 + 3 * j] += z * z
    return sums
