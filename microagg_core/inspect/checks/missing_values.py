"""Missing values: as many in each column as came in, and no quasi-identifier that is no finite number."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, InputBatch, Promise, ReleasedFile


@dataclass(frozen=True)
class Nulls:
    """Missing values by column, and quasi-identifiers that are there and not finite."""

    nulls: dict[str, int]
    not_finite: int = 0

    def __add__(self, other: Nulls) -> Nulls:
        nulls = {name: n + other.nulls[name] for name, n in self.nulls.items()}
        return Nulls(nulls, self.not_finite + other.not_finite)


def _nulls(table: pa.Table) -> dict[str, int]:
    return {name: table[name].null_count for name in table.column_names}


class MissingValues(GateCheck[Nulls]):
    name = "missing values"
    notes = Nulls

    def note(self, file: ReleasedFile) -> Nulls:
        unusable = (kind.reader.count_unusable(file.table[kind.name]) for kind in file.promise.kinds)
        return Nulls(_nulls(file.table), sum(unusable))

    def note_input(self, batch: InputBatch, before: Nulls | None) -> Nulls:
        return Nulls(_nulls(batch.expected))

    def nothing(self, promise: Promise) -> Nulls:
        return Nulls({column.name: 0 for column in promise.schema.released})

    def judge(self, promise: Promise, released: Nulls, expected: Nulls) -> Check:
        """Demand the same number on both sides, in every column."""
        wrong = [
            f"column {name!r} has {after} missing values instead of {expected.nulls[name]}"
            for name, after in released.nulls.items()
            if after != expected.nulls[name]
        ]
        if released.not_finite:
            wrong.append(f"{released.not_finite} released quasi-identifiers are not finite")
        return Check(self.name, not wrong, "; ".join(wrong) or "no value turned missing or non-finite")
