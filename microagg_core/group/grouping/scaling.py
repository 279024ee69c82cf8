"""The private, safely scaled copy of the records that goes into everything that groups them."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.errors import DataError

#: The largest magnitude after scaling is below 2**_EXPONENT: squared distances, of records times as many as 2**50
#: and summed over a million attributes, stay below 2**1024; what differs by 2**-980 of the largest value counts.
_EXPONENT = 450


def private_copy(X: Floats) -> Floats:
    """Copy X column by column, scaled by a power of two.

    The scaling is exact, so no tie and no order of distances changes, while values up to 1e300 cannot
    overflow when squared and values down to 1e-300 cannot vanish.

    Raises:
        DataError: a value is NaN or infinite.

    >>> private_copy(np.array([[3e-300], [1e-300]])).ravel() > 1e100
    array([ True,  True])
    """
    copy = np.array(X, dtype=np.float64, order="F")
    least, most = copy.min(), copy.max()
    if not (np.isfinite(least) and np.isfinite(most)):  # a NaN is both; kernels walk out of their arrays by it
        raise DataError("the records hold missing or infinite values; remove or replace them first")
    largest = max(most, -least)
    if largest > 0:
        exponent = int(np.frexp(largest)[1])
        np.ldexp(copy, _EXPONENT - exponent, out=copy)
    return copy
