"""Distributions: confidential values are as often in the files as they were counted when groups were made by them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import pyarrow as pa

from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, InputBatch, Promise, ReleasedFile
from microagg_core.inspect.distributions import (
    MOST_VALUES,
    MOST_VALUES_OF_PROTECTED,
    ValueCounts,
    counts_in,
    counts_table,
)
from microagg_core.inspect.notes import InTable

Counts: TypeAlias = tuple[ValueCounts, ...]


class Distributions(GateCheck[Counts]):
    """Count the values of all confidential columns, but of those that have too many distinct ones."""

    name = "distributions"
    notes = Annotated[Counts, InTable(counts_table, counts_in)]

    def note(self, file: ReleasedFile) -> Counts:
        """Count the columns whose distributions are known."""
        columns = zip(file.promise.schema.confidential, file.promise.distributions, strict=False)
        return _counted(file.promise, file.table, {column.name for column, known in columns if known is None})

    def note_input(self, batch: InputBatch, before: Counts | None) -> Counts:
        """Count values as they are released; no more of a column that had too many in earlier batches."""
        columns = zip(batch.promise.schema.confidential, before or (), strict=False)
        given_up = {column.name for column, counts in columns if counts.is_given_up}
        return _counted(batch.promise, batch.expected, given_up)

    def judge(self, promise: Promise, released: Counts, expected: Counts) -> Check:
        """Demand that each value of a counted column is as frequent in the files as it was counted."""
        columns = zip(promise.schema.confidential, promise.distributions, released, strict=True)
        wrong = [column.name for column, used, counted in columns if used and not used.same_as(counted.distribution())]
        names = ", ".join(map(repr, wrong))
        right = "confidential values are as often in the files as they were counted"
        return Check(
            self.name, not wrong, f"values are not as often as they were counted in {names}" if wrong else right
        )


def _counted(promise: Promise, table: pa.Table, given_up: set[str]) -> Counts:
    counted = []
    for column in promise.schema.confidential:
        is_close = promise.protection.wants_closeness(column.name)
        counts = ValueCounts(column.type, MOST_VALUES_OF_PROTECTED if is_close else MOST_VALUES)
        if column.name in given_up:
            counts.give_up()
        else:
            counts.add(table[column.name])
        counted.append(counts)
    return tuple(counted)
