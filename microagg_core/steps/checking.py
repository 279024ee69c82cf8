"""Checking: what workers read for the gate, and what the flow has it decide; the gate is :mod:`microagg_core.privacy`.

The input is read first. Its quasi-identifiers go, by record number, to the file in which the record should be, and the
file is read with what came of the input beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.blocking.routes import Routes
from microagg_core.formats.released.registry import released_format
from microagg_core.plain import from_json, to_json
from microagg_core.privacy.check import Check
from microagg_core.privacy.checks.contract import InputBatch, Promise
from microagg_core.privacy.gate import Notes, PartNotes, make_checks, note_carried_file, note_file
from microagg_core.steps.nights.knowing import has_night, layout_of
from microagg_core.steps.nights.telling import look_at_survivors, tell_arrivals, tell_survivors
from microagg_core.steps.pieces import Piece, Pieces
from microagg_core.steps.portraying import note_portrait
from microagg_core.steps.protecting import note_protection
from microagg_core.steps.reading import records_of_part
from microagg_core.steps.risks import note_risk
from microagg_core.steps.routing import Planned, Routed, load_planned, load_routes, route_batch
from microagg_core.steps.scattering import refuse_changed
from microagg_core.steps.shuffling import Scatter, gather_slices, read_slices
from microagg_core.steps.survey import Fingerprint
from microagg_core.steps.value_counts import (
    ColumnCounts,
    check_distributions,
    combine_counts,
    load_distributions,
    read_distributions,
)
from microagg_core.steps.work import Receipt, Task
from microagg_core.storage.layout import RunLayout
from microagg_core.storage.values_layout import ValuesLayout
from microagg_core.tables.hashing import one_array
from microagg_core.tables.slices import RECORD, read_slice


def promise_of(planned: Planned) -> Promise:
    """What the gate holds the release against."""
    context, survey = planned.context, planned.survey
    withheld = planned.outline.withheld_rows
    n_parts = len(survey.rows_of_parts)
    return Promise(context.schema, planned.encoding.kinds, context.spec.k, survey.arrivals, withheld, n_parts)


# --- A worker's half -----------------------------------------------------------------------------------------


def check_file(task: Task) -> Receipt:
    """Re-read one candidate file and write what is noted of it; the receipt names the file before what was written."""
    planned, layout, number = load_planned(task), task.layout, task.number
    form = released_format(planned.context.spec.output)
    # Only these bytes may be published: what was read is what is named here.
    candidate = task.pieces.piece(layout.candidate(number, form.name))
    data = task.pieces.read(candidate.name)
    table = form.read_back(data, planned.context.schema.released_schema)
    records = np.asarray(read_slice(task.pieces.read(layout.numbers(number)))[RECORD]).astype(np.int64)
    if number < planned.outline.n_files:
        came = gather_slices(task.run, task.slices, "check-input", layout.check_scatter)
        notes = note_file(promise_of(planned), table, records, planned.survey.parts_of(records), came)
    else:
        came, notes = None, note_carried_file(promise_of(planned), table, records)
    pieces = (candidate, task.put(layout.checks(number), to_json(notes)), *_values(task, planned, table, notes))
    if notes.readable:
        pieces += note_risk(task, planned, table, records, came)
        pieces += note_portrait(task, planned, table, records, came)
        pieces += note_protection(task, planned, table, records, came)
    if not (has_night(task) and notes.readable):
        return Receipt(task.step, number, notes.rows, pieces)
    tell = tell_arrivals if number < planned.outline.n_files else look_at_survivors
    told, slices = tell(task, planned, table, records)
    return Receipt(task.step, number, notes.rows, (*pieces, *told), slices)


def _values(task: Task, plan: Planned, table: pa.Table, notes: Notes) -> tuple[Piece, ...]:
    """What is counted of the confidential values of a file of arrivals."""
    if task.number >= plan.outline.n_files or not notes.readable:
        return ()
    values = ColumnCounts(plan.context)
    values.add_released(table, load_distributions(task))
    return (task.put(ValuesLayout(task.run.key).checked_values(task.number), values.to_bytes()),)


def check_input(task: Task) -> Receipt:
    """Re-read one input part and write what the release should hold of it."""
    planned = load_planned(task)
    context, promise, notes, routes = planned.context, promise_of(planned), PartNotes(), load_routes(task, planned)
    scatter, file_of, fingerprint = Scatter(task, task.layout.check_scatter), _files_of(task, planned), Fingerprint()
    first, survivors = planned.survey.first_record(task.number), Scatter(task, layout_of(task).survivors_read)
    for batch in records_of_part(task, context, task.number, first, context.schema.travelling):
        fingerprint.add(batch.whole, context.schema.travelling)
        routed = route_batch(context, planned.encoding, routes, planned.outline.hash_seed, batch)
        notes.add(_expected(promise, planned, task.number, routes, routed))
        _send(planned, routed, file_of[routed.records - first], scatter)
        if batch.marks is not None and batch.marks.atoms is not None:
            tell_survivors(task, planned, batch, batch.marks.codes, batch.marks.atoms, survivors)
    refuse_changed(planned, task.number, fingerprint)
    scatter.flush()
    survivors.flush()
    noted = task.put(task.layout.input_checks(task.number), to_json(notes.finished()))
    slices = scatter.slices + survivors.slices
    return Receipt(task.step, task.number, notes.rows, (*scatter.pieces, *survivors.pieces, noted), slices)


def _files_of(task: Task, planned: Planned) -> NDArray[Any]:
    """The file in which each record of the part should be, by the files' own lists; the number of files: in none."""
    first, n_files = planned.survey.first_record(task.number), planned.outline.n_files
    # As narrow as can be: a part may be a file of any length.
    files = np.full(planned.survey.rows_of_parts[task.number], n_files, dtype=np.min_scalar_type(n_files))
    lists = read_slices(task.run, task.slices, "assemble", lambda file, _: task.layout.places(file))
    for one, listed in zip(task.slices, lists, strict=True):
        place = np.asarray(listed[RECORD]) - first
        files[place[(place >= 0) & (place < len(files))]] = one.maker
    return files


