"""Records: the one pass over an input part that all steps share, and which of its records take part.

In a night of a series only arrivals are surveyed, planned for, scattered and checked: marks say of every record of a
part whether it takes part. Where a task is handed no marks, all records do. The fingerprint by which a changed input is
noticed is over all records either way, and a record's number is its position in the whole input.

Where units have several rows, these are brought together first, and what was brought together is read instead of the
input: as many parts, each of whole units, whose rows follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.blocks.routes import missing_pattern
from microagg_core.data.formats.reading import InputPart, file_changed, read_part
from microagg_core.errors import DataError
from microagg_core.release.context import Context
from microagg_core.release.step import TableOutput, Work

#: What a series says of each record of an input part, in their order: whether it takes part, and whether it has waited
#: long enough. Other columns are the series' own.
MARKS = TableOutput("marks")
TAKES_PART, WAITED = "takes_part", "waited"
#: The rows of a part of whole units, in batches of whole units; and for each row its place among those of its unit,
#: digests of unit and row, and how many rows its unit has, where these are grouped together.
TOGETHER, MEMBERS = TableOutput("together"), TableOutput("members")
SIZE, PLACE = "size", "place"
#: And the number that the first row of its unit had in the input: in the order of these units are grouped, however the
#: input was cut into parts.
CAME = "came"


@dataclass(frozen=True)
class PartBatch:
    """Some records of an input part: all as they were read, and those that take part."""

    #: The rows as they were read: what a fingerprint is made of.
    whole: pa.Table
    #: The record number of the first of them.
    first_record: int
    #: See ``MARKS``; None where all records take part.
    marks: pa.Table | None = None
    #: See ``MEMBERS``; None where every unit has one row.
    all_members: pa.Table | None = None

    @property
    def all_records(self) -> Ints:
        return np.arange(self.first_record, self.first_record + self.whole.num_rows)

    @cached_property
    def table(self) -> pa.Table:
        """Select the rows that take part."""
        return self.whole if self.marks is None else self.whole.filter(self.marks[TAKES_PART])

    @cached_property
    def records(self) -> Ints:
        """Number the rows that take part."""
        return self.all_records if self.marks is None else self.all_records[np.asarray(self.marks[TAKES_PART])]

    @property
    def waited(self) -> Bools | None:
        """Mark rows that take part and have waited long enough; None where nobody waits for anything."""
        return None if self.marks is None else np.asarray(self.marks.filter(self.marks[TAKES_PART])[WAITED])

    @cached_property
    def sizes(self) -> Ints | None:
        """Count the rows of the unit of each row that takes part; None where rows are grouped one by one."""
        return self._of_members(SIZE)

    @cached_property
    def units(self) -> Ints:
        """Number the unit of each row that takes part, by the record number of its first row."""
        places = self._of_members(PLACE)
        return self.records if places is None else self.records - places

    @cached_property
    def came(self) -> Ints | None:
        """Say which unit of the input each row's is, in ascending order; None where every unit has one row."""
        return self._of_members(CAME)

    @property
    def is_first(self) -> Bools:
        """Mark the first row of each unit."""
        return np.asarray(self.units == self.records)

    def shapes(self, missing: Bools) -> UInt64s:
        """Say what kind of record each is, of which alone it can be in a block: what it lacks, or its unit's rows."""
        return missing_pattern(missing) if self.sizes is None else self.sizes.astype(np.uint64)

    def _of_members(self, name: str) -> Ints | None:
        if self.all_members is None or name not in self.all_members.column_names:
            return None
        values = np.asarray(self.all_members[name]).astype(np.int64)
        return values if self.marks is None else values[np.asarray(self.marks[TAKES_PART])]


def records_of_part(
    work: Work, context: Context, number: int, first_record: int, columns: tuple[str, ...]
) -> Iterator[PartBatch]:
    """Read an input part batch by batch; a marked part has at least one, if need be without a record.

    The part's marks are among the objects of the task that reads, or there are none.
    """
    part, marks = context.parts[number], work.read(MARKS) if work.has(MARKS) else None
    rows = 0
    for table, members in rows_of_part(work, context, number, columns):
        rows += table.num_rows
        of_batch = _marked(part, marks, rows, table.num_rows)
        yield PartBatch(table, first_record + rows - table.num_rows, of_batch, members)
    if marks is not None and rows != marks.num_rows:
        raise input_changed(part)
    if marks is not None and rows == 0:
        yield PartBatch(_no_rows(context, columns), first_record, marks)


def rows_of_part(
    work: Work, context: Context, number: int, columns: tuple[str, ...]
) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    """Read the rows of a part, or what was brought together, and whose they are; see ``MEMBERS``."""
    if context.spec.several is None:
        for table in read_part(context.parts[number], context.spec.input, columns):
            yield table, None
        return
    for (_, table), (_, members) in zip(work.each(TOGETHER), work.each(MEMBERS), strict=True):
        yield table.select(list(columns)), members


def input_changed(part: InputPart) -> DataError:
    return file_changed(part.files)


def file_with(part: InputPart, context: Context, column: str, is_there: Callable[[pa.ChunkedArray], bool]) -> str:
    """Find the first file of a part in which a column holds something, for a message; all of them, should none."""
    if len(part.stretches) > 1:
        for of_file in part.in_files():
            if any(is_there(table[column]) for table in read_part(of_file, context.spec.input, (column,))):
                return of_file.files
    return part.files


def _marked(part: InputPart, marks: pa.Table | None, end: int, rows: int) -> pa.Table | None:
    """Take the marks of the batch of so many rows that ends there."""
    if marks is None:
        return None
    if end > marks.num_rows:
        raise input_changed(part)
    return marks.slice(end - rows, rows)


def _no_rows(context: Context, columns: tuple[str, ...]) -> pa.Table:
    types = {column.name: column.type for column in context.schema.columns}
    return pa.schema([pa.field(name, types[name]) for name in columns]).empty_table()
