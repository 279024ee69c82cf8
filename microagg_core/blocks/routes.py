"""Routes: where the records of each blocking key go, found by the hash of the key.

A census has millions of keys. Whoever works on an input part reads all routes once, a shard at a time, and keeps those
of the part's own keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.blocks.cuts import Tree, route, with_record_numbers
from microagg_core.data.tables.hashing import hash_rows
from microagg_core.errors import DataError

#: The stratum of keys that are withheld, and the place of hashes that are no key's.
SUPPRESSED = -1
#: Keys in one shard.
SHARD_KEYS = 65_536
_HASH, _STRATUM, _FIRST_BLOCK = "hash", "stratum", "first_block"


def hash_keys(columns: list[pa.ChunkedArray | pa.Array], pattern: UInt64s, seed: int) -> UInt64s:
    """Hash keys (pattern of missing values, blocking values), by which records find theirs."""
    return hash_rows([pa.array(pattern), *columns], len(pattern), seed)


def missing_pattern(missing: Bools) -> UInt64s:
    """Set a bit for each missing quasi-identifier."""
    pattern = np.zeros(len(missing), dtype=np.uint64)
    for j in range(missing.shape[1] if missing.any() else 0):
        pattern |= missing[:, j].astype(np.uint64) << np.uint64(j)
    return pattern


@dataclass(frozen=True)
class Routes:
    """Strata and first blocks of some keys, by which records are routed."""

    #: Of the keys, ascending.
    hashes: UInt64s
    #: Of each key, or ``SUPPRESSED``.
    stratum: Ints
    #: The first block of the stratum; its other blocks follow.
    first_block: Ints
    #: The released blocking values of each key, ``b0``, ``b1``, ...
    labels: pa.Table

    @cached_property
    def _index(self) -> pd.Index[Any]:
        return pd.Index(self.hashes)

    def find(self, hashes: UInt64s) -> Ints:
        """Find the place of the key with each hash, or ``SUPPRESSED`` where there is none."""
        return self._index.get_indexer(pd.Index(hashes)).astype(np.int64)

    def places_of(self, hashes: UInt64s) -> Ints:
        """Find the places of records that all have a key, unless the input changed since it was surveyed."""
        place = self.find(hashes)
        if (place == SUPPRESSED).any():
            raise DataError(
                "the input changed while it was read: it holds a blocking key that was not there at first; run again"
            )
        return place

    def blocks_of(self, place: Ints, trees: dict[int, Tree], Z: Floats, units: Ints) -> Ints:
        """Find the block of each record by the place of its key, and its unit's standardized values and number."""
        block, stratum = self.first_block[place], self.stratum[place]
        if trees and len(stratum):
            order = np.argsort(stratum, kind="stable")
            numbers, first = np.unique(stratum[order], return_index=True)
            for number, rows in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
                if number in trees:
                    block[rows] += route(trees[number], with_record_numbers(Z[rows], units[rows]))
        return block

    def among(self, hashes: UInt64s) -> Routes:
        """Select the keys that have one of these hashes."""
        keys = np.flatnonzero(np.isin(self.hashes, hashes))
        labels = self.labels.take(pa.array(keys))
        return Routes(self.hashes[keys], self.stratum[keys], self.first_block[keys], labels)

    def to_table(self) -> pa.Table:
        labels = dict(zip(self.labels.column_names, self.labels.columns, strict=True))
        return pa.table({_HASH: self.hashes, _STRATUM: self.stratum, _FIRST_BLOCK: self.first_block, **labels})

    @classmethod
    def from_table(cls, table: pa.Table) -> Routes:
        """Inverse of :meth:`to_table`."""
        hashes, stratum, first_block = (np.asarray(table[name]) for name in (_HASH, _STRATUM, _FIRST_BLOCK))
        return cls(hashes, stratum, first_block, table.drop_columns([_HASH, _STRATUM, _FIRST_BLOCK]))

    @classmethod
    def joined(cls, ranges: Iterable[Routes]) -> Routes:
        """Join routes of ascending ranges of hashes."""
        return cls.from_table(pa.concat_tables([routes.to_table() for routes in ranges]).combine_chunks())
