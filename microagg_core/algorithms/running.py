"""Around every run: the private, safely scaled copy that goes in, and the checked numbering that comes out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microagg_core.errors import InternalError

#: The largest magnitude after scaling is below 2**_EXPONENT: squared distances, of records times as many as 2**50
#: and summed over a million attributes, stay below 2**1024; what differs by 2**-980 of the largest value counts.
_EXPONENT = 450


def private_copy(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Copy X column by column, scaled by a power of two.

    The scaling is exact, so no tie and no order of distances changes, while values up to 1e300 cannot
    overflow when squared and values down to 1e-300 cannot vanish.

    >>> private_copy(np.array([[3e-300], [1e-300]])).ravel() > 1e100
    array([ True,  True])
    """
    copy = np.array(X, dtype=np.float64, order="F")
    largest = max(copy.max(), -copy.min())
    if largest > 0:
        exponent = int(np.frexp(largest)[1])
        np.ldexp(copy, _EXPONENT - exponent, out=copy)
    return copy


def checked_labels(labels: NDArray[np.int64], sizes: tuple[int, int | None], algorithm: str) -> NDArray[np.int64]:
    """Number groups by their first record, and refuse a group smaller or larger than promised.

    >>> checked_labels(np.array([7, 2, 7, 2]), (2, 3), "mdav").tolist()
    [0, 1, 0, 1]
    """
    _, first, group, count = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    least, most = sizes
    if count.min() < least or (most is not None and count.max() > most) or labels.min() < 0:
        raise InternalError(f"a bug: {algorithm} made a group outside its sizes, {least} to {most}; please report it")
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbered: NDArray[np.int64] = rank[group]
    return numbered
