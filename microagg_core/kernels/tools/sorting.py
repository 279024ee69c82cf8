"""Sorting, for kernels: numba's own sorts are templates of six functions each, compiled anew for each place of use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Ints
from microagg_core.kernels.machine_code.jit import jit, uncounted

#: Runs of so many are sorted by insertion, and then merged.
_RUN = 16


@jit
def _sort_run(keys: NDArray[Any], order: Ints, start: int, stop: int) -> None:
    """Sort a short part of the order by the keys, equal ones as they stand."""
    for i in range(start + 1, stop):
        moving, at = order[i], i
        while at > start and keys[order[at - 1]] > keys[moving]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = moving


@jit
def _merge(keys: NDArray[Any], order: Ints, start: int, middle: int, stop: int, merged: Ints) -> None:
    """Merge two sorted parts of the order that follow each other; of equal keys, those of the first part come first."""
    left, right = start, middle
    for at in range(start, stop):
        takes_right = left == middle or (right < stop and keys[order[right]] < keys[order[left]])
        merged[at] = order[right] if takes_right else order[left]
        right += takes_right
        left += not takes_right


@jit
def stable_order(keys: NDArray[Any]) -> Ints:
    """Order places by rising key, none of them NaN; equal ones in the order in which they stand.

    >>> stable_order(np.array([2.0, 1.0, 2.0, 0.0])).tolist()
    [3, 1, 0, 2]
    """
    n = keys.shape[0]
    order, merged = np.arange(n), np.empty(n if n > _RUN else 0, np.int64)
    for start in range(0, n, _RUN):
        _sort_run(keys, order, start, min(start + _RUN, n))
    width = _RUN
    while width < n:
        for start in range(0, n, 2 * width):
            _merge(keys, order, start, min(start + width, n), min(start + 2 * width, n), merged)
        order, merged = merged, order
        width *= 2
    return order


#: Longer lists are sorted with gaps first.
_SHORT = 12


@uncounted
def sort_numbers(numbers: NDArray[Any]) -> None:
    """Sort numbers in place, without room of its own.

    Most lists are of few numbers, or nearly sorted, where this takes less than half of the time of a heap sort; of a
    million in no order it takes no more.

    >>> numbers = np.array([3, 1, 2])
    >>> sort_numbers(numbers)
    >>> numbers.tolist()
    [1, 2, 3]
    """
    gap, size = 1, numbers.shape[0]
    while size > _SHORT and 3 * gap + 1 < size:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            moving, at = numbers[i], i
            while at >= gap and numbers[at - gap] > moving:
                numbers[at] = numbers[at - gap]
                at -= gap
            numbers[at] = moving
        gap //= 3
