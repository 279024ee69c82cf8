"""Values: blocking and confidential values are each record's own.

Each record's values, hashed together with its private record number, add up to the same sum on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.plain import PlainHashes, PlainInts
from microagg_core.privacy.check import Check
from microagg_core.privacy.checks.contract import InputBatch, Inspection, Promise, ReleasedFile
from microagg_core.tables.hashing import hash_rows

_SEEDS = (11, 13)


@dataclass(frozen=True)
class Sums:
    """For each part of the input, its records, and the sums of their hashes modulo 2^64, one for each seed."""

    counts: PlainInts
    sums: PlainHashes

    @classmethod
    def none(cls, n_parts: int) -> Sums:
        """Those of no records."""
        return cls(np.zeros(n_parts, dtype=np.int64), np.zeros((n_parts, len(_SEEDS)), dtype=np.uint64))

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.counts + other.counts, self.sums + other.sums)


class Values(Inspection[Sums]):
    """Compares sums of hashes."""

    name = "values"
    note = Sums

    def of_file(self, file: ReleasedFile) -> Sums:
        """Sums of what is released."""
        return _sums(file.promise, file.table, file.records, file.parts)

    def of_batch(self, batch: InputBatch, before: Sums | None) -> Sums:
        """Sums of what should be."""
        parts = np.full(len(batch.records), batch.part, dtype=np.int64)
        sums = _sums(batch.promise, batch.expected, batch.records, parts)
        return before + sums if before else sums

    def check(self, promise: Promise, files: Sequence[Sums], parts: Sequence[Sums]) -> Check:
        """The same counts and sums, part by part."""
        none = Sums.none(promise.n_parts)
        released, expected = sum(files, none), sum(parts, none)
        differs = (released.counts != expected.counts) | (released.sums != expected.sums).any(axis=1)
        wrong = np.flatnonzero(differs).tolist()
        places = ", ".join(map(str, wrong[:5])) + ("" if len(wrong) <= 5 else ", ...")
        detail = f"blocking or confidential values differ from the input's in part {places}"
        return Check(
            self.name, not wrong, detail if wrong else "blocking and confidential values are each record's own"
        )


def _sums(promise: Promise, table: pa.Table, records: Ints, parts: Ints) -> Sums:
    own = [c.name for c in promise.schema.released if c.role != "quasi_identifiers"]
    columns = [pa.array(records), *(table[name] for name in own)]
    sums = Sums.none(promise.n_parts)
    for i, seed in enumerate(_SEEDS):
        np.add.at(sums.sums[:, i], parts, hash_rows(columns, table.num_rows, seed))
    return Sums(np.bincount(parts, minlength=promise.n_parts), sums.sums)
