"""The order of released rows: a function of the released content alone.

Neither input order nor grouping can be read from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.tables.hashing import fixed_width_words, hash_rows, one_array


def content_order(table: pa.Table, blocking: list[str], quasi_identifiers: list[str]) -> NDArray[np.int64]:
    """The order of the released rows: by blocking values, then quasi-identifiers, then a hash of the whole row.

    Rows that are equal in everything may come in any order: nobody can tell them apart.

    >>> t = pa.table({"b": ["y", "x", "x"], "q": [1, 3, 2]})
    >>> content_order(t, ["b"], ["q"]).tolist()
    [2, 1, 0]
    """
    keys: list[NDArray[Any]] = [hash_rows(table.columns, table.num_rows, seed=0)]
    keys += [_sortable(table[name]) for name in reversed(quasi_identifiers)]
    keys += [_ranks(table[name]) for name in reversed(blocking)]
    return np.lexsort(keys)


def _ranks(column: pa.ChunkedArray) -> NDArray[np.int64]:
    values = one_array(column)
    distinct = pc.unique(values)
    sortable = distinct.cast(pa.int8()) if pa.types.is_boolean(distinct.type) else distinct
    distinct = distinct.take(pc.sort_indices(sortable))
    return np.asarray(pc.index_in(values, value_set=distinct)).astype(np.int64)


def _sortable(column: pa.ChunkedArray) -> NDArray[Any]:
    """A number for each value in ascending order, missing ones last."""
    array = one_array(column)
    if pa.types.is_decimal(array.type):
        return _ranks(column)
    missing = np.asarray(pc.is_null(array))
    if pa.types.is_floating(array.type):
        values = np.asarray(pc.fill_null(array, 0.0)).astype(np.float64)
        return np.where(missing, np.inf, values)
    if missing.any() or pa.types.is_boolean(array.type):
        return _ranks(column)
    words = fixed_width_words(array)
    if pa.types.is_unsigned_integer(array.type):
        return words
    bits = int(array.type.bit_width)
    # Signed values in 64-bit words: shift the sign bit so that the order of the words is that of the values.
    return (words + np.uint64(2 ** (bits - 1))) % np.uint64(2**bits) if bits < 64 else words ^ np.uint64(2**63)
