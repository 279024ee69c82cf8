"""Profiles: whatever rows of a unit are tied to each other, k units fit, where units of several rows are wholes.

The profile of a unit is how many rows it has, and the combinations that are released of them. Who ties rows of a unit
together, by whatever values, sees a part of its profile, so it is enough that every profile is that of k units. Ids are
gone from a release: which rows are a unit's is known from the private notes beside each file alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints, UInt64s
from microagg_core.data.tables.hashing import hash_rows
from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, InputBatch, Promise, ReleasedFile
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.plain import PlainHashes, PlainInts

_SEEDS = (0x5EED, 0xF00D)


@dataclass(frozen=True)
class UnitsSeen:
    """By input part, how many units have rows there, and a sum of whose; and in files the profiles of fewer than k."""

    units: PlainInts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sums: PlainHashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    failing: int = 0


class Profiles(GateCheck[UnitsSeen]):
    name = "profiles"
    notes = UnitsSeen

    def note(self, file: ReleasedFile) -> UnitsSeen:
        """Count the profiles of a file, in which all units of a profile have all of their rows.

        A unit that lies in several files is another one in each, and is noticed so.
        """
        if not _is_promised(file.promise):
            return UnitsSeen()
        profiles = profiles_of(file.units, [file.table[name] for name in file.promise.key_columns])
        shared = np.unique(profiles, axis=0, return_counts=True)[1]
        return UnitsSeen(*_sums(file.promise, file.units, file.parts), int(np.sum(shared < file.promise.k)))

    def note_input(self, batch: InputBatch, before: UnitsSeen | None) -> UnitsSeen | None:
        if not _is_promised(batch.promise):
            return None
        parts = np.full(len(batch.units), batch.part, dtype=np.int64)
        return UnitsSeen(*_sums(batch.promise, batch.units, parts))

    def judge(self, promise: Promise, released: UnitsSeen, expected: UnitsSeen) -> Check | None:
        if not _is_promised(promise):
            return None
        wrong = []
        if released.failing:
            wrong.append(f"{released.failing} profiles of units have fewer than k={promise.k} units")
        if not (np.array_equal(released.units, expected.units) and np.array_equal(released.sums, expected.sums)):
            wrong.append("the rows of a unit are not all there, or lie in several files")
        right = f"every profile, a unit's number of rows and their released combinations, is that of {promise.k} units"
        return Check(self.name, not wrong, "; ".join(wrong) or right)


def _is_promised(promise: Promise) -> bool:
    return promise.several and promise.rows_tied


def profiles_of(units: Ints, columns: list[pa.ChunkedArray]) -> UInt64s:
    """Find the profile of each unit: how many rows it has, and two sums over the hashes of their combinations."""
    order = np.argsort(units, kind="stable")
    first = np.flatnonzero(np.diff(units[order], prepend=-1))
    rows = np.diff(first, append=len(units))
    hashes = [mix_words(hash_rows(columns, len(units), seed))[order] for seed in _SEEDS]
    sums = [np.add.reduceat(words, first) if len(first) else words for words in hashes]
    return np.column_stack([rows.astype(np.uint64), *sums])


def _sums(promise: Promise, units: Ints, parts: Ints) -> tuple[Ints, UInt64s]:
    """Count units by input part, and add up hashes of each one with how many rows it has."""
    numbers, first, rows = np.unique(units, return_index=True, return_counts=True)
    part = parts[first]
    sums = np.zeros(promise.n_parts, dtype=np.uint64)
    np.add.at(sums, part, mix_words(mix_words(numbers.astype(np.uint64)) ^ rows.astype(np.uint64)))
    return np.bincount(part, minlength=promise.n_parts), sums
