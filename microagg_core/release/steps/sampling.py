"""Sampling: records of every input part that the survey draws by chance, on which strata that are too large are cut.

Of each part those records are kept whose draws are least, as many of each part. Below the least of the parts' limits
they are a sample of the whole input at one rate. It saves two passes over the input wherever blocks are large.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.release.records import PartBatch
from microagg_core.release.step import TableOutput, Work

#: The records that are drawn of an input part.
SAMPLE = TableOutput("sample")

#: Records drawn from the whole input, and from each part of it, which a worker holds twice.
_ALL_ROWS, _LEAST_ROWS, _MOST_ROWS = 2_000_000, 30_000, 200_000
_LIMIT = b"limit"
#: The last two columns of a sample; before them are columns of the input, which may have any names.
_OF_DRAW = ("draw", "position")


def uniform(numbers: Ints, seed: int) -> Floats:
    """Draw a number in [0, 1) for each record, fixed by the record's own number and the seed."""
    salted = numbers.astype(np.uint64) ^ np.uint64((seed * 0x9E3779B97F4A7C15 + 1) % 2**63)
    return (mix_words(salted) >> np.uint64(11)).astype(np.float64) / 2.0**53


@dataclass
class PartSample:
    """The records of one part whose draws are least, batch by batch."""

    part: int
    n_parts: int
    seed: int
    columns: tuple[str, ...]
    #: All records of the part below it are kept.
    limit: float = 1.0
    _tables: list[pa.Table] = field(default_factory=list)
    _rows: int = 0

    @property
    def _most(self) -> int:
        return int(np.clip(_ALL_ROWS // self.n_parts, _LEAST_ROWS, _MOST_ROWS))

    def add(self, batch: PartBatch) -> None:
        """Draw from the records of a batch that take part; they are numbered from the part's first."""
        draws = uniform(batch.records + (self.part << 40), self.seed)
        mine = np.flatnonzero(draws < self.limit)
        some = batch.table.select(list(self.columns)).take(pa.array(mine))
        for name, numbers in zip(_OF_DRAW, (draws, batch.records), strict=True):
            some = some.append_column(name, pa.array(numbers[mine]))
        self._tables.append(some)
        self._rows += some.num_rows
        if self._rows > 2 * self._most:
            self._trim()

    def _trim(self) -> None:
        table = pa.concat_tables(self._tables)
        if table.num_rows > self._most:
            draws = np.asarray(table.column(len(self.columns)))
            self.limit = float(np.partition(draws, self._most)[self._most])
            table = table.filter(pa.array(draws < self.limit)).combine_chunks()
        self._tables, self._rows = [table], table.num_rows

    def write(self, work: Work) -> None:
        """Write it, unless the part has no record."""
        if self._tables:
            self._trim()
            work.write(SAMPLE, self._tables[0].replace_schema_metadata({_LIMIT: self.limit.hex()}))


@dataclass(frozen=True)
class Drawn:
    """Records of a part's sample, their draws, and the draw below which all of the part's records are in it."""

    table: pa.Table
    draws: Floats
    positions: Ints
    limit: float

    @classmethod
    def of(cls, table: pa.Table) -> Drawn:
        """Take apart what :meth:`PartSample.write` wrote."""
        n = table.num_columns - len(_OF_DRAW)
        draws, positions = (np.asarray(table.column(n + i)) for i in range(2))
        limit = float.fromhex(table.schema.metadata[_LIMIT].decode())
        return cls(table.select(list(range(n))), draws, positions, limit)
