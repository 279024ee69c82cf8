"""Distributions: confidential values are as often in the files as they were counted when groups were made by them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa

from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, InputBatch, Promise, ReleasedFile
from microagg_core.inspect.distributions import (
    MOST_VALUES,
    MOST_VALUES_OF_PROTECTED,
    Distribution,
    ValueCounts,
    counts_in,
    counts_table,
)
from microagg_core.inspect.notes import InTable


@dataclass(frozen=True)
class ColumnCounts:
    """The counted values of all confidential columns, but of those that have too many distinct ones."""

    columns: Annotated[tuple[ValueCounts, ...], InTable(counts_table, counts_in)]

    def __add__(self, other: ColumnCounts) -> ColumnCounts:
        return ColumnCounts(tuple(a + b for a, b in zip(self.columns, other.columns, strict=True)))

    def distributions(self) -> tuple[Distribution | None, ...]:
        """The distribution of each column; None where it has too many distinct values."""
        return tuple(counts.distribution() for counts in self.columns)


class Distributions(GateCheck[ColumnCounts]):
    name = "distributions"
    notes = ColumnCounts

    def note(self, file: ReleasedFile) -> ColumnCounts:
        """Count the columns whose distributions are known."""
        given_up = [distribution is None for distribution in file.promise.distributions]
        return _counted(file.promise, file.table, given_up)

    def note_input(self, batch: InputBatch, before: ColumnCounts | None) -> ColumnCounts:
        """Count values as they are released; no more of a column that had too many in earlier batches."""
        given_up = [counts.is_given_up for counts in (before or self.nothing(batch.promise)).columns]
        return _counted(batch.promise, batch.expected, given_up)

    def nothing(self, promise: Promise) -> ColumnCounts:
        return ColumnCounts(tuple(_new_counts(promise)))

    def judge(self, promise: Promise, released: ColumnCounts, expected: ColumnCounts) -> Check:
        """Demand that each value of a counted column is as frequent in the files as it was counted."""
        columns = zip(promise.schema.confidential, promise.distributions, released.distributions(), strict=True)
        wrong = [column.name for column, used, counted in columns if used is not None and not used.same_as(counted)]
        names = ", ".join(map(repr, wrong))
        right = "confidential values are as often in the files as they were counted"
        return Check(
            self.name, not wrong, f"values are not as often as they were counted in {names}" if wrong else right
        )


def _new_counts(promise: Promise) -> Iterable[ValueCounts]:
    for column in promise.schema.confidential:
        is_close = promise.protection.wants_closeness(column.name)
        yield ValueCounts(column.type, MOST_VALUES_OF_PROTECTED if is_close else MOST_VALUES)


def _counted(promise: Promise, table: pa.Table, given_up: list[bool]) -> ColumnCounts:
    counted = tuple(_new_counts(promise))
    for column, counts, is_given_up in zip(promise.schema.confidential, counted, given_up, strict=True):
        if is_given_up:
            counts.give_up()
        else:
            counts.add(table[column.name])
    return ColumnCounts(counted)
