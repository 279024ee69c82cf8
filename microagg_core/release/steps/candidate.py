"""Candidates: the files that would be published, and what lies beside each of them in the work area.

Row by row that is the record's private number, and, where the record arrived in this run, its quasi-identifiers as they
came in: what the gate compares a released row with. The file itself is what is published, byte for byte, if the gate
lets it pass.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.ordering import content_order
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import InternalError
from microagg_core.release.planned import Planned
from microagg_core.release.step import BytesOutput, TableOutput, Work
from microagg_core.spec.columns import FileSchema

#: A file that would be published; and the private record numbers and quasi-identifiers that came in, row by row.
CANDIDATE, ORIGINS = BytesOutput("candidate"), TableOutput("origins")


def write_candidate(work: Work, plan: Planned, gathered: pa.Table) -> None:
    """Write one file that would be published, and what lies beside it.

    Gathered are record numbers, released columns x0, x1, ..., and, of arrivals, q0, q1, ...; in any order of rows.
    """
    form, schema = released_format(plan.context.spec.output), plan.context.schema
    n_released = len(schema.released)
    table = pa.Table.from_arrays(gathered.columns[1 : 1 + n_released], names=schema.released_schema.names)
    if [f.type for f in table.schema] != [f.type for f in schema.released_schema]:
        raise InternalError("a bug: anonymized columns do not have the released types; please report it")
    table = form.released_form(table.cast(schema.released_schema))
    blocking = [c.name for c in schema.blocking]
    order = content_order(table, blocking, [kind.name for kind in plan.encoding.kinds])
    table = table.take(pa.array(order)).combine_chunks()
    work.put(CANDIDATE, form.to_bytes(table, blocking))
    beside = gathered.select([RECORD, *gathered.column_names[1 + n_released :]]).take(pa.array(order)).combine_chunks()
    numbers = np.asarray(beside[RECORD])
    narrow = numbers.astype(np.min_scalar_type(max(plan.survey.rows, int(numbers.max(initial=0)))))
    beside = beside.set_column(0, RECORD, pa.array(narrow))
    work.write(ORIGINS, beside)


def no_rows(schema: FileSchema, *, with_origins: bool) -> pa.Table:
    columns = {f"x{j}": field.type for j, field in enumerate(schema.released_schema)}
    columns |= {f"q{j}": column.type for j, column in enumerate(schema.quasi_identifiers) if with_origins}
    return pa.schema([pa.field(name, kind) for name, kind in {RECORD: pa.int64(), **columns}.items()]).empty_table()
