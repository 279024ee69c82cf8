"""Sample values and records in small, mergeable samples, to estimate what confidential columns give away.

A *sketch* of a column keeps the records of the values whose hashes are least, so every sampled value comes with all its
records, whichever parts they lie in. It tells how many distinct values there are, how many records have a value of
their own or share it with few, and how far values fix a quasi-identifier (adjusted R squared).

A *draw* keeps the records whose words are least. A word is a hash of what the record holds, so the same records are
drawn however the input is cut into batches and whoever reads them. Where the word begins with a hash of the record's
blocking key, the draw has whole keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.kernels.tools.sums import sums_by_value

SAMPLE_VALUES = 2048
#: Of all columns together, of which only records are counted: unique ones to a percent.
SAMPLE_TOGETHER = 8192
#: The sampled values have too many or too few records where these are off by more than this: thrice what chance does.
_UNEVEN = 0.07
#: A value tells of a quasi-identifier only where records share it. Where fewer than this share of records do so, they
#: may be copies of each other, and say nothing of the rest; and a few agree by chance.
_LEAST_REPETITION, _LEAST_SHARED = 0.1, 20
WORD = "word"


@dataclass(frozen=True)
class Sketch:
    """The sampled values of one confidential column, or of several together.

    ``table`` is indexed by the value's hash and holds ``n`` and, for each quasi-identifier j, the count ``c{j}``,
    sum ``s{j}`` and sum of squares ``q{j}`` of its (roughly standardized) values. All values whose hash is at most
    ``limit`` are in it; None: nothing was left out. ``rows`` is how many records have a value.
    """

    table: pd.DataFrame
    limit: int | None
    rows: int

    def distinct(self) -> int:
        """Number of distinct values: exact while all fit the sample, else estimated within a few percent."""
        if self.limit is None:
            return len(self.table)
        greatest = float(self.table.index.max()) / 2.0**64
        return min(self.rows, round((len(self.table) - 1) / greatest))

    def share_shared_by(self, least: int, most: int) -> float:
        """Estimate the share of records whose value so many have: 1 to 1 for those that have one of their own.

        Exact while all values fit the sample. Else that of the sampled values' records, if these are as many as they
        should be. A value of half of the file may or may not be in the sample, and must not decide: then it is the
        records of a sampled value, times the values that there are.
        """
        n = self.table["n"].to_numpy()
        records, all_records = float(n[(n >= least) & (n <= most)].sum()), float(n.sum())
        if not self.rows or not len(n):
            return 0.0
        expected = self.rows * len(n) / self.distinct()
        is_even = abs(all_records - expected) <= _UNEVEN * expected
        return min(1.0, records / (all_records if is_even else expected))

    def agreement(self) -> float:
        """Estimate the probability that two records, drawn with replacement, have the same value."""
        n = self.table["n"].to_numpy()
        if not self.rows or not len(n):
            return 0.0
        return float(np.square(n).sum()) / len(n) * self.distinct() / self.rows**2

    def explains(self, j: int) -> float:
        """Estimate how much of quasi-identifier j the value explains, beyond chance (adjusted R squared).

        Of the records that share their value: what is rare is often large too, and tells nothing of the others.
        """
        t = self.table[self.table[f"c{j}"] > 1]
        n, groups = float(t[f"c{j}"].sum()), len(t)
        if groups < 2 or n < max(_LEAST_SHARED, _LEAST_REPETITION * float(self.table[f"c{j}"].sum())):
            return 0.0
        within = float((t[f"q{j}"] - t[f"s{j}"] ** 2 / t[f"c{j}"]).sum())
        total = float(t[f"q{j}"].sum() - t[f"s{j}"].sum() ** 2 / n)
        if total <= 1e-9 * n:
            return 0.0
        return max(0.0, 1 - (max(within, 0.0) / (n - groups)) / (total / (n - 1)))


def sketch_of(
    hashes: UInt64s,
    valid: Bools,
    Z: Floats,
    missing: Bools,
    limit: int | None = None,
    size: int = SAMPLE_VALUES,
) -> Sketch:
    """Sketch one batch of hashes, of which only the valid ones are values, and the quasi-identifiers beside them.

    Greater hashes than the limit are in no sample any more, as earlier batches have enough that are less. ``Z`` is
    quickest in Fortran order.
    """
    n_values = int(np.count_nonzero(valid))
    if limit is not None:
        wanted = np.flatnonzero(valid & (hashes <= np.uint64(limit)))
        hashes, valid, Z, missing = hashes[wanted], valid[wanted], Z[wanted], missing[wanted]
    codes, distinct = pd.factorize(hashes)
    if n_values < len(valid):  # what is no value is counted behind all values
        codes = np.where(valid, codes, len(distinct))
    if len(distinct) > size:
        kept = np.argpartition(distinct, size)[:size]
        limit = int(distinct[kept].max())
        place = np.full(len(distinct) + 1, -1)
        place[kept] = np.arange(size)
        rows = np.flatnonzero(place[codes] >= 0)
        codes, distinct, Z, missing = place[codes[rows]], distinct[kept], Z[rows], missing[rows]
    columns = _sums(codes, len(distinct), Z, missing)
    table = pd.DataFrame(columns, index=pd.Index(distinct, name="h", dtype=np.uint64))
    return Sketch(table if n_values == len(valid) else table[table["n"] > 0], limit, n_values)


def _sums(codes: NDArray[np.int64], n_values: int, Z: Floats, missing: Bools) -> dict[str, Floats]:
    sums = sums_by_value(codes, n_values, np.ascontiguousarray(Z.T), np.ascontiguousarray(missing.T))
    names = ["n", *(f"{letter}{j}" for j in range(Z.shape[1]) for letter in "csq")]
    return dict(zip(names, sums.T, strict=True))


def merge_sketches(sketches: list[Sketch], size: int = SAMPLE_VALUES) -> Sketch:
    """Merge sketches of batches: the least hashes that every batch has kept whole."""
    table = pd.concat([s.table for s in sketches]).groupby(level="h").sum()
    limits = [s.limit for s in sketches if s.limit is not None]
    if limits:  # above the least of these, some batch may have left records of a value out
        table = table[table.index <= np.uint64(min(limits))]
    limit = min(limits, default=None)
    if len(table) > size:
        table = table.iloc[:size]
        limit = int(table.index.max())
    return Sketch(table, limit, sum(s.rows for s in sketches))


@dataclass(frozen=True)
class Draw:
    """Some records: ``table`` has their ``word`` beside what is looked at.

    All records whose word is less than ``limit`` are in it; None: all records are.
    """

    table: pd.DataFrame
    limit: int | None


def drawn_rows(words: UInt64s, size: int, limit: int | None) -> tuple[Ints, int | None]:
    """Choose rows of a batch that may be drawn, and the limit that they come with; ``limit`` is that of earlier ones.

    >>> rows, limit = drawn_rows(np.array([5, 1, 9, 3], dtype=np.uint64), 2, None)
    >>> sorted(rows.tolist()), limit
    ([1, 3], 3)
    """
    rows = np.arange(len(words)) if limit is None else np.flatnonzero(words <= np.uint64(limit))
    if len(rows) > size:
        rows = rows[np.argpartition(words[rows], size - 1)[:size]]
        limit = int(words[rows].max())
    return rows, limit


def merge_draws(draws: list[Draw], size: int) -> Draw:
    """Merge draws of batches: at most ``size`` records, of least words."""
    table = pd.concat([draw.table for draw in draws], ignore_index=True)
    limit = min((draw.limit for draw in draws if draw.limit is not None), default=None)
    if limit is not None:
        table = table[table[WORD] <= np.uint64(limit)]
    table = table.sort_values(WORD, kind="stable", ignore_index=True)
    if len(table) > size:
        table = table.iloc[:size]
        limit = int(table[WORD].iloc[-1])
    return Draw(table, limit)
