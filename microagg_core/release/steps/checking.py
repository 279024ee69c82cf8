"""Checking: what workers note for the gate, and what the flow has it decide; the gate is :mod:`microagg_core.inspect`.

An input part is read twice, by the survey and to be scattered, and the second reading proves to be of the same rows. In
that one it is noted what the release should hold. A candidate file is read back with what lies beside it: row by row
the record's private number, and, where the record arrived in this run, its quasi-identifiers as they came in. In one
pass over both all inspections take their notes; those of a file are one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from microagg_core.blocks.routes import Routes
from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.slices import RECORD, read_slice, to_bytes
from microagg_core.errors import DataError
from microagg_core.group.metrics.moments import EMPTY, Moments
from microagg_core.inspect.check import Check
from microagg_core.inspect.checks.distributions import Distributions
from microagg_core.inspect.checks.means import Means
from microagg_core.inspect.contract import InputBatch, Promise, ReleasedFile
from microagg_core.inspect.distributions import MOST_VALUES_OF_PROTECTED, Distribution, table_of
from microagg_core.inspect.gate import Inspected, limits, make_checks, note_file, note_types
from microagg_core.inspect.notes import Notes, total
from microagg_core.plain import to_json
from microagg_core.release.steps.demands import load_distributions, protection_of, read_distributions
from microagg_core.release.steps.pieces import Piece, Pieces
from microagg_core.release.steps.routing import Planned, Routed, load_planned
from microagg_core.release.steps.work import Receipt, Run, Task
from microagg_core.series.candidates import look_at_survivors, tell_arrivals
from microagg_core.series.night import has_night
from microagg_core.store.layout import RunLayout

#: Notes that are read at once: together they are smaller than the rows that a worker holds.
_AT_ONCE = 16


def promise_of(planned: Planned, distributions: tuple[Distribution | None, ...] = ()) -> Promise:
    """What the gate holds the release against; ``distributions`` are those of confidential columns, once counted."""
    context, survey = planned.context, planned.survey
    return Promise(
        schema=context.schema,
        encoding=planned.encoding,
        k=context.spec.k,
        rows=survey.arrivals,
        withheld=planned.outline.withheld_rows,
        n_parts=len(survey.rows_of_parts),
        protection=protection_of(context),
        distributions=distributions,
        risk=context.spec.risk,
        analyses=tuple(context.spec.analyses),
        seed=context.spec.seed,
    )


# --- What the release should hold -----------------------------------------------------------------------------


def expected_of(planned: Planned, promise: Promise, part: int, routes: Routes, released: Routed) -> InputBatch:
    """What the release should hold of some records of an input part."""
    came = tuple(one_array(released.table[kind.name]) for kind in promise.kinds)
    values = tuple(ticks[~released.missing[:, j]] for j, ticks in enumerate(released.ticks))
    return InputBatch(promise, part, released.records, _expected_rows(planned, routes, released), came, values)


def _expected_rows(planned: Planned, routes: Routes, released: Routed) -> pa.Table:
    """What should be released of records, but for the quasi-identifiers, which keep only their missing values."""
    schema = planned.context.schema
    labels = routes.labels.take(pa.array(released.place))
    position = {c.name: j for j, c in enumerate(schema.blocking)}
    kinds = {kind.name: kind for kind in schema.kinds}
    columns = []
    for column in schema.released:
        if column.role == "blocking":
            columns.append(labels[f"b{position[column.name]}"])
        else:
            values = one_array(released.table[column.name])
            columns.append(kinds[column.name].with_nulls(values) if column.name in kinds else values)
    rows = pa.Table.from_arrays(columns, names=[c.name for c in schema.released])
    return released_format(planned.context.spec.output).released_form(rows)


# --- A worker's half -----------------------------------------------------------------------------------------


def check_file(task: Task) -> Receipt:
    """Re-read one candidate file and write what is noted of it; the receipt names the file before what was written."""
    planned, layout, number = load_planned(task), task.layout, task.number
    form, is_carried = released_format(planned.context.spec.output), number >= planned.outline.n_files
    candidate = task.pieces.piece(layout.candidate(number, form.name))
    table = form.read_back(task.pieces.read(candidate.name), planned.context.schema.released_schema)
    origins = read_slice(task.pieces.read(layout.origins(number)))
    records = np.asarray(origins[RECORD]).astype(np.int64)
    file = ReleasedFile(
        promise_of(planned, load_distributions(task)),
        # One chunk a column, or all that look at a column would join its chunks, each anew.
        table.combine_chunks(),
        origins,
        np.zeros(len(records), dtype=np.int64) if is_carried else planned.survey.parts_of(records),
        number,
        is_carried,
    )
    notes = note_file(file)
    pieces = (candidate, task.put(layout.checks(number), notes.to_bytes()))
    if not (has_night(task) and notes.readable):
        return Receipt(task.step, number, notes.rows, pieces)
    tell = look_at_survivors if is_carried else tell_arrivals
    written, slices = tell(task, planned, file.table, records)
    return Receipt(task.step, number, notes.rows, (*pieces, *written), slices)


# --- The flow's half -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CarriedFiles:
    """The files of survivors, which come after those of arrivals, and how many rows they should have in all."""

    n_files: int
    rows: int


def notes_of_input(scattered: Pieces, layout: RunLayout, n_parts: int) -> Notes:
    """Add up what was noted of the parts of the input."""
    return total(_read(scattered, (layout.expected(i) for i in range(n_parts))))


def moments_of_released(parts: Notes, n_attributes: int) -> tuple[Moments, ...]:
    """Moments of the quasi-identifiers over the records that are released, from what was noted of the input."""
    noted = parts.by_key.get(Means().key)
    return noted.moments if noted else (EMPTY,) * n_attributes


def save_distributions(run: Run, planned: Planned, parts: Notes) -> Piece:
    """Write the distributions of confidential values, from what was noted of the input, where workers find them.

    Raises:
        DataError: closeness is demanded of a column that has too many values for it.
    """
    check, promise = Distributions(), promise_of(planned)
    distributions = parts.by_key.get(check.key, check.nothing(promise)).distributions()
    for column, distribution in zip(promise.schema.confidential, distributions, strict=True):
        if distribution is None and promise.protection.wants_closeness(column.name):
            raise DataError(
                f"protect.{column.name}.t: the column has more than {MOST_VALUES_OF_PROTECTED} distinct values, whose "
                "distribution nobody can hold; round them, or take t away"
            )
    return run.put(run.layout.distributions(), to_bytes(table_of(distributions)), "distributions")


def inspect_files(checked: Pieces, layout: RunLayout, planned: Planned, carried: CarriedFiles | None) -> Inspected:
    """Add up what was noted of all candidate files."""
    n_files = planned.outline.n_files
    n_all = n_files + (carried.n_files if carried else 0)
    arrivals, survivors = (
        _read(checked, (layout.checks(i) for i in numbers)) for numbers in (range(n_files), range(n_files, n_all))
    )
    return Inspected.of(arrivals, survivors)


def _read(written: Pieces, names: Iterable[str]) -> Iterator[Notes]:
    types, every = note_types(), list(names)
    for first in range(0, len(every), _AT_ONCE):
        for data in written.read_all(every[first : first + _AT_ONCE]):
            yield Notes.from_bytes(data, types)


def run_checks(
    run: Run, planned: Planned, files: Inspected, parts: Notes, used: Pieces, carried: CarriedFiles | None = None
) -> list[Check]:
    """Have the gate compare what was noted of the files with what was noted of the input.

    Args:
        run: in whose folder it stays what the files show of what is demanded besides k.
        planned: what is released.
        files: what was noted of them.
        parts: the same of the input.
        used: the distributions that workers were told.
        carried: the files of survivors, which come after those of arrivals.
    """
    promise = promise_of(planned, read_distributions(used, run.key))
    if carried is not None:
        promise = replace(promise, carried=carried.rows, in_series=True)
    checks = make_checks(promise, files, parts)
    shown = _shown(files, promise)
    if not shown or not files.whole.readable:
        return checks
    name = run.layout.protection_figures()
    run.put(name, to_json(shown), "validate")
    private = {limit.name for limit in limits()}
    where = f"; by how much is in {name} of the work area"
    return [
        replace(check, detail=check.detail + where) if check.name in private and not check.passed else check
        for check in checks
    ]


def _shown(files: Inspected, promise: Promise) -> dict[str, dict[str, float | None]]:
    """What all files show of what is demanded; private, as it says more than that demands hold."""
    demanded = [limit for limit in limits() if limit.limits(promise.protection)]
    return {
        limit.name: limit.shares(files.arrivals.by_key.get(limit.key, limit.nothing(promise))) for limit in demanded
    }
