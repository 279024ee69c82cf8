"""Scatter: rows travel from the input's parts to the plan's partitions, through storage.

Every part is read once and written as objects that hold its rows cut by partition; whoever works on a partition
gathers its slices of those objects, by block and record. Against a shuffle between the workers' memories this costs
one write and read, and gains what a release needs: a killed worker loses one task and nothing of what others finished,
memory stays at a few batches however large the file, and each step can be counted, checksummed and repeated.

Scattered rows carry their record number, block, quasi-identifiers and confidential values; identifiers, dropped
columns and blocking values stay behind (a block's label is known from the plan). Where units have several rows that are
released one by one, the number of its unit travels with each. What the gate notes of the input it notes here, of the
rows as they were read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.blocks.memory import RUN_BYTES, STEADY_BYTES, grown_size
from microagg_core.blocks.routes import Routes
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.ordering import ascending_order
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import DataError
from microagg_core.group.metrics.moments import Moments
from microagg_core.inspect.contract import UNIT
from microagg_core.inspect.gate import note_batch
from microagg_core.inspect.notes import Notes
from microagg_core.release.planned import PLANNED, ROUTES, Planned, Routed, load_planned, load_routes, route_batch
from microagg_core.release.records import CAME, MARKS, MEMBERS, TOGETHER, input_changed, records_of_part
from microagg_core.release.step import JsonOutput, Receipt, Rows, Scatter, Step, Work
from microagg_core.release.steps.checking import EXPECTED, expected_of, promise_of
from microagg_core.release.steps.keys import PART_KEYS
from microagg_core.release.steps.survey import Fingerprint

Ints = NDArray[np.int64]

#: The copies of rows that are packed together that a worker holds.
_COPIES = 4
#: The rows of an input part, sent to partitions.
SCATTERED = Rows("scattered")
#: Moments of all records that are released, on whose scale losses are measured.
MEASURE_SCALE = JsonOutput("measure-scale", tuple[Moments, ...])


def scatter_part(work: Work) -> int:
    """Cut one input part by partition; stops if the part is not what was surveyed."""
    planned = load_planned(work)
    context, number, routes = planned.context, work.number, load_routes(work, planned)
    fingerprint, companions = Fingerprint(), work.companions(planned)
    scatter = Scatter(work, SCATTERED, planned.survey.staged_bytes)
    promise, expected = promise_of(planned), Notes()
    first = planned.survey.first_record(number)
    for batch in records_of_part(work, context, number, first, context.schema.travelling):
        fingerprint.add(batch.whole, context.schema.travelling)
        released = route_batch(context, planned.encoding, routes, planned.outline.hash_seed, batch).released()
        expected = note_batch(expected, expected_of(planned, promise, number, routes, released))
        scatter.add(*_scattered_rows(planned, routes, released))
        for companion in companions:
            companion.add(batch)
    refuse_changed(planned, number, fingerprint)
    scatter.flush()
    rows = scatter.rows + sum(companion.end() for companion in companions)
    work.write(EXPECTED, expected)
    return rows


SCATTER = Step(
    name="scatter",
    stage="scatter",
    per="part",
    does=scatter_part,
    memory=lambda load: _COPIES * grown_size(RUN_BYTES, load.whole_bytes, STEADY_BYTES),
    reads_input=True,
    knows=PLANNED,
    same=(PART_KEYS, MARKS, TOGETHER, MEMBERS),
    ranges_of=(ROUTES,),
    writes=(EXPECTED,),
    sends=(SCATTERED,),
)


def refuse_changed(planned: Planned, part: int, fingerprint: Fingerprint) -> None:
    """Stop if a part is not, row for row, what was surveyed."""
    if fingerprint.text() != planned.survey.fingerprints[part]:
        raise input_changed(planned.context.parts[part])


def _scattered_rows(planned: Planned, routes: Routes, released: Routed) -> tuple[pa.Table, Ints]:
    """Select records that are released, with the partition of each."""
    schema, outline = planned.context.schema, planned.outline
    Z = released.points if outline.trees else np.empty((len(released.records), 0))
    block = routes.blocks_of(released.place, outline.trees, Z, released.units)
    columns = [pa.array(released.records), pa.array(block.astype(np.min_scalar_type(outline.n_blocks)))]
    columns += [one_array(released.table[c.name]) for c in (*schema.quasi_identifiers, *schema.confidential)]
    names = [RECORD, "block", *(f"q{j}" for j in range(len(schema.quasi_identifiers)))]
    names += [f"c{j}" for j in range(len(schema.confidential))]
    if released.came is not None:
        columns, names = [*columns, pa.array(released.came)], [*names, CAME]
    if planned.context.spec.parts_units:
        columns, names = [*columns, pa.array(released.units)], [*names, UNIT]
    return pa.Table.from_arrays(columns, names=names), outline.partitions_of(block)


def gather_partition(work: Work) -> pa.Table:
    """Read the rows of one partition, by block and record number."""
    table = work.gather(SCATTERED)
    if table is None:
        raise _unlike_the_plan(f"partition {work.number} received none of its records")
    # Parts come in their order, and each part's rows in theirs: record numbers ascend.
    if CAME in table.column_names:
        table = table.take(pa.array(ascending_order(np.asarray(table[CAME])))).drop_columns([CAME])
    return table.take(pa.array(ascending_order(np.asarray(table["block"])))).combine_chunks()


def refuse_lost(expected: int, scattered: Sequence[Receipt]) -> None:
    """Stop if not as many records as are to be released were sent to partitions."""
    sent = sum(int(receipt.slices(SCATTERED).array["rows"].sum()) for receipt in scattered)
    if sent != expected:
        raise _unlike_the_plan(f"{sent} of {expected} records were sent to partitions")


def _unlike_the_plan(what: str) -> DataError:
    return DataError(f"{what}: the input changed while the release was made; run again")
