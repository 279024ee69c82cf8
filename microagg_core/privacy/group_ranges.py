"""The gate's look at group means: no released value lies outside the range of the records that share it.

Groups are taken for what a reader sees, the records of one released combination; how they were made is not asked. A
value within the range of equal values is that value, so that a group of equal records is seen to be released as it is.
Comparisons are exact. Only a rounding step that the spec asks for may leave the range: by half of it, or, where the
nearest multiple does not fit the column's type, by less than all of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.kinds.encoding import QuasiType, quasi_type

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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


def outside_ranges(
    kind: QuasiType, came: pa.ChunkedArray, released: pa.ChunkedArray, combination: NDArray[np.uint64]
) -> int:
    """How many released values lie outside what the rounding allows of their combination's range in the input.

    ``combination`` holds one number for each released combination. A value that is missing on one side only counts.

    >>> kind = quasi_type("x", pa.int64(), "type")
    >>> values = lambda *v: pa.chunked_array([v])
    >>> outside_ranges(kind, values(1, 4, 7, 7), values(2, 2, 7, 8), np.array([1, 1, 2, 2], dtype=np.uint64))
    1
    """
    before, missing = kind.ticks(came)
    after, missing_after = quasi_type(kind.name, kind.released_type, "type").ticks(released)
    there = ~(missing | missing_after)
    wrong = int(np.sum(missing != missing_after))
    if not there.any():
        return wrong
    before, after, combination = before[there], after[there], combination[there]
    order = np.argsort(combination, kind="stable")
    ordered = combination[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.append(first, len(ordered)))
    least, greatest = (as_released(kind, f.reduceat(before[order], first)) for f in (np.minimum, np.maximum))
    least, greatest, after = np.repeat(least, sizes), np.repeat(greatest, sizes), after[order]
    inside = (after >= least) & (after <= greatest)
    doubtful = ~inside
    if not isinstance(kind.rule, str) and doubtful.any():
        inside[doubtful] = _within_step(kind, least[doubtful], greatest[doubtful], after[doubtful])
    return wrong + int(np.sum(~inside))


def as_released(kind: QuasiType, ticks: NDArray[Any]) -> NDArray[Any]:
    """Input ticks in the unit in which they are released: whole numbers become the nearest floats for 'none'."""
    if kind.kind == "float" or kind.step:
        return ticks
    return np.asarray(ticks.astype(object) / 10**kind.scale, dtype=np.float64)


def _within_step(kind: QuasiType, least: NDArray[Any], greatest: NDArray[Any], after: NDArray[Any]) -> Bools:
    """Whether values outside their ranges are there because of the rounding step."""
    if kind.kind == "float":
        return _within_float_step(kind, least, greatest, after)
    step, (low, high) = int(kind.step), kind.range
    # In Python's whole numbers, which do not overflow: few values are rounded out of their range.
    after, least, greatest = after.astype(object), least.astype(object), greatest.astype(object)
    beyond = np.where(after < least, least - after, after - greatest)
    no_other = np.where(after < least, after + step > high, after - step < low)
    is_multiple = after % step == 0
    return np.asarray(is_multiple & ((2 * beyond <= step) | (no_other & (beyond < step))), dtype=np.bool_)


def _within_float_step(kind: QuasiType, least: NDArray[Any], greatest: NDArray[Any], after: NDArray[Any]) -> Bools:
    spacing = np.float32 if kind.released_type == pa.float32() else np.float64
    # A multiple of the step is the nearest float to it, and the mean itself is not exact.
    error = 2.0 * np.spacing(np.maximum(np.abs(after), kind.step).astype(spacing)).astype(np.float64)
    with np.errstate(over="ignore"):
        beyond = np.maximum(least - after, after - greatest)
    return np.asarray(beyond <= kind.step / 2.0 + error, dtype=np.bool_)
