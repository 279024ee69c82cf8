"""Grouping: what is looked at, grouped as a release with a cell's settings would group it; and what that takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.blocks.masking import (
    BlockOutcome,
    audit_row,
    block_statistics,
    loss_scale,
    run_block,
    squares_lost,
)
from microagg_core.compare.expecting.cells import CellCosts
from microagg_core.compare.expecting.drafts import CellLook, LookAhead
from microagg_core.compare.expecting.rows import UNIT, rows_name
from microagg_core.data.formats.writing import released_format
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.slices import read_slice
from microagg_core.errors import DataError
from microagg_core.group.metrics.moments import Moments
from microagg_core.group.metrics.statistics import LossStatistics
from microagg_core.inspect.distributions import Distribution
from microagg_core.release.steps.protecting import PartitionDemands
from microagg_core.release.steps.routing import Planned
from microagg_core.release.steps.work import Task
from microagg_core.spec.release import ReleaseSpec

#: What is grouped before the clock starts, so that kernels are loaded by then: as much as takes so long, by the model.
_LOADING_SECONDS = 0.5


@dataclass(frozen=True)
class RowsOfUnits:
    """The rows of a draft by unit, units that have at least k of them."""

    table: pa.Table
    #: The place of each row's unit in the draft.
    unit: Ints
    ticks: list[NDArray[Any]]
    missing: NDArray[np.bool_]
    #: The units that have rows, by their places, and the first row of each.
    places: Ints
    first: Ints

    @classmethod
    def of(cls, task: Task, plan: Planned, draft: LookAhead, number: int) -> RowsOfUnits:
        """Gather those of a draft, of all parts.

        Raises:
            DataError: there are none.
        """
        pieces = task.pieces
        names = [rows_name(task.layout, number, part) for part in range(len(plan.context.parts))]
        data = pieces.read_all(name for name in names if pieces.has(name))
        if not data:
            raise DataError("none of the records that were looked at is there; the input changed, start again")
        table = pa.concat_tables([read_slice(of_part) for of_part in data])
        unit = np.asarray(table[UNIT])
        # The size of a piece is known from a sample: it may have fewer records than were thought.
        enough = np.bincount(unit, minlength=len(draft.units))[unit] >= draft.k
        order = np.flatnonzero(enough)
        order = order[np.argsort(unit[order], kind="stable")]
        if not len(order):
            raise DataError(f"no block that was looked at has k={draft.k} records")
        table = _as_released(plan, table.take(pa.array(order)).combine_chunks())
        ticks, missing = plan.encoding.ticks([table[f"q{j}"] for j in range(len(plan.encoding.kinds))])
        return cls(table, unit[order], ticks, missing, *np.unique(unit[order], return_index=True))

    def scale(self, plan: Planned, draft: LookAhead) -> Encoding:
        """The standardization of losses: that of the records that are released, as far as it is known."""
        encoding = plan.encoding
        moments: Sequence[Moments] = plan.survey.moments
        if draft.is_whole:
            columns = zip(encoding.kinds, self.ticks, self.missing.T, strict=True)
            moments = [kind.moments(ticks[~missing]) for kind, ticks, missing in columns]
        return loss_scale(encoding, moments)

    @property
    def sizes(self) -> Ints:
        """Rows of each unit."""
        return np.diff(np.append(self.first, len(self.unit)))

    def blocks(self) -> Iterator[tuple[int, slice]]:
        """The place of each unit, and its rows."""
        ends = [*self.first[1:], len(self.unit)]
        for place, start, end in zip(self.places.tolist(), self.first, ends, strict=True):
            yield place, slice(int(start), int(end))


def _as_released(plan: Planned, table: pa.Table) -> pa.Table:
    """Confidential values as files have them."""
    form = released_format(plan.context.spec.output)
    for j in range(len(plan.context.schema.confidential)):
        name = f"c{j}"
        table = table.set_column(table.column_names.index(name), name, form.released_form(table.select([name]))[name])
    return table


@dataclass(frozen=True)
class GroupedUnits:
    """What units lose, one by one, what their rows would be released as, and what that took."""

    statistics: list[LossStatistics]
    #: As lines of the audit.
    lines: list[dict[str, Any]]
    #: Of all quasi-identifiers, in ticks.
    released: list[NDArray[Any]]
    #: For each other seed, what units lose.
    lost_otherwise: list[Floats]
    #: On one core; by the clock, and by the models.
    seconds: float
    model_seconds: float

    @property
    def lost(self) -> Floats:
        """The sum of squared errors of each unit."""
        return np.array([float(of_unit.sse.sum()) for of_unit in self.statistics])


def group_units(plan: Planned, look: CellLook, draft: LookAhead, rows: RowsOfUnits, scale: Encoding) -> GroupedUnits:
    """Group all units by a cell's settings.

    Raises:
        DataError: a release with them would be refused.
    """
    spec = look.cell.applied(plan.context.spec)
    by_cell = _ByCell(plan, look, draft, rows, scale, spec, _demands(plan, rows))
    by_cell.load_kernels()
    stretch = by_cell.steady.least_stretch(scale)
    statistics, lines, released = [], [], list[list[NDArray[Any]]]()
    seconds = 0.0
    for place, mine in rows.blocks():
        outcome = by_cell.grouped(place, mine, spec.seed, proving=look.proves)
        seconds += outcome.seconds
        ticks, missing = [values[mine] for values in rows.ticks], rows.missing[mine]
        figures = block_statistics(plan.encoding, scale, ticks, outcome, missing)
        statistics.append(figures)
        lines.append(audit_row(draft.units[place].block, outcome, figures, stretch))
        released.append(outcome.released)
    costs = by_cell.costs
    of_rows = costs.seconds if look.proves else costs.grouping_seconds
    return GroupedUnits(
        statistics,
        lines,
        [np.concatenate(column) for column in zip(*released, strict=True)],
        [by_cell.lost(seed) for seed in look.seeds[1:]],
        seconds,
        sum(of_rows(n) for n in rows.sizes.tolist()),
    )


def _demands(plan: Planned, rows: RowsOfUnits) -> PartitionDemands | None:
    """What the spec demands of the rows' groups, beside the values of all rows that are looked at."""
    n_columns = len(plan.context.schema.confidential)
    if plan.context.spec.protect is None:
        return None
    used = [Distribution.of(rows.table[f"c{j}"]) for j in range(n_columns)]
    return PartitionDemands.among(plan.context, rows.table, used)


