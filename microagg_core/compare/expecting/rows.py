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
from microagg_core.data.tables.slices import RECORD
from microagg_core.release.planned import PLANNED, Planned, Routed, load_planned, route_batch
from microagg_core.release.records import records_of_part
from microagg_core.release.step import JsonOutput, Step, TableOutput, Work
from microagg_core.release.steps.keys import PART_KEYS, read_own_keys
from microagg_core.release.wiring import StepsDone

#: The unit of a row, by its place in the draft.
UNIT = "unit"
#: What is looked at; what is tried on it, one for each task; and the keys of each draft.
DRAFTS = JsonOutput("drafts", tuple[LookAhead, ...])
LOOKS = JsonOutput("looks", tuple[CellLook, ...])
DRAFT_ROUTES = TableOutput("draft-routes")
#: The rows that a part has of a draft, whose number is in their metadata.
DRAFT_ROWS = TableOutput("draft-rows")
_DRAFT = b"draft"


def know_drafts(done: StepsDone, drawn: Drafts) -> None:
    """Write what is looked at where workers find it."""
    done.know(DRAFTS, tuple(drawn.drafts))
    done.know(LOOKS, tuple(drawn.looks))
    done.know(DRAFT_ROUTES, *drawn.routes)


def rows_of_draft(work: Work, draft: int) -> list[pa.Table]:
    """Read the rows that all parts have of a draft."""
    tables = [table for _, table in work.reads.each(DRAFT_ROWS)]
    return [table for table in tables if int(table.schema.metadata[_DRAFT]) == draft]


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


def draw_rows(work: Work) -> int:
    """Write the rows that an input part has of what is looked at."""
    plan, drafts = load_planned(work), work.load(DRAFTS)
    routes = work.reads.read_all(DRAFT_ROUTES)
    looked = [_Looked.of(draft, of_draft) for draft, of_draft in zip(drafts, routes, strict=True)]
    of_drafts: list[list[pa.Table]] = [[] for _ in drafts]
    if any(len(np.intersect1d(read_own_keys(work, of.draft.hash_seed), of.routes.hashes)) for of in looked):
        for j, rows in _rows_of_part(work, plan, looked):
            of_drafts[j].append(rows)
    for j, tables in enumerate(of_drafts):
        if tables:
            work.write(DRAFT_ROWS, pa.concat_tables(tables).replace_schema_metadata({_DRAFT: str(j)}))
    return sum(rows.num_rows for tables in of_drafts for rows in tables)


DRAW_ROWS = Step(
    name="draw-rows",
    stage="plan",
    per="part",
    does=draw_rows,
    reads_input=True,
    knows=(*PLANNED, DRAFTS, DRAFT_ROUTES),
    same=(PART_KEYS,),
    writes=(DRAFT_ROWS,),
)


def _rows_of_part(work: Work, plan: Planned, looked: list[_Looked]) -> Iterator[tuple[int, pa.Table]]:
    """The part's rows, batch by batch, each with the place of its draft."""
    context, first = plan.context, plan.survey.first_record(work.number)
    for batch in records_of_part(work, context, work.number, first, context.schema.travelling):
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
