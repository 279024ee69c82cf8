"""Missing values: as many in each column as came in, and no quasi-identifier that is no finite number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from microagg_core.inspect.check import Check
from microagg_core.inspect.checks.contract import InputBatch, Inspection, Promise, ReleasedFile


@dataclass(frozen=True)
class Nulls:
    """Missing values by column, and quasi-identifiers that are there and not finite."""

    nulls: dict[str, int]
    not_finite: int = 0


def _nulls(table: pa.Table) -> dict[str, int]:
    return {name: table[name].null_count for name in table.column_names}


class MissingValues(Inspection[Nulls]):
    """Compares counts of missing values."""

    name = "missing values"
    note = Nulls

    def of_file(self, file: ReleasedFile) -> Nulls:
        """Those of the file."""
        unusable = (kind.reader.count_unusable(file.table[kind.name]) for kind in file.promise.kinds)
        return Nulls(_nulls(file.table), sum(unusable))

    def of_batch(self, batch: InputBatch, before: Nulls | None) -> Nulls:
        """Those of what should be released."""
        nulls = _nulls(batch.expected)
        return Nulls({name: n + nulls[name] for name, n in before.nulls.items()} if before else nulls)

    def check(self, promise: Promise, files: Sequence[Nulls], parts: Sequence[Nulls]) -> Check:
        """The same number on both sides, in every column."""
        wrong = []
        for column in promise.schema.released:
            before, after = (sum(note.nulls[column.name] for note in side) for side in (parts, files))
            if before != after:
                wrong.append(f"column {column.name!r} has {after} missing values instead of {before}")
        not_finite = sum(file.not_finite for file in files)
        if not_finite:
            wrong.append(f"{not_finite} released quasi-identifiers are not finite")
        return Check(self.name, not wrong, "; ".join(wrong) or "no value turned missing or non-finite")
