"""Values: blocking and confidential values are each record's own, and so is what its group is compared with.

Each record's values, and its quasi-identifiers as they came in, hashed together with its private record number, add up
to the same sums on both sides. What lies beside a file is so known to be the input's own, record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.data.tables.hashing import hash_rows
from microagg_core.data.tables.ordering import ascending_order
from microagg_core.data.tables.slices import RECORD
from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, InputBatch, Promise, ReleasedFile
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.plain import PlainHashes, PlainInts

_SEED = 11
#: Of hashes, and of hashes mixed once more: what is wrong would have to be right in both.
_N_SUMS = 2


#: For each part of the input, its records, and two sums of their hashes modulo 2^64.
Sums: TypeAlias = tuple[PlainInts, PlainHashes]


class Values(GateCheck[Sums]):
    name = "values"
    notes = Sums

    def note(self, file: ReleasedFile) -> Sums:
        return _sums(file.promise, file.table, (file.origins[RECORD], *file.came), file.units, file.parts)

    def note_input(self, batch: InputBatch, before: Sums | None) -> Sums:
        parts = np.full(len(batch.records), batch.part, dtype=np.int64)
        return _sums(batch.promise, batch.expected, (pa.array(batch.records), *batch.came), batch.units, parts)

    def judge(self, promise: Promise, released: Sums, expected: Sums) -> Check:
        """Demand the same counts and sums, part by part."""
        differs = (released[0] != expected[0]) | (released[1] != expected[1]).any(axis=1)
        if not differs.any():
            return Check(self.name, True, "blocking and confidential values are each record's own")
        wrong = np.flatnonzero(differs).tolist()
        places = ", ".join(map(str, wrong[:5])) + ("" if len(wrong) <= 5 else ", ...")
        return Check(self.name, False, f"values differ from the input's in part {places}")


def _sums(
    promise: Promise, table: pa.Table, origins: Sequence[pa.Array | pa.ChunkedArray], units: Ints, parts: Ints
) -> Sums:
    own = [c.name for c in promise.schema.released if c not in promise.schema.quasi_identifiers]
    origins = (*origins, pa.array(units)) if promise.several else origins
    hashes = hash_rows([*origins, *(table[name] for name in own)], table.num_rows, _SEED)
    sums, order = np.zeros((promise.n_parts, _N_SUMS), dtype=np.uint64), ascending_order(parts)
    counts = np.bincount(parts, minlength=promise.n_parts)
    there = np.flatnonzero(counts)
    if len(there):
        first = (np.cumsum(counts) - counts)[there]
        for i, words in enumerate((hashes, mix_words(hashes))):
            sums[there, i] = np.add.reduceat(words[order], first)
    return counts, sums
