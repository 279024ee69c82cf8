"""Rows of the blocks that are drawn to try other settings on: collected from an input part while it is read.

A release that is to have a page collects them while it scatters its rows, so that its input is read twice and no more;
a plan or a comparison, which scatters none, reads the parts that have some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints, UInt64s
from microagg_core.blocks.blanking import Move
from microagg_core.blocks.cuts import with_record_numbers
from microagg_core.blocks.routes import Routes, hash_keys, missing_pattern
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import DataError
from microagg_core.release.planned import PLANNED, Planned, load_planned
from microagg_core.release.records import PartBatch, records_of_part
from microagg_core.release.step import CompanionStep, JsonOutput, Step, TableOutput, Work
from microagg_core.release.steps.keys import PART_KEYS, read_own_keys
from microagg_core.release.steps.survey import blocking_columns
from microagg_core.release.wiring import StepsDone


@dataclass(frozen=True)
class Cut:
    """A cut on the way to a piece of a stratum: records with ``x[attribute] <= threshold`` lie to its left."""

    attribute: int
    threshold: float
    goes_left: bool


@dataclass(frozen=True)
class DrawnBlock:
    """A block that is drawn, or a piece of one, and the part of all records that it stands for."""

    stratum: int
    #: Of the stratum's records those behind these cuts; without cuts all.
    path: tuple[Cut, ...]
    #: The number of the block, which makes its seed.
    block: int
    label: int
    #: Records that it stands for, but for a factor.
    weight: float
    #: Where cells are blanked, what its records are released without; and the place of the block of which it takes the
    #: nearest records, and how many.
    pattern: int | None = None
    source: int = -1
    takes: int = 0


@dataclass(frozen=True)
class Draft:
    """Blocks that are drawn for one k, of those that a plan with this k would have."""

    k: int
    hash_seed: int
    #: Released by a plan with this k, and not.
    records: int
    withheld: int
    #: Whether it is everything that would be released.
    is_whole: bool
    blocks: tuple[DrawnBlock, ...]

    @cached_property
    def of_stratum(self) -> dict[int, list[int]]:
        """The blocks of each stratum, by their places."""
        places: dict[int, list[int]] = {}
        for place, block in enumerate(self.blocks):
            places.setdefault(block.stratum, []).append(place)
        return places

    @property
    def patterns(self) -> list[int] | None:
        """What the records of each block are released without; None where that is what they lack."""
        known = [block.pattern for block in self.blocks if block.pattern is not None]
        return known if len(known) == len(self.blocks) else None

    @property
    def moves(self) -> list[Move]:
        """Records that move from block to block, by their places."""
        return [Move(block.source, place, block.takes) for place, block in enumerate(self.blocks) if block.takes]


#: Blocks that are drawn, and the strata of their keys, draft by draft; and the rows that a part has of them.
DRAFTS = JsonOutput("drafts", tuple[Draft, ...])
DRAFT_ROUTES, DRAWN_ROWS = TableOutput("draft-routes"), TableOutput("drawn-rows")


def know_drafts(done: StepsDone, drafts: Sequence[Draft], routes: Sequence[pa.Table]) -> None:
    """Write drafts, and the strata of their keys (``hash``, ``stratum``), where workers find them."""
    done.know(DRAFTS, tuple(drafts))
    done.know(DRAFT_ROUTES, *routes)


def read_drawn_rows(work: Work, draft: int) -> tuple[pa.Table, Ints]:
    """Read the rows of a draft from all parts, and the place of each row's block."""
    of_parts = [table for _, table in work.each(DRAWN_ROWS)]
    drawn = [table.filter(pa.array(np.asarray(table[_place(draft)]) >= 0)) for table in of_parts]
    if not sum(table.num_rows for table in drawn):
        raise DataError("none of the records that were drawn is there; the input changed, start again")
    table = pa.concat_tables(drawn)
    return table, np.asarray(table[_place(draft)])


def _place(draft: int) -> str:
    return f"place{draft}"


