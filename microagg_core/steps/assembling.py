"""Assemble: released rows gathered into the files that would be published, in an order of their content alone.

Beside every file lies a private list of record numbers in the same order, which the gate needs to compare what comes
out with what went in, and the same numbers by input part, ascending, by which it finds the file of a record. The file
itself is what is published, byte for byte, if the gate lets it pass.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.errors import InternalError
from microagg_core.formats.released.order import content_order
from microagg_core.formats.released.registry import released_format
from microagg_core.steps.pieces import Piece
from microagg_core.steps.routing import Planned, load_planned
from microagg_core.steps.shuffling import gather_slices
from microagg_core.steps.work import Receipt, Task
from microagg_core.tables.slices import RECORD, to_bytes, write_slices


def assemble_file(task: Task) -> Receipt:
    """Write one file of arrivals, with its private record numbers."""
    planned, layout = load_planned(task), task.layout
    gathered = gather_slices(task.run, task.slices, "anonymize", lambda partition, _: layout.anonymized(partition))
    pieces, numbers = write_candidate(task, planned, task.number, gathered)
    ascending = np.sort(numbers)
    places, slices = write_slices(pa.table({RECORD: ascending}), planned.survey.parts_of(ascending), task.number)
    return Receipt(
        task.step, task.number, len(numbers), (*pieces, task.put(layout.places(task.number), places)), slices
    )


def write_candidate(
    task: Task, plan: Planned, number: int, gathered: pa.Table | None
) -> tuple[tuple[Piece, Piece], Ints]:
    """Write one file that would be published and its record numbers; returns both, and the numbers in its order.

    Args:
        task: who writes.
        plan: what is released.
        number: of the file.
        gathered: record numbers and released columns, in any order; None: nobody.
    """
    form, schema = released_format(plan.context.spec.output), plan.context.schema
    if gathered is None:  # combinations are spread by their hash: a file may receive none
        gathered = _no_rows(schema.released_schema)
    table = pa.Table.from_arrays(gathered.columns[1:], names=schema.released_schema.names)
    if [f.type for f in table.schema] != [f.type for f in schema.released_schema]:
        raise InternalError("a bug: anonymized columns do not have the released types; please report it")
    table = form.released_form(table.cast(schema.released_schema))
    blocking = [c.name for c in schema.blocking]
    order = content_order(table, blocking, [c.name for c in schema.quasi_identifiers])
    table = table.take(pa.array(order)).combine_chunks()
    numbers: Ints = np.asarray(gathered[RECORD])[order]
    narrow = numbers.astype(np.min_scalar_type(max(plan.survey.rows, int(numbers.max(initial=0)))))
    pieces = (
        task.put(task.layout.candidate(number, form.name), form.to_bytes(table, blocking)),
        task.put(task.layout.numbers(number), to_bytes(pa.table({RECORD: narrow}))),
    )
    return pieces, numbers


def _no_rows(schema: pa.Schema) -> pa.Table:
    columns = [pa.array([], pa.int64()), *(pa.array([], f.type) for f in schema)]
    return pa.Table.from_arrays(columns, names=[RECORD, *(f"x{j}" for j in range(len(schema)))])
