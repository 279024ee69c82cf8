"""Reading: the one pass over an input part that all steps share, and which of its records take part.

In a night of a series only arrivals are surveyed, planned for, scattered and checked: a piece of marks says of every
record of a part what it is. Where a task is handed no marks, all records take part. What tells whether the input
changed is over all records either way, and a record's number is its position in the whole input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Ints
from microagg_core.data.formats.reading import InputPart, file_changed, read_part
from microagg_core.data.tables.slices import read_slice
from microagg_core.errors import DataError
from microagg_core.release.steps.work import Context, Task
from microagg_core.series.marks import CODE, WAITED, take_part
from microagg_core.store.night_layout import NightLayout


@dataclass(frozen=True)
class BatchMarks:
    """What is known of each record of a batch: its code, and, for who is told that, the atom of a survivor."""

    codes: NDArray[Any]
    atoms: NDArray[Any] | None

    @cached_property
    def taking_part(self) -> Bools:
        """Which records are grouped tonight."""
        return take_part(self.codes)


@dataclass(frozen=True)
class PartBatch:
    """Some records of an input part: all as they were read, and those that take part."""

    #: The rows as they were read: what a fingerprint is made of.
    whole: pa.Table
    #: The record number of the first of them.
    first_record: int
    #: None where all records take part.
    marks: BatchMarks | None = None

    @property
    def all_records(self) -> Ints:
        """The record numbers of the whole batch."""
        return np.arange(self.first_record, self.first_record + self.whole.num_rows)

    @cached_property
    def table(self) -> pa.Table:
        """The rows that take part."""
        return self.whole if self.marks is None else self.whole.filter(pa.array(self.marks.taking_part))

    @cached_property
    def records(self) -> Ints:
        """The record numbers of the rows that take part."""
        return self.all_records if self.marks is None else self.all_records[self.marks.taking_part]

    @property
    def waited(self) -> Bools | None:
        """Which of the rows that take part have waited long enough; None where nobody waits for anything."""
        return None if self.marks is None else self.marks.codes[self.marks.taking_part] == WAITED


def records_of_part(
    task: Task, context: Context, number: int, first_record: int, columns: tuple[str, ...]
) -> Iterator[PartBatch]:
    """The batches of an input part, in order; a marked part has at least one, if need be without a record.

    Args:
        task: who reads; the part's marks are among the pieces that it reads, or there are none.
        context: of the run.
        number: of the part.
        first_record: the record number of the part's first row.
        columns: to read.

    Raises:
        DataError: the part has not as many records as its marks.
    """
    part, marks = context.parts[number], _marks_of(task, number)
    rows = 0
    for table in read_part(part, context.spec.input, columns):
        rows += table.num_rows
        yield PartBatch(table, first_record + rows - table.num_rows, _marked(part, marks, rows, table.num_rows))
    if marks is not None and rows != len(marks.codes):
        raise input_changed(part)
    if marks is not None and rows == 0:
        yield PartBatch(_no_rows(context, columns), first_record, marks)


def input_changed(part: InputPart) -> DataError:
    """What stops a release whose input is no longer what it was."""
    return file_changed(part.files)


def file_with(part: InputPart, context: Context, column: str, is_there: Callable[[pa.ChunkedArray], bool]) -> str:
    """The first file of a part in which a column holds something, for a message; all of them, should none."""
    if len(part.stretches) > 1:
        for of_file in part.in_files():
            if any(is_there(table[column]) for table in read_part(of_file, context.spec.input, (column,))):
                return of_file.files
    return part.files


def _marks_of(task: Task, number: int) -> BatchMarks | None:
    pieces, name = task.pieces, task.layout.marks(number)
    if not pieces.has(name):
        return None
    codes, atoms = read_slice(pieces.read(name))[CODE], NightLayout(task.run.key).atoms_of_part(number)
    return BatchMarks(
        np.asarray(codes), np.asarray(read_slice(pieces.read(atoms)).column(0)) if pieces.has(atoms) else None
    )


def _marked(part: InputPart, marks: BatchMarks | None, end: int, rows: int) -> BatchMarks | None:
    """The marks of the batch of so many rows that ends there."""
    if marks is None:
        return None
    if end > len(marks.codes):
        raise input_changed(part)
    mine = slice(end - rows, end)
    return BatchMarks(marks.codes[mine], None if marks.atoms is None else marks.atoms[mine])


def _no_rows(context: Context, columns: tuple[str, ...]) -> pa.Table:
    types = {column.name: column.type for column in context.schema.columns}
    return pa.schema([pa.field(name, types[name]) for name in columns]).empty_table()