def _send(planned: Planned, routed: Routed, files: NDArray[Any], scatter: Scatter) -> None:
    """Send the quasi-identifiers of the records to the files in which they should be."""
    listed = files < planned.outline.n_files
    columns = [pa.array(routed.records), *(routed.table[kind.name] for kind in planned.context.kinds)]
    names = [RECORD, *(f"q{j}" for j in range(len(planned.context.kinds)))]
    table = pa.Table.from_arrays(columns, names=names)
    scatter.add(table.filter(pa.array(listed)), files[listed].astype(np.int64))


def _expected(promise: Promise, planned: Planned, part: int, routes: Routes, routed: Routed) -> InputBatch:
    """The batch's records that should be released."""
    ticks = [kind.ticks(routed.table[kind.name]) for kind in promise.kinds]
    values = tuple(of_kind[routed.kept & ~missing] for of_kind, missing in ticks)
    return InputBatch(promise, part, routed.records[routed.kept], _expected_rows(planned, routes, routed), values)


def _expected_rows(planned: Planned, routes: Routes, routed: Routed) -> pa.Table:
    """What should be released of a batch, but for the quasi-identifiers, which keep only their missing values."""
    schema, kept = planned.context.schema, pa.array(routed.kept)
    labels = routes.labels.take(pa.array(routed.place[routed.kept]))
    position = {c.name: j for j, c in enumerate(schema.blocking)}
    kinds = {kind.name: kind for kind in schema.kinds}
    columns = []
    for column in schema.released:
        if column.role == "blocking":
            columns.append(labels[f"b{position[column.name]}"])
        else:
            values = one_array(routed.table[column.name]).filter(kept)
            columns.append(kinds[column.name].with_nulls(values) if column.name in kinds else values)
    rows = pa.Table.from_arrays(columns, names=[c.name for c in schema.released])
    return released_format(planned.context.spec.output).released_form(rows)


# --- The flow's half -----------------------------------------------------------------------------------------


def run_checks(
    checked: Pieces, layout: RunLayout, planned: Planned, carried: CarriedFiles | None = None
) -> list[Check]:
    """Have the gate compare what was noted of the files with what was noted of the input."""
    parts = read_notes(checked, (layout.input_checks(i) for i in range(len(planned.context.parts))))
    promise, n_files = promise_of(planned), planned.outline.n_files
    if carried is not None:
        promise, n_files = replace(promise, carried=carried.rows, in_series=True), n_files + carried.n_files
    return make_checks(promise, file_notes(checked, layout, n_files), parts)


def run_value_checks(checked: Pieces, used: Pieces, run_key: str, plan: Planned) -> list[Check]:
    """Have the gate compare the files' confidential values with what the workers were told of them.

    None where a file could not be looked at, which another check says.
    """
    names = [ValuesLayout(run_key).checked_values(i) for i in range(plan.outline.n_files)]
    if not all(checked.has(name) for name in names):
        return []
    counted = combine_counts(plan.context, checked, names)
    return [check_distributions(plan.context, read_distributions(used, run_key), counted)]


@dataclass(frozen=True)
class CarriedFiles:
    """The files of survivors, which come after those of arrivals, and how many rows they should have in all."""

    n_files: int
    rows: int


def file_notes(checked: Pieces, layout: RunLayout, n_files: int) -> list[Notes]:
    """What the gate noted of the files."""
    return read_notes(checked, (layout.checks(i) for i in range(n_files)))


def read_notes(checked: Pieces, names: Iterable[str]) -> list[Notes]:
    """Notes of files or parts."""
    return [from_json(Notes, data) for data in checked.read_all(names)]
