"""The gate's look at released values: each may stand for the records that share it.

Groups are taken for what a reader sees, the records of one released combination; how they were made is not asked. What
may stand for the values of a group is for their kind to say: of numbers, what lies within their range.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools
from microagg_core.data.kinds.contract import Kind
from microagg_core.group.metrics.moments import Groups


class Sharing:
    """Which records share a released combination, of which each has a number."""

    def __init__(self, combination: NDArray[Any]) -> None:
        self._combination = combination

    @cached_property
    def _groups(self) -> Groups:
        return _groups_of(self._combination)

    def among(self, some: Bools) -> Groups:
        """The groups of some of the records."""
        return self._groups if some.all() else _groups_of(self._combination[some])


def outside_ranges(kind: Kind, came: pa.ChunkedArray, released: pa.ChunkedArray, sharing: Sharing) -> int:
    """How many released values may not stand for the input's values of their combination.

    A value that is missing on one side only counts.

    >>> from microagg_core.data.kinds.registry import kind_of
    >>> values = lambda *v: pa.chunked_array([v])
    >>> sharing = Sharing(np.array([1, 1, 2, 2], dtype=np.uint64))
    >>> outside_ranges(kind_of("x", pa.int64()), values(1, 4, 7, 7), values(2, 2, 7, 8), sharing)
    1
    """
    before, missing = kind.ticks(came)
    after, missing_after = kind.reader.ticks(released)
    there = ~(missing | missing_after)
    wrong = int(np.sum(missing != missing_after))
    if not there.any():
        return wrong
    return wrong + int(np.sum(~kind.fits(before[there], after[there], sharing.among(there))))


def _groups_of(combination: NDArray[Any]) -> Groups:
    """The records of each combination, of which there may be any numbers."""
    # As a file's rows lie, so their numbers ascend already.
    is_ordered = bool(np.all(combination[1:] >= combination[:-1]))
    order = np.arange(len(combination)) if is_ordered else np.argsort(combination)
    ordered = combination if is_ordered else combination[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Groups(order, first, np.diff(np.append(first, len(ordered))))
