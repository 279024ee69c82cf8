"""Checking: what workers read for the gate, and what the flow has it decide; the gate is :mod:`microagg_core.inspect`.

What the release should hold of an input part is noted when the part is read to be scattered, and proves to be what was
surveyed. A candidate file is read back with what lies beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from microagg_core.inspect.check import Check
from microagg_core.inspect.gate import Notes, make_checks, note_carried_file, note_file
from microagg_core.plain import to_json
from microagg_core.release.steps.candidate import read_candidate
from microagg_core.release.steps.noting import notes_of_input, promise_of, read_notes
from microagg_core.release.steps.pieces import Piece, Pieces
from microagg_core.release.steps.portraying import note_portrait
from microagg_core.release.steps.protecting import note_protection
from microagg_core.release.steps.risks import note_risk
from microagg_core.release.steps.routing import Planned, load_planned
from microagg_core.release.steps.value_counts import (
    ColumnCounts,
    check_distributions,
    combine_counts,
    load_distributions,
    read_distributions,
)
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.candidates import look_at_survivors, tell_arrivals
from microagg_core.series.night import has_night
from microagg_core.store.layout import RunLayout
from microagg_core.store.values_layout import ValuesLayout

# --- A worker's half -----------------------------------------------------------------------------------------


def check_file(task: Task) -> Receipt:
    """Re-read one candidate file and write what is noted of it; the receipt names the file before what was written."""
    planned, layout, number = load_planned(task), task.layout, task.number
    candidate, piece = read_candidate(task, planned)
    table, records = candidate.table, candidate.records
    if number < planned.outline.n_files:
        notes = note_file(promise_of(planned), table, candidate.origins, planned.survey.parts_of(records))
    else:
        notes = note_carried_file(promise_of(planned), table, candidate.origins)
    pieces = (piece, task.put(layout.checks(number), to_json(notes)), *_values(task, planned, table, notes))
    if notes.readable:
        pieces += note_risk(task, planned, candidate)
        pieces += note_portrait(task, planned, candidate)
        pieces += note_protection(task, planned, candidate)
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


# --- The flow's half -----------------------------------------------------------------------------------------


def run_checks(
    checked: Pieces, layout: RunLayout, planned: Planned, carried: CarriedFiles | None = None
) -> list[Check]:
    """Have the gate compare what was noted of the files with what was noted of the input."""
    parts = notes_of_input(checked, layout, len(planned.context.parts))
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
