"""Which values of a column are equal and which come first, whatever their type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Ints, UInt64s
from microagg_core.data.tables.hashing import one_array

#: Of fewer values than this, comparing is as quick.
_FEW = 200
#: Bits of a word, which is what NumPy sorts fastest, and the one that a negative number has.
_WORD, _SIGN = 64, np.uint64(2**63)


def ranks(column: pa.ChunkedArray | pa.Array) -> Ints:
    """A number for each value, in ascending order of the values; equal ones have the same, missing ones the last.

    >>> ranks(pa.array(["b", None, "a", "b"])).tolist()
    [1, 2, 0, 1]
    """
    values = one_array(column)
    return np.asarray(pc.index_in(values, value_set=distinct_in_order(values))).astype(np.int64)


def distinct_in_order(array: pa.Array) -> pa.Array:
    """Each value once, in ascending order, null the last.

    >>> distinct_in_order(pa.array([True, None, False, True])).to_pylist()
    [False, True, None]
    """
    distinct = pc.unique(array)
    sortable = distinct.cast(pa.int8()) if pa.types.is_boolean(distinct.type) else distinct
    return distinct.take(pc.sort_indices(sortable))


def ascending_order(values: NDArray[Any]) -> Ints:
    """The order that sorts values, equal ones as they come; whole numbers of a narrow range in a pass or two.

    >>> ascending_order(np.array([70_003, 3, 70_003, -2])).tolist()
    [3, 1, 0, 2]
    """
    if values.dtype.kind not in "iu" or len(values) < _FEW or int(values.max()) - int(values.min()) >= 2**32:
        return np.argsort(values, kind="stable")
    # NumPy sorts 16 bits without comparing: first by the lower ones, then by those above.
    above = (values - values.min()).astype(np.uint32)
    order = np.argsort((above & np.uint32(0xFFFF)).astype(np.uint16), kind="stable")
    if int(above.max()) >= 2**16:
        order = order[np.argsort((above >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]
    return order


def order_within(values: Ints, groups: Ints) -> Ints:
    """The order that sorts records by group, and by value within each.

    >>> order_within(np.array([5, 1, 3, 2]), np.array([1, 0, 1, 0])).tolist()
    [1, 3, 2, 0]
    """
    order = ascending_order(values)
    return order[ascending_order(groups[order])]


def order_by(keys: Sequence[NDArray[Any]]) -> Ints:
    """The order that sorts by several keys of numbers, the first above all others; equal ones as they come.

    What all keys say is cut to one word, and only where words are equal the keys are compared.

    >>> order_by([np.array([1, 0, 1, 0]), np.array([-0.5, 2.0, -1.5, 2.0])]).tolist()
    [1, 3, 2, 0]
    """
    words = leading_words(keys)
    order = np.argsort(words)
    tied = tied_places(words[order])
    rows = np.sort(order[tied])
    order[tied] = rows[np.lexsort([*(key[rows] for key in reversed(keys)), words[rows]])]
    return order


def leading_words(keys: Sequence[NDArray[Any]]) -> UInt64s:
    """A word for each row that comes before another's only where the row does, by keys of which the first counts most.

    >>> leading_words([np.array([7, 5]), np.array([0, 3])]).tolist()
    [8, 3]
    """
    words, room = np.zeros(len(keys[0]), dtype=np.uint64), _WORD
    for key in keys:
        places = _places(key)
        bits = int(places.max(initial=0)).bit_length()
        kept = min(bits, room)
        words = words << np.uint64(kept) | places >> np.uint64(bits - kept)
        room -= kept
        if not room:
            break
    return words


def tied_places(ordered: NDArray[Any]) -> Ints:
    """Where sorted numbers stand that stand there more than once.

    >>> tied_places(np.array([1, 2, 2, 3])).tolist()
    [1, 2]
    """
    again = ordered[1:] == ordered[:-1]
    return np.flatnonzero(np.append(again, False) | np.append(False, again))


def _places(key: NDArray[Any]) -> UInt64s:
    """Whole numbers from 0 on in the order of the key's numbers, NaN the last."""
    if key.dtype.kind == "f":
        # Without a sign NaN is above all numbers; with one, a negative number's bits count downwards.
        bits = (np.where(np.isnan(key), np.nan, key) + 0.0).view(np.uint64)
        places = np.where(bits >= _SIGN, ~bits, bits | _SIGN)
    else:
        places = key.astype(np.int64).view(np.uint64) ^ _SIGN if key.dtype.kind == "i" else key.astype(np.uint64)
    return places - places.min() if len(places) else places


def as_key(array: pa.Array) -> pa.Array:
    """Values such that equal ones are equal to the bit: NaN is a missing value, and -0.0 is 0.0.

    >>> as_key(pa.array([float("nan"), -0.0])).to_pylist()
    [None, 0.0]
    """
    if not pa.types.is_floating(array.type):
        return array
    nan = pc.fill_null(pc.is_nan(array), True)
    return pc.if_else(nan, pa.scalar(None, array.type), pc.add(array, pa.scalar(0.0, array.type)))
