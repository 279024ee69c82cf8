"""Count the decimals that floats need: what distinguishes 12.5 in a column of prices from a measured 12.500137924.

A float needs as many decimals as its shortest text has that reads back as the same float. The test is exact: a float
is taken to the nearest whole number of 10**-d and divided back, which for numbers of so few digits can be right for
one number of decimals only.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from microagg_core.arrays import Floats

#: 10**22 is the largest power of ten that is a float; means have one decimal more than the input.
_MOST_DECIMALS = 21
#: Floats have short decimals if they are whole numbers of their last decimal, below these limits: all decimals of 14
#: digits are told apart by float64, and all whole numbers below 2**23 of any power of ten by float32.
_LIMITS = {False: 1e14, True: 2.0**23}
#: Really continuous values show within so many.
_GLANCE = 1000


def decimals_needed(values: Floats, single: bool = False) -> int | None:
    """Find the greatest number of decimals that any finite value needs; None where one has no short decimals.

    ``single``: the values are of float32, and so are their shortest texts.

    >>> decimals_needed(np.array([1.0, -2.5, 0.125])), decimals_needed(np.array([0.1, 1 / 3]))
    (3, None)
    >>> decimals_needed(np.array([np.float32(0.1)], dtype=np.float64), single=True)
    1
    """
    if len(values) > _GLANCE and decimals_needed(values[:_GLANCE], single) is None:
        return None
    rest, limit = values[values != 0.0], _LIMITS[single]
    decimals = 0
    while len(rest):
        power = float(10**decimals)
        with np.errstate(over="ignore"):
            scaled = rest * power
        if decimals > _MOST_DECIMALS or max(-scaled.min(), scaled.max()) >= limit:
            return None
        back = np.rint(scaled) / power
        rest = rest[(back.astype(np.float32) if single else back) != rest]
        decimals += 1
    return max(decimals - 1, 0)


def most_decimals(parts: Iterable[int | None]) -> int | None:
    """Combine the decimals of parts.

    >>> most_decimals([1, 2]), most_decimals([1, None]), most_decimals([])
    (2, None, 0)
    """
    most = 0
    for decimals in parts:
        if decimals is None:
            return None
        most = max(most, decimals)
    return most


def short_together(decimals: int | None, greatest: float, single: bool) -> int | None:
    """Return the decimals of a column, if its greatest magnitude is short with so many; else None.

    >>> short_together(2, 1e6, False), short_together(2, 1e13, False)
    (2, None)
    """
    if decimals is None or greatest * float(10**decimals) >= _LIMITS[single]:
        return None
    return decimals
