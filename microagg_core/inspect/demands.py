"""What may be demanded of every group besides k: distinct values of a column, and shares near those of the whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Ints
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.ordering import as_key
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.risk.inference import distinct_values

#: A distance counts as at most t if it is above by no more than its rounding can be.
SLACK = 1e-12


@dataclass(frozen=True)
class Demand:
    """What is demanded of a confidential column in every group; ``closeness`` is the t of t-closeness."""

    column: str
    distinct: int = 0
    closeness: float | None = None

    def broken(self, codes: Ints, labels: Ints, whole: Distribution | None) -> Bools:
        """Which groups do not hold it.

        Args:
            codes: of the records' values, 0 where there is none; equal values have equal codes, and where closeness is
                demanded they are the places among the values of the whole.
            labels: the records' groups, 0 to g-1, none of them empty.
            whole: how the column is distributed, where closeness is demanded.

        >>> Demand("diagnosis", distinct=2).broken(np.array([7, 7, 7, 8]), np.array([0, 0, 1, 1]), None).tolist()
        [True, False]
        """
        broken = distinct_values(codes, labels) < self.distinct
        if self.closeness is not None and whole is not None:
            broken |= whole.distances(codes, labels) > self.closeness + SLACK
        return np.asarray(broken)


def codes_of(column: pa.ChunkedArray | pa.Array) -> Ints:
    """A number for each value: 1, 2, ... in the order as they come, the same for equal ones; 0 where there is none.

    >>> codes_of(pa.array(["flu", None, "flu"])).tolist()
    [1, 0, 1]
    """
    keys = as_key(one_array(column))
    if pa.types.is_null(keys.type):
        return np.zeros(len(keys), dtype=np.int64)
    return np.asarray(pc.fill_null(pc.dictionary_encode(keys).indices, -1)).astype(np.int64) + 1


def combinations_of(columns: Iterable[pa.ChunkedArray | pa.Array], n_rows: int) -> Ints:
    """A number for each row, 0, 1, ...: rows that are equal in all columns have the same.

    >>> combinations_of([pa.array([1, 1, 2]), pa.array(["a", "a", "a"])], 3).tolist()
    [0, 0, 1]
    """
    labels = np.zeros(n_rows, dtype=np.int64)
    for column in columns:
        codes = codes_of(column)
        labels = np.unique(labels * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return labels
