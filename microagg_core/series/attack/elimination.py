"""Which unknowns a system of equations determines, in exact arithmetic over a large prime field."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Bools, Ints

#: The largest prime below 2^31, so that products fit into 64 bits.
_PRIME = 2**31 - 1


def determined(matrix: Ints) -> Bools:
    """Whether each column's unknown is determined by the rows' equations.

    It is where its unit vector lies in the row space, that is, where a row of the reduced echelon form is that vector.

    >>> determined(np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])).tolist()
    [True, True, False, False]
    """
    rows = matrix.astype(np.int64) % _PRIME
    n_reduced = 0
    for column in range(rows.shape[1]):
        if n_reduced == len(rows):
            break
        n_reduced += _reduce(rows, n_reduced, column)
    units = rows[np.count_nonzero(rows, axis=1) == 1]
    return np.asarray((units != 0).any(axis=0))


def _reduce(rows: Ints, n_reduced: int, column: int) -> bool:
    """Clear a column but for one row, which becomes the next reduced one; whether there was one to be had."""
    candidates = np.flatnonzero(rows[n_reduced:, column])
    if not len(candidates):
        return False
    pivot = n_reduced + int(candidates[0])
    rows[[n_reduced, pivot]] = rows[[pivot, n_reduced]]
    row = rows[n_reduced] = rows[n_reduced] * pow(int(rows[n_reduced, column]), -1, _PRIME) % _PRIME
    others = np.flatnonzero(rows[:, column])
    others = others[others != n_reduced]
    rows[others] = (rows[others] - rows[others, column][:, None] * row) % _PRIME
    return True
