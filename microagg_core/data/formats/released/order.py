"""The order of released rows: a function of the released content alone.

Neither input order nor grouping can be read from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Ints
from microagg_core.data.kinds.registry import kind_of
from microagg_core.data.tables.hashing import hash_rows
from microagg_core.data.tables.ordering import leading_words, order_by, ranks, tied_places


def content_order(table: pa.Table, blocking: list[str], quasi_identifiers: list[str]) -> Ints:
    """The order of the released rows: by blocking values, then quasi-identifiers, then a hash of the whole row.

    Rows that are equal in everything may come in any order: nobody can tell them apart.

    >>> t = pa.table({"b": ["y", "x", "x"], "q": [1, 3, 2]})
    >>> content_order(t, ["b"], ["q"]).tolist()
    [2, 1, 0]
    """
    hashes = hash_rows(table.columns, table.num_rows, seed=0)
    keys = [_combination_ranks(table, blocking, quasi_identifiers), hashes]
    words = leading_words(keys)
    order = np.argsort(words)
    tied = order[tied_places(words[order])]
    unlike = (words[tied][1:] == words[tied][:-1]) & (hashes[tied][1:] != hashes[tied][:-1])
    # What a word leaves open is nearly always the order of equal rows.
    return order_by(keys) if unlike.any() else order


def _combination_ranks(table: pa.Table, blocking: list[str], quasi_identifiers: list[str]) -> Ints:
    """The place of each row's combination among all, of which there are few: only one row of each is compared."""
    combinations = hash_rows([table[name] for name in (*blocking, *quasi_identifiers)], table.num_rows, seed=0)
    number, distinct = pd.factorize(combinations)
    first = np.empty(len(distinct), dtype=np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    one_of_each = table.take(pa.array(first))
    keys: list[NDArray[Any]] = [ranks(one_of_each[name]) for name in blocking]
    keys += [kind_of(name, table[name].type).sort_key(one_of_each[name]) for name in quasi_identifiers]
    place = np.empty(len(distinct), dtype=np.int64)
    place[order_by(keys)] = np.arange(len(distinct))
    return place[number]
