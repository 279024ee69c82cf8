"""Scatter: rows travel from the input's parts to the plan's partitions, through storage.

Every part is read once and written as objects that hold its rows cut by partition; whoever works on a partition
gathers its slices of those objects, by block and record. Against a shuffle between the workers' memories this costs
one write and read, and gains what a release needs: a killed worker loses one task and nothing of what others finished,
memory stays at a few batches however large the file, and each step can be counted, checksummed and repeated.

Scattered rows carry their record number, block, quasi-identifiers and confidential values; identifiers, dropped
columns and blocking values stay behind (a block's label is known from the plan).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.blocking.outline import Outline
from microagg_core.blocking.routes import Routes
from microagg_core.errors import DataError
from microagg_core.kinds.encoding import Encoding
from microagg_core.metrics.moments import EMPTY, Moments, merge, merge_all
from microagg_core.plain import from_json, to_json
from microagg_core.series.atoms import range_of_atoms
from microagg_core.series.marks import ATOM, survive
from microagg_core.steps.nights.knowing import load_night
from microagg_core.steps.pieces import Piece, Pieces
from microagg_core.steps.reading import PartBatch, input_changed, records_of_part
from microagg_core.steps.routing import Planned, Routed, load_planned, load_routes, route_batch
from microagg_core.steps.shuffling import Scatter, gather_slices
from microagg_core.steps.survey import Fingerprint
from microagg_core.steps.value_counts import ColumnCounts
from microagg_core.steps.work import Context, Receipt, Run, Task
from microagg_core.storage.layout import RunLayout
from microagg_core.storage.night_layout import NightLayout
from microagg_core.storage.values_layout import ValuesLayout
from microagg_core.tables.hashing import one_array
from microagg_core.tables.ordering import ascending_order
from microagg_core.tables.slices import RECORD, Slices

Ints = NDArray[np.int64]


def scatter_part(task: Task) -> Receipt:
    """Cut one input part by partition; stops if the part is not what was surveyed."""
    planned = load_planned(task)
    context, number, routes = planned.context, task.number, load_routes(task, planned)
    fingerprint, scatter = Fingerprint(), Scatter(task, task.layout.scatter)
    survivors = Scatter(task, NightLayout(task.run.key).survivors)
    moments, values = [EMPTY] * len(context.kinds), ColumnCounts(context)
    first = planned.survey.first_record(number)
    for batch in records_of_part(task, context, number, first, context.schema.travelling):
        fingerprint.add(batch.whole, context.schema.travelling)
        routed = route_batch(context, planned.encoding, routes, planned.outline.hash_seed, batch)
        moments = _released_moments(planned, routed, moments)
        values.add(_released(routed, [column.name for column in context.schema.confidential]))
        rows, partition = _scattered_rows(planned, routes, routed)
        scatter.add(rows, partition)
        if batch.marks is not None and batch.marks.atoms is not None:
            night, _ = load_night(task)
            rows = survivors_of(context, batch, batch.marks.codes, batch.marks.atoms)
            atom_range = range_of_atoms(np.asarray(rows[ATOM]), night.n_atom_ranges)
            survivors.add(rows, planned.outline.n_partitions + atom_range)
    refuse_changed(planned, number, fingerprint)
    scatter.flush()
    survivors.flush()
    counted = (
        task.put(task.layout.released_moments(number), to_json(moments)),
        task.put(ValuesLayout(task.run.key).value_counts(number), values.to_bytes()),
    )
    pieces = (*scatter.pieces, *survivors.pieces, *counted)
    rows_of_both = scatter.rows + survivors.rows
    return Receipt(task.step, number, rows_of_both, pieces, scatter.slices + survivors.slices)


def survivors_of(context: Context, batch: PartBatch, codes: NDArray[Any], atoms: NDArray[Any]) -> pa.Table:
    """The confidential values of a batch's survivors, and their atoms."""
    mine = np.flatnonzero(survive(codes))
    columns = {RECORD: pa.array(batch.all_records[mine]), ATOM: pa.array(atoms[mine].astype(np.uint64))}
    for j, column in enumerate(context.schema.confidential):
        columns[f"c{j}"] = one_array(batch.whole[column.name]).take(pa.array(mine))
    return pa.table(columns)


def refuse_changed(planned: Planned, part: int, fingerprint: Fingerprint) -> None:
    """Stop if a part is not, row for row, what was surveyed.

    Raises:
        DataError: the input changed.
    """
    if fingerprint.text() != planned.survey.fingerprints[part]:
        raise input_changed(planned.context.parts[part])


def _released_moments(planned: Planned, routed: Routed, moments: list[Moments]) -> list[Moments]:
    kept, merged = routed.kept, []
    for j, kind in enumerate(planned.context.kinds):
        ticks, missing = kind.ticks(routed.table[kind.name])
        merged.append(merge(moments[j], kind.moments(ticks[kept & ~missing])))
    return merged


def _released(routed: Routed, names: Sequence[str]) -> pa.Table:
    """Some columns of the batch's records that are released."""
    columns = routed.table.select(names)
    return columns if routed.kept.all() else columns.filter(pa.array(routed.kept))


def _scattered_rows(planned: Planned, routes: Routes, routed: Routed) -> tuple[pa.Table, Ints]:
    """The batch's released records, with the partition of each."""
    kept = routed.kept
    schema, outline = planned.context.schema, planned.outline
    block = routes.blocks_of(routed.place[kept], outline.trees, routed.Z[kept], routed.records[kept])
    columns = [pa.array(routed.records[kept]), pa.array(block.astype(np.min_scalar_type(outline.n_blocks)))]
    everything = bool(kept.all())
    for column in (*schema.quasi_identifiers, *schema.confidential):
        values = one_array(routed.table[column.name])
        columns.append(values if everything else values.filter(pa.array(kept)))
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


def combine_released_moments(
    n_attributes: int, scattered: Pieces, layout: RunLayout, n_parts: int
) -> tuple[Moments, ...]:
    """Moments of the quasi-identifiers over the records that are released, merged in part order."""
    data = scattered.read_all(layout.released_moments(i) for i in range(n_parts))
    parts = [from_json(tuple[Moments, ...], of_part) for of_part in data]
    return tuple(merge_all(of_part[j] for of_part in parts) for j in range(n_attributes))


def save_measure_scale(run: Run, moments: Sequence[Moments]) -> Piece:
    """Write the released records' moments, on whose scale losses are measured."""
    return run.put(run.layout.measure_scale(), to_json(moments), "scale")


def load_measure_scale(task: Task, encoding: Encoding) -> Encoding:
    """The standardization of losses: that of the released records, so that no figure tells of a withheld one."""
    return measure_scale(encoding, from_json(tuple[Moments, ...], task.pieces.read(task.layout.measure_scale())))


def measure_scale(encoding: Encoding, moments: Sequence[Moments]) -> Encoding:
    """The standardization of losses, by the moments of the released records."""
    means = tuple(m.mean_from(o) if m.n else 0.0 for m, o in zip(moments, encoding.origins, strict=True))
    return Encoding(encoding.kinds, encoding.origins, means, tuple(m.deviation for m in moments))
