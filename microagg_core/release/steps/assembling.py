"""Assemble: released rows gathered into the files that would be published, in an order of their content alone.

Beside every file lie, in the same order, the private record numbers and the quasi-identifiers that came in, which the
gate needs to compare what comes out with what went in. The file itself is what is published, byte for byte, if the gate
lets it pass.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.ordering import content_order
from microagg_core.data.tables.slices import RECORD, to_bytes
from microagg_core.errors import InternalError
from microagg_core.release.steps.pieces import Piece
from microagg_core.release.steps.routing import Planned, load_planned
from microagg_core.release.steps.shuffling import gather_slices
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.spec.columns import FileSchema


def assemble_file(task: Task) -> Receipt:
    """Write one file of arrivals, and what lies beside it."""
    planned, layout = load_planned(task), task.layout
    gathered = gather_slices(task.run, task.slices, "anonymize", lambda partition, _: layout.anonymized(partition))
    if gathered is None:  # combinations are spread by their hash: a file may receive none
        gathered = no_rows(planned.context.schema, with_origins=True)
    pieces = write_candidate(task, planned, task.number, gathered)
    return Receipt(task.step, task.number, gathered.num_rows, pieces)


def write_candidate(task: Task, plan: Planned, number: int, gathered: pa.Table) -> tuple[Piece, Piece]:
    """Write one file that would be published, and what lies beside it.

    Args:
        task: who writes.
        plan: what is released.
        number: of the file.
        gathered: record numbers, released columns x0, x1, ..., and, of arrivals, q0, q1, ...; in any order.
    """
    form, schema = released_format(plan.context.spec.output), plan.context.schema
    n_released = len(schema.released)
    table = pa.Table.from_arrays(gathered.columns[1 : 1 + n_released], names=schema.released_schema.names)
    if [f.type for f in table.schema] != [f.type for f in schema.released_schema]:
        raise InternalError("a bug: anonymized columns do not have the released types; please report it")
    table = form.released_form(table.cast(schema.released_schema))
    blocking = [c.name for c in schema.blocking]
    order = content_order(table, blocking, {kind.name: kind.reader.sort_key for kind in plan.encoding.kinds})
    table = table.take(pa.array(order)).combine_chunks()
    candidate = task.put(task.layout.candidate(number, form.name), form.to_bytes(table, blocking))
    beside = gathered.select([RECORD, *gathered.column_names[1 + n_released :]]).take(pa.array(order)).combine_chunks()
    numbers = np.asarray(beside[RECORD])
    narrow = numbers.astype(np.min_scalar_type(max(plan.survey.rows, int(numbers.max(initial=0)))))
    beside = beside.set_column(0, RECORD, pa.array(narrow))
    return candidate, task.put(task.layout.origins(number), to_bytes(beside))


def no_rows(schema: FileSchema, *, with_origins: bool) -> pa.Table:
    """What is gathered of nobody."""
    columns = {f"x{j}": field.type for j, field in enumerate(schema.released_schema)}
    columns |= {f"q{j}": column.type for j, column in enumerate(schema.quasi_identifiers) if with_origins}
    return pa.schema([pa.field(name, kind) for name, kind in {RECORD: pa.int64(), **columns}.items()]).empty_table()
