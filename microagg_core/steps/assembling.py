"""Assemble: released rows gathered into the files that would be published, in an order of their content alone.

Beside every file lies a private list of record numbers in the same order, which the gate needs to compare what comes
out with what went in, and the same numbers by input part, ascending, by which it finds the file of a record. The file
itself is what is published, byte for byte, if the gate lets it pass.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.errors import InternalError
from microagg_core.formats.released.order import content_order
from microagg_core.formats.released.registry import released_format
from microagg_core.series.night import GHOSTS_FROM
from microagg_core.steps.routing import load_planned
from microagg_core.steps.scattering import gather_slices
from microagg_core.steps.work import Receipt, Task
from microagg_core.storage.night_layout import NightLayout
from microagg_core.tables.slices import RECORD, to_bytes, write_slices


def assemble_file(task: Task) -> Receipt:
    """Write one file of the release, with its private record numbers."""
    planned = load_planned(task)
    form, schema = released_format(planned.context.spec.output), planned.context.schema
    layout = task.layout
    gathered = _gathered(task, is_carried=task.number >= planned.plan.n_files)
    if gathered is None:  # combinations are spread by their hash: a file may receive none
        gathered = _no_rows(schema.released_schema)
    table = pa.Table.from_arrays(gathered.columns[1:], names=schema.released_schema.names)
    if [f.type for f in table.schema] != [f.type for f in schema.released_schema]:
        raise InternalError("a bug: anonymized columns do not have the released types; please report it")
    table = form.released_form(table.cast(schema.released_schema))
    blocking = [c.name for c in schema.blocking]
    order = content_order(table, blocking, [c.name for c in schema.quasi_identifiers])
    table = table.take(pa.array(order)).combine_chunks()
    numbers = np.asarray(gathered[RECORD])[order]
    # Ghosts come from no part of the input.
    ascending = np.sort(numbers[numbers < GHOSTS_FROM])
    places, slices = write_slices(pa.table({RECORD: ascending}), planned.survey.parts_of(ascending), task.number)
    narrow = numbers.astype(np.min_scalar_type(max(planned.survey.rows, int(numbers.max(initial=0)))))
    pieces = (
        task.put(layout.candidate(task.number, form.name), form.to_bytes(table, blocking)),
        task.put(layout.numbers(task.number), to_bytes(pa.table({RECORD: narrow}))),
        task.put(layout.places(task.number), places),
    )
    return Receipt(task.step, task.number, table.num_rows, pieces, tuple(slices))


def _gathered(task: Task, is_carried: bool) -> pa.Table | None:
    """The rows of the file, from the partitions of arrivals or from one range of atoms."""
    layout, night = task.layout, NightLayout(task.run.key)
    if is_carried:
        return gather_slices(task.run, task.slices, "carry", lambda atom_range, _: night.carried(atom_range))
    return gather_slices(task.run, task.slices, "anonymize", lambda partition, _: layout.anonymized(partition))


def _no_rows(schema: pa.Schema) -> pa.Table:
    columns = [pa.array([], pa.int64()), *(pa.array([], f.type) for f in schema)]
    return pa.Table.from_arrays(columns, names=[RECORD, *(f"x{j}" for j in range(len(schema)))])
