"""Rows: what is looked at, read from the input part by part; a part that has none of it is not read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.blocks.cuts import with_record_numbers
from microagg_core.blocks.routes import Routes
from microagg_core.compare.expecting.drafts import CellLook, Drafts, DrawnBlock, LookAhead
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.slices import RECORD, read_slice, to_bytes
from microagg_core.plain import from_json, to_json
from microagg_core.release.steps.keys import read_own_keys
from microagg_core.release.steps.pieces import Piece
from microagg_core.release.steps.reading import records_of_part
from microagg_core.release.steps.routing import Planned, Routed, load_planned, route_batch
from microagg_core.release.steps.work import Receipt, Run, Task
from microagg_core.store.layout import RunLayout

#: The unit of a row, by its place in the draft.
UNIT = "unit"
_MAKER = "expected"


def save_drafts(run: Run, drawn: Drafts) -> tuple[Piece, ...]:
    """Write what is looked at where workers find it."""
    routes = (
        run.put(_routes_name(run.layout, j), to_bytes(routes), _MAKER, 1 + j) for j, routes in enumerate(drawn.routes)
    )
    looks = run.put(_looks_name(run.layout), to_json(drawn.looks), _MAKER, 1 + len(drawn.drafts))
    return (run.put(_drafts_name(run.layout), to_json(drawn.drafts), _MAKER), looks, *routes)


def load_drafts(task: Task) -> tuple[LookAhead, ...]:
    """What is looked at."""
    return from_json(tuple[LookAhead, ...], task.pieces.read(_drafts_name(task.layout)))


def load_looks(task: Task) -> tuple[CellLook, ...]:
    """What is tried on it, one for each task."""
    return from_json(tuple[CellLook, ...], task.pieces.read(_looks_name(task.layout)))


def rows_name(layout: RunLayout, draft: int, part: int) -> str:
    """Where the rows lie that a part has of a draft."""
    return layout.plan_file(f"expected-rows-{draft}-{part:05d}.arrows")


def _drafts_name(layout: RunLayout) -> str:
    return layout.plan_file("expected-drafts.json")


def _looks_name(layout: RunLayout) -> str:
    return layout.plan_file("expected-looks.json")


def _routes_name(layout: RunLayout, draft: int) -> str:
    return layout.plan_file(f"expected-routes-{draft}.arrows")


@dataclass(frozen=True)
class _Looked:
    """A draft as a part's reader needs it."""

    draft: LookAhead
    routes: Routes
    #: The units of each stratum, by their places.
    of_stratum: dict[int, list[int]]

    @classmethod
    def of(cls, draft: LookAhead, routes: pa.Table) -> _Looked:
        stratum = np.asarray(routes["stratum"])
        of_stratum: dict[int, list[int]] = {}
        for place, unit in enumerate(draft.units):
            of_stratum.setdefault(unit.stratum, []).append(place)
        hashes = np.asarray(routes["hash"])
        return cls(draft, Routes(hashes, stratum, np.zeros_like(stratum), pa.table({})), of_stratum)

    def units_of(self, routed: Routed) -> Ints:
        """The unit of each record, by its place; -1 for a record of none."""
        units = np.full(len(routed.records), -1, dtype=np.int64)
        rows = np.flatnonzero(routed.stratum >= 0)
        rows = rows[np.argsort(routed.stratum[rows], kind="stable")]
        strata, first = np.unique(routed.stratum[rows], return_index=True)
        for stratum, mine in zip(strata.tolist(), np.split(rows, first[1:]), strict=True):
            for place in self.of_stratum[stratum]:
                units[_behind_cuts(self.draft.units[place], routed, mine)] = place
        return units


def _behind_cuts(unit: DrawnBlock, routed: Routed, rows: Ints) -> Ints:
    """Those of a stratum's rows that are the unit's."""
    Z = with_record_numbers(routed.points[rows], routed.records[rows]) if unit.path else routed.points[:0]
    inside = np.ones(len(rows), dtype=np.bool_)
    for step in unit.path:
        inside &= (Z[:, step.attribute] <= step.threshold) == step.goes_left
    return rows[inside]


def draw_rows(task: Task) -> Receipt:
    """Write the rows that an input part has of what is looked at."""
    plan, drafts, number = load_planned(task), load_drafts(task), task.number
    pieces = task.pieces
    looked = [
        _Looked.of(draft, read_slice(pieces.read(_routes_name(task.layout, j)))) for j, draft in enumerate(drafts)
    ]
    of_drafts: list[list[pa.Table]] = [[] for _ in drafts]
    if any(len(np.intersect1d(read_own_keys(task, number, of.draft.hash_seed), of.routes.hashes)) for of in looked):
        for j, rows in _rows_of_part(task, plan, looked):
            of_drafts[j].append(rows)
    written = tuple(
        task.put(rows_name(task.layout, j, number), to_bytes(pa.concat_tables(tables)))
        for j, tables in enumerate(of_drafts)
        if tables
    )
    return Receipt(task.step, number, sum(rows.num_rows for tables in of_drafts for rows in tables), written)


def _rows_of_part(task: Task, plan: Planned, looked: list[_Looked]) -> Iterator[tuple[int, pa.Table]]:
    """The part's rows, batch by batch, each with the place of its draft."""
    context, first = plan.context, plan.survey.first_record(task.number)
    for batch in records_of_part(task, context, task.number, first, context.schema.travelling):
        for j, of in enumerate(looked):
            routed = route_batch(context, plan.encoding, of.routes, of.draft.hash_seed, batch, all_known=False)
            units = of.units_of(routed)
            if (units >= 0).any():
                yield j, _columns(plan, routed, units)


def _columns(plan: Planned, routed: Routed, units: Ints) -> pa.Table:
    mine, schema = np.flatnonzero(units >= 0), plan.context.schema
    columns = {RECORD: pa.array(routed.records[mine]), UNIT: pa.array(units[mine])}
    for letter, of_role in (("q", schema.quasi_identifiers), ("c", schema.confidential)):
        for j, column in enumerate(of_role):
            columns[f"{letter}{j}"] = one_array(routed.table[column.name]).take(pa.array(mine))
    return pa.table(columns)