@dataclass(frozen=True)
class _ByCell:
    """A cell's settings, and the rows that are grouped by them."""

    plan: Planned
    look: CellLook
    draft: LookAhead
    rows: RowsOfUnits
    scale: Encoding
    spec: ReleaseSpec
    demands: PartitionDemands | None

    @property
    def steady(self) -> Encoding:
        """The scale for refinement."""
        return self.scale.steadied()

    @property
    def costs(self) -> CellCosts:
        """What blocks cost."""
        return CellCosts(self.look.cell, len(self.plan.encoding.kinds))

    def grouped(self, place: int, mine: slice, seed: int, proving: bool) -> BlockOutcome:
        """One unit, or some of its rows, by a seed."""
        spec = self.spec if seed == self.spec.seed else self.spec.model_copy(update={"seed": seed})
        ticks, missing = self._of(mine)
        protect = self.demands.of_block(mine.start, mine.stop) if self.demands else None
        block = self.draft.units[place].block
        return run_block(spec, self.plan.encoding, self.steady, ticks, missing, block, protect, proving=proving)

    def lost(self, seed: int) -> Floats:
        """What units lose by another seed."""
        lost = []
        for place, mine in self.rows.blocks():
            outcome = self.grouped(place, mine, seed, proving=False)
            ticks, missing = self._of(mine)
            offsets = self.plan.encoding.offsets_of(ticks)
            lost.append(squares_lost(self.plan.encoding, self.scale, offsets, outcome.released, missing))
        return np.array(lost)

    def load_kernels(self) -> None:
        """Group some rows of the largest unit for nothing, so that no kernel is loaded while a clock runs."""
        place, mine = max(self.rows.blocks(), key=lambda block: block[1].stop - block[1].start)
        n = mine.stop - mine.start
        while n > 4 * self.look.cell.k and self.costs.grouping_seconds(n) > _LOADING_SECONDS:
            n //= 2
        # Of some rows more may be demanded than they can hold.
        settings = _ByCell(self.plan, self.look, self.draft, self.rows, self.scale, self.spec, None)
        settings.grouped(place, slice(mine.start, mine.start + n), self.spec.seed, proving=False)

    def _of(self, mine: slice) -> tuple[list[NDArray[Any]], Bools]:
        return [values[mine] for values in self.rows.ticks], self.rows.missing[mine]
