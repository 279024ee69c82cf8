"""Order rows, tell which of them are equal, and gather equal neighbours into runs; whatever the columns' types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Ints
from microagg_core.data.tables.hashing import bits_of, hash_rows, one_array

#: Of fewer values than this, comparing is as quick.
_FEW = 200


def ranks(column: pa.ChunkedArray | pa.Array) -> Ints:
    """Rank values in ascending order; equal ones have the same number, missing ones the last.

    >>> ranks(pa.array(["b", None, "a", "b"])).tolist()
    [1, 2, 0, 1]
    """
    values = one_array(column)
    return np.asarray(pc.index_in(values, value_set=distinct_in_order(values))).astype(np.int64)


def distinct_in_order(array: pa.Array) -> pa.Array:
    """List each value once, in ascending order, null the last.

    >>> distinct_in_order(pa.array([True, None, False, True])).to_pylist()
    [False, True, None]
    """
    distinct = pc.unique(array)
    sortable = distinct.cast(pa.int8()) if pa.types.is_boolean(distinct.type) else distinct
    return distinct.take(pc.sort_indices(sortable))


def ascending_order(values: NDArray[Any]) -> Ints:
    """Sort values, equal ones as they come; whole numbers of a narrow range in a pass or two.

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


def as_key(array: pa.Array) -> pa.Array:
    """Make equal values equal to the bit: NaN is a missing value, and -0.0 is 0.0.

    >>> as_key(pa.array([float("nan"), -0.0])).to_pylist()
    [None, 0.0]
    """
    if not pa.types.is_floating(array.type):
        return array
    nan = pc.fill_null(pc.is_nan(array), True)
    return pc.if_else(nan, pa.scalar(None, array.type), pc.add(array, pa.scalar(0.0, array.type)))


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
        return np.diff(np.append(self.first, self.n_rows))

    def spread(self, of_runs: NDArray[Any]) -> NDArray[Any]:
        """For each row what is true of its run."""
        return of_runs if len(self.first) == self.n_rows else np.repeat(of_runs, self.lengths)

    def one_of_each(self, columns: Sequence[pa.ChunkedArray | pa.Array]) -> list[pa.Array]:
        arrays = [one_array(column) for column in columns]
        return arrays if len(self.first) == self.n_rows else [array.take(pa.array(self.first)) for array in arrays]


def runs_of(columns: Sequence[pa.ChunkedArray | pa.Array], n_rows: int) -> Runs:
    """Find the runs of rows that are equal in all these columns.

    Equal floats are those of equal bits; a null equals a null and nothing else.
    """
    starts = np.zeros(n_rows, dtype=np.bool_)
    starts[:1] = True
    if n_rows > 1:
        for column in columns:
            starts[1:] |= _differs(one_array(column))
    return Runs(np.flatnonzero(starts), n_rows)


def no_two_are_equal(columns: Sequence[pa.ChunkedArray | pa.Array], n_rows: int) -> bool:
    """Tell whether it is certain that all rows differ: each comes after the one before, in the columns' order.

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
    """Number rows 0, 1, ..., equal ones the same, in the order of their first rows, which come too.

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


def _decoded(array: pa.Array) -> pa.Array:
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def _sortable(array: pa.Array) -> pa.Array:
    array = _decoded(array)
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int8())
    return array.view(pa.uint16()) if pa.types.is_float16(array.type) else array


def _ascends(array: pa.Array) -> Bools:
    """For all rows but the first, whether the value is greater than that of the row before, or the first null."""
    return _against_row_before(array, pc.greater, lambda now, before: before & ~now)


def _differs(array: pa.Array) -> Bools:
    """For all rows but the first, whether the value is another than that of the row before."""
    array = _decoded(array)
    bits = _BITS_OF.get(array.type)
    return _against_row_before(array if bits is None else array.view(bits), pc.not_equal, np.not_equal)


def _against_row_before(
    array: pa.Array, of_values: Callable[[pa.Array, pa.Array], pa.Array], of_validity: Callable[[Bools, Bools], Bools]
) -> Bools:
    n = len(array) - 1
    if pa.types.is_null(array.type):
        return np.zeros(n, dtype=np.bool_)
    compared = of_values(array.slice(1), array.slice(0, n))
    if not array.null_count:
        return _as_bools(compared)
    valid = _as_bools(pc.is_valid(array))
    return np.asarray(_as_bools(pc.fill_null(compared, False)) | of_validity(valid[1:], valid[:-1]))


def _as_bools(array: pa.Array) -> Bools:
    return bits_of(array, 1).view(np.bool_)


def content_order(table: pa.Table, blocking: Sequence[str], quasi_identifiers: Sequence[str]) -> Ints:
    """Order released rows by blocking values, then quasi-identifiers, then a hash of the whole row.

    It is a function of the released content alone: neither input order nor grouping can be read from it.

    >>> t = pa.table({"b": ["y", "x", "x"], "q": [1, 3, 2]})
    >>> content_order(t, ["b"], ["q"]).tolist()
    [2, 1, 0]
    """
    names = (*blocking, *quasi_identifiers)
    # Of combinations there are few: only one row of each is compared.
    number, distinct = pd.factorize(hash_rows([table[name] for name in names], table.num_rows, seed=0))
    first = np.empty(len(distinct), dtype=np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    one_of_each = table.take(pa.array(first))
    place = np.empty(len(distinct), dtype=np.uint64)
    columns = pa.table(
        [_sortable(one_array(one_of_each[name])) for name in names], names=list(map(str, range(len(names))))
    )
    in_order = pc.sort_indices(columns, sort_keys=[(name, "ascending") for name in columns.column_names])
    place[np.asarray(in_order)] = np.arange(len(distinct), dtype=np.uint64)
    places, hashes = place[number], hash_rows(table.columns, table.num_rows, seed=0)
    # NumPy sorts a million words in 0.04 s, pairs in 0.23; what words leave open is the order of equal rows.
    bits = np.uint64(max(len(distinct) - 1, 1).bit_length())
    words = places << (np.uint64(64) - bits) | hashes >> bits
    order = np.argsort(words)
    is_tied = words[order[1:]] == words[order[:-1]]
    if (hashes[order[1:]][is_tied] != hashes[order[:-1]][is_tied]).any():
        return np.lexsort((hashes, places))
    return order
