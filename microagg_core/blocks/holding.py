"""Holding: which blocking keys of a night's arrivals are released tonight, and which wait for more.

Large blocks lose less than small ones, and whoever is released is never grouped anew: so a key waits until it has
many arrivals, or until one of them has waited long enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Bools, Ints


@dataclass(frozen=True)
class Holding:
    """For how many arrivals a blocking key waits."""

    #: With so many records a key is released by itself.
    until: int


def keys_that_go(rows: Ints, waited: Ints, k: int, hold: Holding | None) -> tuple[Bools, Bools]:
    """Which keys are released by themselves tonight, and which may be merged among themselves; the rest waits.

    Args:
        rows: records of each key.
        waited: how many of them have waited long enough.
        k: least number of records.
        hold: None where no key waits: then all may be merged.

    >>> rows, waited = np.array([60, 2, 9, 4]), np.array([0, 1, 0, 2])
    >>> by_itself, merging = keys_that_go(rows, waited, 3, Holding(until=60))
    >>> by_itself.tolist(), merging.tolist()
    ([True, False, False, False], [False, True, False, True])
    """
    if hold is None:
        return np.zeros(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.bool_)
    by_itself = rows >= max(hold.until, k)
    return by_itself, ~by_itself & (waited > 0)
