"""The order of released rows: a function of the released content alone.

Neither input order nor grouping can be read from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Ints
from microagg_core.kinds.registry import kind_of
from microagg_core.tables.hashing import hash_rows
from microagg_core.tables.ordering import ascending_order, ranks


def content_order(table: pa.Table, blocking: list[str], quasi_identifiers: list[str]) -> Ints:
    """The order of the released rows: by blocking values, then quasi-identifiers, then a hash of the whole row.

    Rows that are equal in everything may come in any order: nobody can tell them apart.

    >>> t = pa.table({"b": ["y", "x", "x"], "q": [1, 3, 2]})
    >>> content_order(t, ["b"], ["q"]).tolist()
    [2, 1, 0]
    """
    keys: list[NDArray[Any]] = [hash_rows(table.columns, table.num_rows, seed=0)]
    keys += [kind_of(name, table[name].type).sort_key(table[name]) for name in reversed(quasi_identifiers)]
    keys += [ranks(table[name]) for name in reversed(blocking)]
    order = np.argsort(keys[0])
    for key in keys[1:]:
        order = order[ascending_order(key[order])]
    return order
