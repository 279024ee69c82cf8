"""Scatter: rows travel from the input's parts to the plan's partitions, through storage.

Every part is read once and written as objects that hold its rows cut by partition; whoever works on a partition
gathers its slices of those objects, by block and record. Against a shuffle between the workers' memories this costs
one write and read, and gains what a release needs: a killed worker loses one task and nothing of what others finished,
memory stays at a few batches however large the file, and each step can be counted, checksummed and repeated.

Scattered rows carry their record number, block, quasi-identifiers and confidential values; identifiers, dropped
columns and blocking values stay behind (a block's label is known from the plan). What the gate notes of the input it
notes here, of the rows as they were read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.blocks.masking import loss_scale
from microagg_core.blocks.outline import Outline
from microagg_core.blocks.routes import Routes
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.ordering import ascending_order
from microagg_core.data.tables.slices import RECORD, Slices
from microagg_core.errors import DataError
from microagg_core.group.metrics.moments import Moments
from microagg_core.inspect.gate import PartNotes
from microagg_core.plain import from_json, to_json
from microagg_core.release.steps.checking import expected_of, promise_of
from microagg_core.release.steps.drawn_rows import DrawnRows
from microagg_core.release.steps.pieces import Piece
from microagg_core.release.steps.reading import input_changed, records_of_part
from microagg_core.release.steps.routing import Planned, Routed, load_planned, load_routes, route_batch
from microagg_core.release.steps.shuffling import Scatter, gather_slices
from microagg_core.release.steps.survey import Fingerprint
from microagg_core.release.steps.work import Receipt, Run, Task
from microagg_core.series.survivors import Survivors

Ints = NDArray[np.int64]


def scatter_part(task: Task) -> Receipt:
    """Cut one input part by partition; stops if the part is not what was surveyed."""
    planned = load_planned(task)
    context, number, routes = planned.context, task.number, load_routes(task, planned)
    fingerprint, survivors, drawn = Fingerprint(), Survivors(task, planned), DrawnRows(task, planned)
    scatter = Scatter(task, task.layout.scatter, planned.survey.staged_bytes)
    promise, expected = promise_of(planned), PartNotes()
    first = planned.survey.first_record(number)
    for batch in records_of_part(task, context, number, first, context.schema.travelling):
        fingerprint.add(batch.whole, context.schema.travelling)
        released = route_batch(context, planned.encoding, routes, planned.outline.hash_seed, batch).released()
        expected.add(expected_of(planned, promise, number, routes, released))
        scatter.add(*_scattered_rows(planned, routes, released))
        survivors.add(batch)
        drawn.add(batch)
    refuse_changed(planned, number, fingerprint)
    scatter.flush()
    survivors.flush()
    notes = task.put(task.layout.expected(number), expected.finished().to_bytes())
    pieces, slices = (*scatter.pieces, *survivors.pieces, *drawn.write(), notes), scatter.slices + survivors.slices
    return Receipt(task.step, number, scatter.rows + survivors.rows, pieces, slices)


def refuse_changed(planned: Planned, part: int, fingerprint: Fingerprint) -> None:
    """Stop if a part is not, row for row, what was surveyed.

    Raises:
        DataError: the input changed.
    """
    if fingerprint.text() != planned.survey.fingerprints[part]:
        raise input_changed(planned.context.parts[part])


def _scattered_rows(planned: Planned, routes: Routes, released: Routed) -> tuple[pa.Table, Ints]:
    """Records that are released, with the partition of each."""
    schema, outline = planned.context.schema, planned.outline
    Z = released.points if outline.trees else np.empty((len(released.records), 0))
    block = routes.blocks_of(released.place, outline.trees, Z, released.records)
    columns = [pa.array(released.records), pa.array(block.astype(np.min_scalar_type(outline.n_blocks)))]
    columns += [one_array(released.table[c.name]) for c in (*schema.quasi_identifiers, *schema.confidential)]
    names = [RECORD, "block", *(f"q{j}" for j in range(len(schema.quasi_identifiers)))]
    names += [f"c{j}" for j in range(len(schema.confidential))]
    return pa.Table.from_arrays(columns, names=names), outline.partitions_of(block)


def gather_partition(task: Task, planned: Planned) -> pa.Table:
    """The rows of one partition, by block and record number.

    Raises:
        DataError: the input changed.
        DamagedWorkError: an object in the work area is not what was written.
    """
    table = gather_slices(task.run, task.slices, "scatter", task.layout.scatter)
    if table is None:
        raise _unlike_the_plan(f"partition {task.number} received none of its records")
    # Parts come in their order, and each part's rows in theirs: record numbers ascend.
    return table.take(pa.array(ascending_order(np.asarray(table["block"])))).combine_chunks()


def refuse_lost(outline: Outline, expected: int, scattered: Sequence[Receipt]) -> None:
    """Stop if not as many records as are to be released were sent to partitions.

    Survivors of a series have destinations behind all partitions, and do not count.

    Raises:
        DataError: the input changed.
    """
    slices = Slices.joined(receipt.slices for receipt in scattered).array
    sent = int(slices["rows"][slices["destination"] < outline.n_partitions].sum())
    if sent != expected:
        raise _unlike_the_plan(f"{sent} of {expected} records were sent to partitions")


def _unlike_the_plan(what: str) -> DataError:
    return DataError(f"{what}: the input changed while the release was made; run again")


def save_measure_scale(run: Run, moments: Sequence[Moments]) -> Piece:
    """Write the released records' moments, on whose scale losses are measured."""
    return run.put(run.layout.measure_scale(), to_json(moments), "scale")


def load_measure_scale(task: Task, encoding: Encoding) -> Encoding:
    """The standardization of losses: that of the released records, so that no figure tells of a withheld one."""
    return loss_scale(encoding, from_json(tuple[Moments, ...], task.pieces.read(task.layout.measure_scale())))
