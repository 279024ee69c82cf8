"""Joins of digests: pairs of 64-bit words, compared exactly, in numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Ints, Pairs


def positions_in(wanted: Pairs, among: Pairs) -> Ints:
    """Where each wanted digest stands among others, none of which repeats; -1 where it does not.

    >>> among = np.array([[5, 1], [2, 7]], dtype=np.uint64)
    >>> positions_in(np.array([[2, 7], [5, 2], [2, 7]], dtype=np.uint64), among).tolist()
    [1, -1, 1]
    """
    n = len(among)
    both = np.concatenate([among, wanted])
    order = np.lexsort((np.arange(len(both)) >= n, both[:, 1], both[:, 0]))
    ordered = both[order]
    starts = np.ones(len(both), dtype=np.bool_)
    starts[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    first = order[np.maximum.accumulate(np.where(starts, np.arange(len(both)), 0))] if len(both) else order
    position = np.empty(len(both), dtype=np.int64)
    position[order] = np.where(first < n, first, -1)
    return position[n:]


def positions_of_numbers(wanted: NDArray[Any], among: NDArray[Any]) -> Ints:
    """The same for whole numbers.

    >>> positions_of_numbers(np.array([7, 2]), np.array([5, 2])).tolist()
    [-1, 1]
    """
    wide, other = (np.column_stack([numbers, np.zeros_like(numbers)]).astype(np.uint64) for numbers in (wanted, among))
    return positions_in(wide, other)


def pairs_of(table: pa.Table, name: str) -> Pairs:
    """The digests that a table holds in two columns, such as ``u0`` and ``u1``."""
    return np.column_stack([np.asarray(table[f"{name}0"]), np.asarray(table[f"{name}1"])])


def as_columns(pairs: Pairs, name: str) -> dict[str, pa.Array]:
    """Inverse of :func:`pairs_of`."""
    return {f"{name}{i}": pa.array(np.ascontiguousarray(pairs[:, i])) for i in range(2)}