class DrawnRows:
    """Collect the drawn rows of an input part, batch by batch; none, where its task was told of no drafts."""

    def __init__(self, work: Work, planned: Planned) -> None:
        self._work, self._planned = work, planned
        self._tables: list[pa.Table] = []
        self._drafts: list[tuple[Draft, Routes]] = []
        if not work.has(DRAFTS):
            return
        drafts = work.load(DRAFTS)
        for draft, table in zip(drafts, work.read_all(DRAFT_ROUTES), strict=True):
            hashes, stratum = (np.asarray(table[name]) for name in ("hash", "stratum"))
            self._drafts.append((draft, Routes(hashes, stratum, np.zeros_like(stratum), pa.table({}))))
        if not any(self._has_key_of(draft, routes) for draft, routes in self._drafts):
            self._drafts = []

    def _has_key_of(self, draft: Draft, routes: Routes) -> bool:
        return bool(np.isin(read_own_keys(self._work, draft.hash_seed), routes.hashes).any())

    @property
    def are_there(self) -> bool:
        """Whether the part has a key of a drawn block, and so may have rows of it."""
        return bool(self._drafts)

    def add(self, batch: PartBatch) -> None:
        if not self._drafts or not batch.table.num_rows:
            return
        context, table = self._planned.context, batch.table
        ticks, missing = self._planned.encoding.ticks([table[kind.name] for kind in context.kinds])
        columns, pattern = blocking_columns(table, context), missing_pattern(missing)
        hashes: dict[int, UInt64s] = {}
        strata = []
        for draft, routes in self._drafts:
            if draft.hash_seed not in hashes:
                hashes[draft.hash_seed] = hash_keys(columns, pattern, draft.hash_seed)
            strata.append(np.append(routes.stratum, -1)[routes.find(hashes[draft.hash_seed])])
        rows = np.flatnonzero((np.stack(strata) >= 0).any(axis=0))
        encoding = self._planned.encoding
        points = encoding.for_cuts(encoding.offsets_of([values[rows] for values in ticks]), missing[rows])
        records = batch.records[rows]
        places = [
            _places(draft, stratum[rows], points, records)
            for (draft, _), stratum in zip(self._drafts, strata, strict=True)
        ]
        kept = np.flatnonzero((np.stack(places) >= 0).any(axis=0))
        if len(kept):
            self._tables.append(self._columns(table, rows[kept], records[kept], [of[kept] for of in places]))

    def _columns(self, table: pa.Table, rows: Ints, records: Ints, places: list[Ints]) -> pa.Table:
        schema = self._planned.context.schema
        columns = {RECORD: pa.array(records)}
        columns |= {_place(j): pa.array(of_draft.astype(np.int32)) for j, of_draft in enumerate(places)}
        for letter, of_role in (("q", schema.quasi_identifiers), ("c", schema.confidential)):
            for j, column in enumerate(of_role):
                columns[f"{letter}{j}"] = one_array(table[column.name]).take(pa.array(rows))
        return pa.table(columns)

    def end(self) -> int:
        """Write the rows; they count as rows of no task."""
        if self._tables:
            self._work.write(DRAWN_ROWS, pa.concat_tables(self._tables))
        return 0


def _places(draft: Draft, stratum: Ints, points: Floats, records: Ints) -> Ints:
    """Find the block of each record by its place in the draft; -1 for a record of none."""
    places = np.full(len(records), -1, dtype=np.int64)
    rows = np.flatnonzero(stratum >= 0)
    rows = rows[np.argsort(stratum[rows], kind="stable")]
    numbers, first = np.unique(stratum[rows], return_index=True)
    for number, of_stratum in zip(numbers.tolist(), np.split(rows, first[1:]), strict=True):
        Z: Floats | None = None
        for place in draft.of_stratum[number]:
            inside = np.ones(len(of_stratum), dtype=np.bool_)
            for cut in draft.blocks[place].path:
                if Z is None:
                    Z = with_record_numbers(points[of_stratum], records[of_stratum])
                inside &= (Z[:, cut.attribute] <= cut.threshold) == cut.goes_left
            places[of_stratum[inside]] = place
    return places


def draw_rows(work: Work) -> int:
    """Write the drawn rows of an input part; a part that has none is not read."""
    planned, number = load_planned(work), work.number
    context, drawn, n_rows = planned.context, DrawnRows(work, planned), 0
    if drawn.are_there:
        first = planned.survey.first_record(number)
        for batch in records_of_part(work, context, number, first, context.schema.travelling):
            drawn.add(batch)
            n_rows += batch.whole.num_rows
    drawn.end()
    return n_rows


DRAW_ROWS = Step(
    name="draw-rows",
    stage="report",
    per="part",
    does=draw_rows,
    reads_input=True,
    knows=(*PLANNED, DRAFTS, DRAFT_ROUTES),
    same=(PART_KEYS,),
    writes=(DRAWN_ROWS,),
)
COLLECT_ROWS = CompanionStep(step="scatter", starts=DrawnRows, knows=(DRAFTS, DRAFT_ROUTES), writes=(DRAWN_ROWS,))
