"""The order of a column's values, whatever their type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Ints
from microagg_core.tables.hashing import one_array


def ranks(column: pa.ChunkedArray | pa.Array) -> Ints:
    """A number for each value, in ascending order of the values; equal ones have the same, missing ones the last.

    >>> ranks(pa.array(["b", None, "a", "b"])).tolist()
    [1, 2, 0, 1]
    """
    values = one_array(column)
    distinct = pc.unique(values)
    sortable = distinct.cast(pa.int8()) if pa.types.is_boolean(distinct.type) else distinct
    distinct = distinct.take(pc.sort_indices(sortable))
    return np.asarray(pc.index_in(values, value_set=distinct)).astype(np.int64)
