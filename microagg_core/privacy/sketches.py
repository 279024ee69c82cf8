"""What a confidential column might give away, estimated from a small, mergeable sample of its values.

The sample is chosen by hash: it keeps the records of the values whose hashes are least, so every sampled value comes
with all its records, whichever parts they lie in. It tells how many distinct values there are, and how far they fix
a quasi-identifier (adjusted R squared of the quasi-identifier on the value).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, UInt64s

SAMPLE_VALUES = 2048
#: A share of distinct values above this makes a column nearly unique.
NEARLY_UNIQUE = 0.9
#: A value explains this much of a quasi-identifier's variance when it fixes it.
FIXES = 0.99


@dataclass(frozen=True)
class Sketch:
    """The sampled values of one confidential column.

    ``table`` is indexed by the value's hash and holds ``n`` and, for each quasi-identifier j, the count ``c{j}``,
    sum ``s{j}`` and sum of squares ``q{j}`` of its (roughly standardized) values. ``complete``: nothing was left out.
    """

    table: pd.DataFrame
    complete: bool
    rows: int

    def distinct(self) -> int:
        """Number of distinct values: exact while all fit the sample, else estimated within a few percent."""
        if self.complete:
            return len(self.table)
        greatest = float(self.table.index.max()) / 2.0**64
        return min(self.rows, round((len(self.table) - 1) / greatest))

    def nearly_unique(self) -> bool:
        """Whether a value almost names its record."""
        return self.rows > 1 and self.distinct() > NEARLY_UNIQUE * self.rows

    def fixes(self, j: int) -> bool:
        """Whether the value determines quasi-identifier j, beyond what chance gives."""
        t = self.table[self.table[f"c{j}"] > 0]
        n, groups = float(t[f"c{j}"].sum()), len(t)
        if groups < 2 or n <= groups:
            return False
        within = float((t[f"q{j}"] - t[f"s{j}"] ** 2 / t[f"c{j}"]).sum())
        total = float(t[f"q{j}"].sum() - t[f"s{j}"].sum() ** 2 / n)
        if total <= 1e-9 * n:
            return False
        return 1 - (max(within, 0.0) / (n - groups)) / (total / (n - 1)) >= FIXES


def sketch_of(hashes: UInt64s, valid: Bools, Z: Floats, missing: Bools) -> Sketch:
    """The sketch of one batch: hashes of the column's values, and the quasi-identifiers beside them."""
    n_values = int(valid.sum())
    if n_values < len(valid):
        hashes, Z, missing = hashes[valid], Z[valid], missing[valid]
    codes, distinct = pd.factorize(hashes)
    complete = len(distinct) <= SAMPLE_VALUES
    if not complete:
        kept = np.argpartition(distinct, SAMPLE_VALUES)[:SAMPLE_VALUES]
        place = np.full(len(distinct), -1)
        place[kept] = np.arange(SAMPLE_VALUES)
        rows = np.flatnonzero(place[codes] >= 0)
        codes, distinct, Z, missing = place[codes[rows]], distinct[kept], Z[rows], missing[rows]
    n = np.bincount(codes, minlength=len(distinct)).astype(np.float64)
    columns: dict[str, NDArray[Any]] = {"n": n}
    for j in range(Z.shape[1]):
        there, values = ~missing[:, j], np.ascontiguousarray(Z[:, j])
        if there.all():
            columns[f"c{j}"] = n
        else:
            values = np.where(there, values, 0.0)
            columns[f"c{j}"] = np.bincount(codes, there.astype(np.float64), minlength=len(distinct))
        columns[f"s{j}"] = np.bincount(codes, values, minlength=len(distinct))
        columns[f"q{j}"] = np.bincount(codes, values * values, minlength=len(distinct))
    table = pd.DataFrame(columns, index=pd.Index(distinct, name="h", dtype=np.uint64)).sort_index()
    return Sketch(table, complete, n_values)


def merge_sketches(sketches: list[Sketch]) -> Sketch:
    """The sketch of all batches together: the least hashes that every batch has kept whole."""
    table = pd.concat([s.table for s in sketches]).groupby(level="h").sum()
    complete = all(s.complete for s in sketches) and len(table) <= SAMPLE_VALUES
    limits = [s.table.index.max() for s in sketches if not s.complete]
    if limits:  # above the least of these, some batch may have left records of a value out
        table = table[table.index <= min(limits)]
    return Sketch(table.iloc[:SAMPLE_VALUES], complete, sum(s.rows for s in sketches))
