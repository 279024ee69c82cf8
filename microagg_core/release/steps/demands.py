"""Demands besides k, for who makes groups: codes of confidential values, and their distributions over the release.

The scatter step counts the values, the flow adds the counts up and writes them where workers find them, and the gate
counts those of the files again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.blocks.masking import GroupingRules, Mend, Protect
from microagg_core.blocks.units import UnitRows, points_of_units
from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.errors import DataError
from microagg_core.group.points import Points
from microagg_core.inspect.contract import UNIT
from microagg_core.inspect.demand import Demand, Protection
from microagg_core.inspect.distributions import Distribution, distinct_values, distributions_in, table_of
from microagg_core.inspect.protect.groups import (
    BlockDemands,
    block_demands,
    groups_of_units,
    mended_groups,
    protected_groups,
)
from microagg_core.release.context import Context
from microagg_core.release.step import Output, Work

#: For each confidential column, how its values are distributed over the records that are released; None where there are
#: too many distinct values, see :mod:`microagg_core.inspect.distributions`.
DISTRIBUTIONS = Output[tuple[Distribution | None, ...]](
    "distributions",
    lambda columns: to_bytes(table_of(columns)),
    lambda data: distributions_in(read_slice(data)),
    "arrows",
)
#: So many ways of putting rows of units side by side are tried where the most alike cannot hold a demand.
_ARRANGEMENTS = 50
#: What helps where a block cannot hold a demand.
_FEWER_BLOCKS = "block by fewer columns, or raise blocks.max_records where one blocking key has several blocks"


def protection_of(context: Context) -> Protection:
    return Protection.of_spec(context.spec.protect, (column.name for column in context.schema.confidential))


def needs_protection(context: Context) -> bool:
    """Tell whether groups may have to be changed for what is demanded of them."""
    return bool(protection_of(context).of_groups) or context.schema.weight is not None or context.spec.parts_units


@dataclass(frozen=True)
class PartitionDemands:
    """The demands on the groups of one partition, and the codes of its records' values."""

    whole: BlockDemands
    weight: str | None
    #: Where each group has to have rows of k units, and nothing else: with which effort and seed it is made so.
    apart: tuple[str | float, int] | None = None

    @classmethod
    def of(cls, work: Work, context: Context, table: pa.Table) -> PartitionDemands | None:
        """Those on the rows of a partition, with its columns q0, q1, ... and c0, c1, ...; None where there are none.

        Where rows of a unit are released one by one, groups need k units: their numbers are as confidential values.
        """
        is_close = any(demand.t is not None for demand in protection_of(context).of_groups)
        used = work.load(DISTRIBUTIONS) if is_close else ()
        return cls.among(context, table, used)

    @classmethod
    def among(cls, context: Context, table: pa.Table, used: Sequence[Distribution | None]) -> PartitionDemands | None:
        """Code rows where it is known how confidential columns are distributed, as far as that is needed."""
        demands, kinds = protection_of(context).of_groups, context.kinds
        weight = next((j for j, kind in enumerate(kinds) if kind.is_weight), None)
        if UNIT in table.column_names:
            units = [np.asarray(table[UNIT]) + 1]
            how = context.spec.effort, context.spec.seed
            return cls(block_demands([Demand(UNIT, context.spec.k)], units, [None]), None, how)
        if (not demands and weight is None) or not table.num_rows:
            return None
        weights = None if weight is None else kinds[weight].ticks(table[f"q{weight}"])[0]
        place = {column.name: j for j, column in enumerate(context.schema.confidential)}
        form, codes, wholes = released_format(context.spec.output), [], []
        for demand in demands:
            j = place[demand.column]
            released = form.released_form(table.select([f"c{j}"]))[f"c{j}"]
            wholes.append(used[j] if used else None)
            codes.append(demand.codes(released, wholes[-1]))
        return cls(block_demands(demands, codes, wholes, weights), context.schema.weight)

    def of_units(self, start: int, end: int, units: UnitRows, spec: GroupingRules) -> UnitRows:
        """Have the groups of the block of units of several rows hold the demands, in each position of their rows."""
        demands = self.whole.taken(np.arange(start, end))

        def protect(rows: Points, labels: Ints) -> Ints:
            asked, positions = self._arranged(demands, labels % units.n, units.n)
            points, groups = points_of_units(rows, units.n, units.once, positions), labels[:: units.n] // units.n
            if asked.demands:
                groups = protected_groups(points, groups, spec.k, asked, spec.effort, spec.seed)[1]
            else:
                groups = mended_groups(points, groups, spec.k, asked)
            return np.repeat(groups, units.n) * units.n + positions

        return replace(units, protect=protect)

    def _arranged(self, demands: BlockDemands, positions: Ints, size: int) -> tuple[BlockDemands, Ints]:
        """Find positions of rows within units in which the demands can be held: the given ones, or others by chance."""
        units, draw, column = np.arange(len(positions)) // size, np.random.default_rng(0), ""
        for _ in range(_ARRANGEMENTS):
            of_positions = demands.side_by_side(np.argsort(units * size + positions).reshape(-1, size))
            of_positions.refuse_dominated(self.weight, f"{_FEWER_BLOCKS}, or trim the weight")
            impossible = of_positions.impossible()
            if impossible is None:
                return of_positions, positions
            column = impossible.column
            positions = np.argsort(draw.random((len(positions) // size, size)), axis=1).ravel()
        raise DataError(
            f"protect.{column}: the rows of units of {size} rows that can stand for each other do not hold "
            f"this in a block, so that no groups of these units can; demand less, {_FEWER_BLOCKS}"
        )

    def of_block(self, start: int, end: int) -> tuple[Protect | None, Mend | None]:
        """Have the groups of the block with these rows hold the demands: made so, or mended for the rule of weights."""
        demands = self.whole.taken(np.arange(start, end))
        if self.apart:
            effort, seed = self.apart
            is_needed = len(np.unique(demands.codes[0])) < end - start
            return None, partial(groups_of_units, demands=demands, effort=effort, seed=seed) if is_needed else None
        impossible = demands.impossible()
        if impossible is not None:
            raise DataError(_impossible(impossible, demands))
        demands.refuse_dominated(self.weight, f"{_FEWER_BLOCKS}, or trim the weight")
        if not demands.demands:
            return None, partial(mended_groups, demands=demands)
        return partial(protected_groups, demands=demands), None


def _impossible(demand: Demand, demands: BlockDemands) -> str:
    one_group = np.zeros(len(demands.codes[0]), dtype=np.int64)
    codes = demands.codes[demands.demands.index(demand)]
    if distinct_values(codes, one_group)[0] < demand.distinct:
        return (
            f"protect.{demand.column}.distinct: a block has fewer than {demand.distinct} distinct values of this "
            f"column, so that no groups of it can have them; demand less, {_FEWER_BLOCKS}"
        )
    return (
        f"protect.{demand.column}.t: the values of a block differ from the whole release's by more than "
        f"{demand.t:g}, so that no groups of it can be nearer; raise t, {_FEWER_BLOCKS}"
    )
