"""Noting: what the gate learns of the input, which is what the release should hold.

An input part is read twice, by the survey and to be scattered, and the second reading proves to be of the same rows. In
that one the gate takes its notes, of the rows as they were read: all that is made of them afterwards it then compares.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from microagg_core.blocks.routes import Routes
from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.hashing import one_array
from microagg_core.group.metrics.moments import Moments, merge_all
from microagg_core.inspect.checks.contract import InputBatch, Promise
from microagg_core.inspect.checks.means import Means
from microagg_core.inspect.gate import Notes
from microagg_core.plain import from_json, from_plain
from microagg_core.release.steps.pieces import Pieces
from microagg_core.release.steps.routing import Planned, Routed
from microagg_core.store.layout import RunLayout


def promise_of(planned: Planned) -> Promise:
    """What the gate holds the release against."""
    context, survey = planned.context, planned.survey
    withheld = planned.outline.withheld_rows
    n_parts = len(survey.rows_of_parts)
    return Promise(context.schema, planned.encoding.kinds, context.spec.k, survey.arrivals, withheld, n_parts)


def expected_of(planned: Planned, part: int, routes: Routes, released: Routed) -> InputBatch:
    """What the release should hold of some records of an input part."""
    promise = promise_of(planned)
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


def read_notes(written: Pieces, names: Iterable[str]) -> list[Notes]:
    """Notes of files or parts."""
    return [from_json(Notes, data) for data in written.read_all(names)]


def notes_of_input(scattered: Pieces, layout: RunLayout, n_parts: int) -> list[Notes]:
    """What was noted of the parts of the input."""
    return read_notes(scattered, (layout.expected(i) for i in range(n_parts)))


def moments_of_released(notes: Iterable[Notes], n_attributes: int) -> tuple[Moments, ...]:
    """Moments of the quasi-identifiers over the records that are released, merged in part order."""
    noted = [from_plain(Means.note, one.notes[Means.name]) for one in notes if Means.name in one.notes]
    return tuple(merge_all(one.moments[j] for one in noted) for j in range(n_attributes))
