"""The gate's look at released values: each may stand for the records that share it.

Groups are taken for what a reader sees, the records of one released combination; how they were made is not asked. What
may stand for the values of a group is for their kind to say: of numbers, what lies within their range.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints, UInt64s
from microagg_core.kinds.contract import Kind
from microagg_core.metrics.means import Groups


def input_of(numbers: Ints, came: pa.Table | None) -> pa.Table | None:
    """The input's rows in the order of record numbers; None where they are not just these records, each once."""
    if came is None:
        return None
    records = np.asarray(came["record"])
    mine, theirs = np.argsort(numbers, kind="stable"), np.argsort(records, kind="stable")
    ordered = records[theirs]
    if len(ordered) != len(numbers) or (ordered != numbers[mine]).any() or (ordered[1:] == ordered[:-1]).any():
        return None
    order = np.empty(len(numbers), dtype=np.int64)
    order[mine] = theirs
    return came.take(pa.array(order))


def outside_ranges(kind: Kind, came: pa.ChunkedArray, released: pa.ChunkedArray, combination: UInt64s) -> int:
    """How many released values may not stand for the input's values of their combination.

    ``combination`` holds one number for each released combination. A value that is missing on one side only counts.

    >>> from microagg_core.kinds.registry import kind_of
    >>> values = lambda *v: pa.chunked_array([v])
    >>> combinations = np.array([1, 1, 2, 2], dtype=np.uint64)
    >>> outside_ranges(kind_of("x", pa.int64()), values(1, 4, 7, 7), values(2, 2, 7, 8), combinations)
    1
    """
    before, missing = kind.ticks(came)
    after, missing_after = kind.reader.ticks(released)
    there = ~(missing | missing_after)
    wrong = int(np.sum(missing != missing_after))
    if not there.any():
        return wrong
    groups = _groups_of(combination[there])
    return wrong + int(np.sum(~kind.fits(before[there], after[there], groups)))


def _groups_of(combination: UInt64s) -> Groups:
    """The records of each combination, of which there may be any numbers."""
    order = np.argsort(combination, kind="stable")
    ordered = combination[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Groups(order, first, np.diff(np.append(first, len(ordered))))
