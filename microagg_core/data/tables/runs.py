"""Runs: rows that follow each other and are equal, compared value by value.

Released rows lie by combination, so that a file has as many runs as combinations; whoever counts these looks at one row
of each run. Rows in another order have more runs, and what is found of them is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Bytes, Ints
from microagg_core.data.tables.hashing import hash_rows, one_array

_BITS_OF = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}


@dataclass(frozen=True)
class Runs:
    """The first row of each run, of so many rows.

    >>> runs = runs_of([pa.array(["a", "a", "b", None, None])], 5)
    >>> runs.first.tolist(), runs.lengths.tolist(), runs.spread(np.array([7, 8, 9])).tolist()
    ([0, 2, 3], [2, 1, 2], [7, 7, 8, 9, 9])
    """

    first: Ints
    n_rows: int

    @cached_property
    def lengths(self) -> Ints:
        """Rows of each run."""
        return np.diff(np.append(self.first, self.n_rows))

    def spread(self, of_runs: NDArray[Any]) -> NDArray[Any]:
        """For each row what is true of its run."""
        return of_runs if len(self.first) == self.n_rows else np.repeat(of_runs, self.lengths)

    def one_of_each(self, columns: Sequence[pa.ChunkedArray | pa.Array]) -> list[pa.Array]:
        """The columns, of the first row of each run."""
        arrays = [one_array(column) for column in columns]
        return arrays if len(self.first) == self.n_rows else [array.take(pa.array(self.first)) for array in arrays]


def runs_of(columns: Sequence[pa.ChunkedArray | pa.Array], n_rows: int) -> Runs:
    """The runs of rows that are equal in all these columns.

    Equal floats are those of equal bits; a null equals a null and nothing else.
    """
    starts = np.zeros(n_rows, dtype=np.bool_)
    starts[:1] = True
    if n_rows > 1:
        for column in columns:
            starts[1:] |= _differs(one_array(column))
    return Runs(np.flatnonzero(starts), n_rows)


def no_two_are_equal(columns: Sequence[pa.ChunkedArray | pa.Array], n_rows: int) -> bool:
    """Whether it is certain that all rows differ: each comes after the one before, in the order of the columns.

    What is in another order, or has none, may differ all the same. Nulls come last.

    >>> two = [pa.array(["a", "a", "b"]), pa.array([1, 2, None])]
    >>> no_two_are_equal(two, 3), no_two_are_equal(two[:1], 3), no_two_are_equal([pa.array([2, 1])], 2)
    (True, False, False)
    """
    equal = np.ones(max(n_rows - 1, 0), dtype=np.bool_)
    for column in columns:
        if not equal.any():
            break
        array = _sortable(one_array(column))
        differs = _differs(array)
        if np.any(equal & differs & ~_ascends(array)):
            return False
        equal &= ~differs
    return not equal.any()


def combinations(columns: Sequence[pa.ChunkedArray | pa.Array], n_rows: int) -> tuple[Ints, Ints]:
    """A number for each row, 0, 1, ..., equal ones the same, in the order of their first rows; and these first rows.

    Rows that do not ascend are told apart by their hashes.

    >>> numbers, first = combinations([pa.array(["b", "b", "a", "b"])], 4)
    >>> numbers.tolist(), first.tolist()
    ([0, 0, 1, 0], [0, 2])
    """
    runs = runs_of(columns, n_rows)
    shown = runs.one_of_each(columns)
    n = len(runs.first)
    if no_two_are_equal(shown, n):
        return runs.spread(np.arange(n)), runs.first
    _, first, places = np.unique(hash_rows(shown, n, seed=0), return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return runs.spread(number[places]), runs.first[first[order]]


def _sortable(array: pa.Array) -> pa.Array:
    """Values of which Arrow can say which is less."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int8())
    return array.view(pa.uint16()) if pa.types.is_float16(array.type) else array


def _ascends(array: pa.Array) -> Bools:
    """For all rows but the first, whether the value is greater than that of the row before, or the first null."""
    n = len(array) - 1
    if pa.types.is_null(array.type):
        return np.zeros(n, dtype=np.bool_)
    greater = pc.greater(array.slice(1), array.slice(0, n))
    if not array.null_count:
        return _as_bools(greater)
    there = _as_bools(pc.is_valid(array))
    return np.asarray(_as_bools(pc.fill_null(greater, False)) | (there[:-1] & ~there[1:]))


def _differs(array: pa.Array) -> Bools:
    """For all rows but the first, whether the value is another than that of the row before."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    n, bits = len(array) - 1, _BITS_OF.get(array.type)
    if pa.types.is_null(array.type):
        return np.zeros(n, dtype=np.bool_)
    comparable = array if bits is None else array.view(bits)
    unequal = pc.not_equal(comparable.slice(1), comparable.slice(0, n))
    if not array.null_count:
        return _as_bools(unequal)
    there = _as_bools(pc.is_valid(array))
    return np.asarray(_as_bools(pc.fill_null(unequal, False)) | (there[1:] != there[:-1]))


def _as_bools(array: pa.Array) -> Bools:
    """Arrow's bits as NumPy's booleans, which NumPy alone would make one by one."""
    bits: Bytes = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    unpacked = np.unpackbits(bits, count=array.offset + len(array), bitorder="little")
    return np.asarray(unpacked[array.offset :].view(np.bool_))
