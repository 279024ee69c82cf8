"""What the files that would be published say of their rows, and whose rows they are.

Every row of the candidate files tells its class and digests of its values; the input part of its record tells whose it
is. It is not asked how groups were made, or what became of atoms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints, UInt64s
from microagg_core.series.digests import classes_of
from microagg_core.series.joining import as_columns
from microagg_core.series.marks import SURVIVOR
from microagg_core.series.night import GHOSTS_FROM, Night
from microagg_core.steps.nights.knowing import confidential_digests, layout_of, load_night
from microagg_core.steps.nights.matching import read_unit_ranges
from microagg_core.steps.pieces import Piece
from microagg_core.steps.reading import BatchMarks, PartBatch
from microagg_core.steps.routing import Planned, load_planned
from microagg_core.steps.scattering import gather_slices
from microagg_core.steps.work import Receipt, Task
from microagg_core.tables.slices import RECORD, Slice, read_slice, to_bytes, write_slices

#: A value differs from tonight's input: the bit of whole rows, where single columns are not watched.
ROW_BIT = np.uint64(1) << np.uint64(63)


# --- What a candidate file says of its rows --------------------------------------------------------------------


def tell_classes(task: Task, plan: Planned, table: pa.Table, records: Ints) -> tuple[Piece, list[Slice]]:
    """Class and digests of every row, for the input part of its record; of ghosts, for the range of their unit."""
    night, key = load_night(task)
    keys = [c.name for c in (*plan.context.schema.blocking, *plan.context.schema.quasi_identifiers)]
    rows, values = confidential_digests(plan.context, night, key, table)
    is_ghost = records >= GHOSTS_FROM
    number = np.where(is_ghost, records % GHOSTS_FROM, records)
    columns = {RECORD: pa.array(number), **as_columns(classes_of(table, keys, key), "k"), "row": pa.array(rows)}
    columns |= {f"d{j}": pa.array(of_column) for j, of_column in enumerate(values)}
    n_parts = len(plan.context.parts)
    part = plan.survey.parts_of(np.where(is_ghost, 0, records))
    destination = np.where(is_ghost, n_parts + records // GHOSTS_FROM - 1, part)
    data, slices = write_slices(pa.table(columns), destination, task.number)
    return task.put(layout_of(task).classes(task.number), data), slices


def tell_survivors(task: Task, plan: Planned, batch: PartBatch, marks: BatchMarks) -> pa.Table:
    """Digests of what the input has of a batch's survivors."""
    night, key = load_night(task)
    mine = np.flatnonzero(marks.codes == SURVIVOR)
    confidential = [c.name for c in plan.context.schema.confidential]
    table = batch.whole.select(confidential).take(pa.array(mine))
    rows, values = confidential_digests(plan.context, night, key, table)
    columns = {RECORD: pa.array(batch.all_records[mine]), "row": pa.array(rows)}
    return pa.table({**columns, **{f"d{j}": pa.array(of_column) for j, of_column in enumerate(values)}})


def save_survivors(task: Task, told: Sequence[pa.Table]) -> Piece:
    """Write what was told of one part's survivors."""
    return task.put(layout_of(task).survivors_read(task.number), to_bytes(pa.concat_tables(told).combine_chunks()))


# --- Whose rows they are ---------------------------------------------------------------------------------------


def join_part(task: Task) -> Receipt:
    """Tell the ranges of units what the files have of the records of one input part; or pass ghosts on to a range."""
    plan, (night, _) = load_planned(task), load_night(task)
    layout, n_parts = layout_of(task), len(plan.context.parts)
    told = gather_slices(task.run, task.slices, "check-files", lambda number, _: layout.classes(number))
    if told is None:
        return Receipt(task.step, task.number, 0, ())
    if task.number >= n_parts:
        differs = np.zeros(told.num_rows, dtype=np.uint64)
        table = _joined(told, differs, part=-1, first=0)
        destination = np.full(told.num_rows, task.number - n_parts, dtype=np.int64)
    else:
        first = plan.survey.first_record(task.number)
        table = _joined(told, _differences(task, night, told), task.number, first)
        destination = read_unit_ranges(task, task.number)[np.asarray(told[RECORD]) - first]
    data, slices = write_slices(table, destination, task.number)
    return Receipt(task.step, task.number, told.num_rows, (task.put(layout.joined(task.number), data),), tuple(slices))


def _joined(told: pa.Table, differs: UInt64s, part: int, first: int) -> pa.Table:
    place = np.asarray(told[RECORD]) - first
    table = told.set_column(0, RECORD, pa.array(place))
    table = table.append_column("part", pa.array(np.full(told.num_rows, part, dtype=np.int32)))
    return table.append_column("differs", pa.array(differs))


def _differences(task: Task, night: Night, told: pa.Table) -> UInt64s:
    """For survivors' rows, a bit for each watched column whose value is not tonight's input's; or one for the row."""
    differs = np.zeros(told.num_rows, dtype=np.uint64)
    name = layout_of(task).survivors_read(task.number)
    if not any(piece.name == name for piece in task.reads):
        return differs
    read = read_slice(task.pieces.read(name))
    records = np.asarray(read[RECORD])
    if not len(records):
        return differs
    place = np.searchsorted(records, np.asarray(told[RECORD]))
    place[place == len(records)] = 0
    mine = np.flatnonzero(records[place] == np.asarray(told[RECORD]))
    if not night.columns:
        other = np.asarray(told["row"])[mine] != np.asarray(read["row"])[place[mine]]
        differs[mine] = np.where(other, ROW_BIT, np.uint64(0))
        return differs
    for j in range(len(night.columns)):
        other = np.asarray(told[f"d{j}"])[mine] != np.asarray(read[f"d{j}"])[place[mine]]
        differs[mine] |= other.astype(np.uint64) << np.uint64(j)
    return differs
