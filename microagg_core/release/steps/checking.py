"""Checking: what workers note for the gate, and what the flow has it decide; the gate is :mod:`microagg_core.inspect`.

An input part is read twice, by the survey and to be scattered, and the second reading proves to be of the same rows. In
that one it is noted what the release should hold. A candidate file is read back with what lies beside it: row by row
the record's private number, and, where the record arrived in this run, its quasi-identifiers as they came in. In one
pass over both all inspections take their notes; those of a file are one object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa

from microagg_core.blocks.routes import Routes
from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import DataError
from microagg_core.group.metrics.moments import EMPTY, Moments
from microagg_core.inspect.check import Check
from microagg_core.inspect.checks.distributions import Distributions
from microagg_core.inspect.checks.means import Means
from microagg_core.inspect.contract import InputBatch, Promise, ReleasedFile
from microagg_core.inspect.distributions import MOST_VALUES_OF_PROTECTED, Distribution
from microagg_core.inspect.gate import (
    Inspected,
    limits,
    make_checks,
    note_file,
    notes_from_bytes,
    notes_to_bytes,
    nothing_noted,
)
from microagg_core.inspect.notes import Notes, total
from microagg_core.release.planned import PLANNED, Planned, Routed, load_planned
from microagg_core.release.step import JsonOutput, Output, Pieces, Run, Step, Work
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS
from microagg_core.release.steps.demands import DISTRIBUTIONS, protection_of


def _notes_output(name: str) -> Output[Notes]:
    return Output(name, notes_to_bytes, notes_from_bytes, "notes")


#: What the release should hold of an input part; what all inspections noted of a candidate file; and what all files
#: show of what is demanded besides k.
EXPECTED, NOTES = _notes_output("expected"), _notes_output("notes")
PROTECTION = JsonOutput("protection", dict[str, dict[str, float | None]])


def promise_of(planned: Planned, distributions: tuple[Distribution | None, ...] = ()) -> Promise:
    """Gather what the release has to keep; ``distributions`` are those of confidential columns, once counted."""
    context, survey, of_values = planned.context, planned.survey, planned.encoding.of_values
    form = released_format(context.spec.output)
    return Promise(
        schema=context.schema,
        encoding=replace(of_values, kinds=tuple(kind.read_from(form.released_form) for kind in of_values.kinds)),
        k=context.spec.k,
        rows=survey.arrivals,
        withheld=planned.outline.withheld_rows,
        blanked=blanked_cells(planned),
        n_parts=len(survey.rows_of_parts),
        protection=protection_of(context),
        distributions=distributions,
        risk=context.spec.risk,
        analyses=tuple(context.spec.analyses),
        edits=context.spec.edits,
        known=context.spec.known,
        seed=context.spec.seed,
        several=context.spec.several is not None,
        rows_tied=not context.spec.parts_units,
    )


def blanked_cells(planned: Planned) -> tuple[int, ...] | None:
    """Count the cells of each quasi-identifier that the plan has blanked."""
    blanked = planned.outline.blanked
    return None if blanked is None else blanked + (0,) * (len(planned.encoding.kinds) - len(blanked))


def expected_of(planned: Planned, promise: Promise, part: int, routes: Routes, released: Routed) -> InputBatch:
    came = tuple(one_array(released.table[kind.name]) for kind in promise.kinds)
    values = tuple(ticks[~released.missing[:, j]] for j, ticks in enumerate(released.ticks))
    expected = _expected_rows(planned, routes, released)
    return InputBatch(promise, part, released.records, expected, came, values, released.units)


def _expected_rows(planned: Planned, routes: Routes, released: Routed) -> pa.Table:
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


def check_file(work: Work) -> int:
    """Re-read one candidate file of arrivals and write what is noted of it."""
    planned = load_planned(work)
    file, notes = inspect_candidate(work, planned, is_carried=False)
    for companion in work.companions(planned) if notes.readable else ():
        companion.add(file)
        companion.end()
    return notes.rows


CHECK_FILES = Step(
    name="check-files",
    stage="validate",
    per="file",
    does=check_file,
    knows=(*PLANNED, DISTRIBUTIONS),
    same=(CANDIDATE, ORIGINS),
    writes=(NOTES,),
    is_gate=True,
)


def inspect_candidate(work: Work, planned: Planned, *, is_carried: bool) -> tuple[ReleasedFile, Notes]:
    """Read a candidate file, vouch for it, as only these bytes may be published, and write what is noted of it."""
    piece, form = work.piece(CANDIDATE), released_format(planned.context.spec.output)
    table = form.read_back(work.read(CANDIDATE), planned.context.schema.released_schema)
    work.vouch(piece)
    origins = work.read(ORIGINS)
    records = np.asarray(origins[RECORD]).astype(np.int64)
    file = ReleasedFile(
        promise_of(planned, work.load(DISTRIBUTIONS)),
        # One chunk a column, or all that look at a column would join its chunks, each anew.
        table.combine_chunks(),
        origins,
        np.zeros(len(records), dtype=np.int64) if is_carried else planned.survey.parts_of(records),
        work.number + (planned.outline.n_files if is_carried else 0),
        is_carried,
    )
    notes = note_file(file)
    work.write(NOTES, notes)
    return file, notes


@dataclass(frozen=True)
class CarriedFiles:
    """The files of survivors, which come after those of arrivals, and how many rows they should have in all."""

    n_files: int
    rows: int


def notes_of_input(written: Pieces) -> Notes:
    """Add up what was noted of the parts of the input."""
    return total(notes for _, notes in written.each(EXPECTED))


def moments_of_released(parts: Notes, n_attributes: int) -> tuple[Moments, ...]:
    """Moments of the quasi-identifiers over the records that are released, from what was noted of the input."""
    moments: tuple[Moments, ...] = parts.by_key.get(Means().key, (EMPTY,) * n_attributes)
    return moments[:n_attributes]


def distributions_of(planned: Planned, parts: Notes) -> tuple[Distribution | None, ...]:
    """Take the distributions of confidential values from what was noted of the input."""
    check, promise = Distributions(), promise_of(planned)
    counted = parts.by_key.get(check.key) or nothing_noted(check, promise)
    distributions = tuple(counts.distribution() for counts in counted)
    for column, distribution in zip(promise.schema.confidential, distributions, strict=True):
        if distribution is None and promise.protection.wants_closeness(column.name):
            raise DataError(
                f"protect.{column.name}.t: the column has more than {MOST_VALUES_OF_PROTECTED} distinct values, whose "
                "distribution nobody can hold; round them, or take t away"
            )
    return distributions


def inspect_files(written: Pieces, planned: Planned) -> Inspected:
    """Add up what was noted of all candidate files: of those of arrivals, which come first, and of survivors."""
    notes, n_files = (notes for _, notes in written.each(NOTES)), planned.outline.n_files
    return Inspected.of(islice(notes, n_files), notes)


def run_checks(
    run: Run,
    planned: Planned,
    files: Inspected,
    parts: Notes,
    used: tuple[Distribution | None, ...],
    carried: CarriedFiles | None = None,
) -> list[Check]:
    """Have the gate compare what was noted of the files with what was noted of the input.

    ``used`` are the distributions that workers were told. What the files show of what is demanded besides k stays in
    the run's folder.
    """
    promise = promise_of(planned, used)
    if carried is not None:
        promise = replace(promise, carried=carried.rows, in_series=True)
    checks = make_checks(promise, files, parts)
    shown = _shown(files, promise)
    if not shown or not files.whole.readable:
        return checks
    name = run.put(PROTECTION, PROTECTION.encode(shown), "check-files").name
    private = {limit.name for limit in limits()}
    where = f"; by how much is in {name} of the work area"
    return [
        replace(check, detail=check.detail + where) if check.name in private and not check.passed else check
        for check in checks
    ]


def _shown(files: Inspected, promise: Promise) -> dict[str, dict[str, float | None]]:
    """Figures of all files on what is demanded; private, as they say more than that demands hold."""
    demanded = [limit for limit in limits() if limit.limits(promise.protection)]
    return {
        limit.name: limit.shares(files.arrivals.by_key.get(limit.key) or nothing_noted(limit, promise))
        for limit in demanded
    }
