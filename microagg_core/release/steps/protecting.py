"""Protection beyond k: what the spec demands of confidential columns, for who makes groups and for the gate.

The gate knows nothing of groups. It takes the records of a released combination for one, counts their confidential
values in the candidate files, and compares the distances of these from the whole release with what is demanded. Two
groups that rounding has made one are no worse together than the worse of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.blocks.masking import Protect
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import DataError
from microagg_core.inspect.check import Check
from microagg_core.inspect.demands import SLACK, Demand, codes_of, combinations_of
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.protect.block import BlockDemands, block_demands
from microagg_core.inspect.protect.protecting import protected_groups
from microagg_core.inspect.risk.candidates import Candidates
from microagg_core.inspect.risk.exposing import OtherColumns, expose
from microagg_core.inspect.risk.inference import distinct_values
from microagg_core.plain import from_json, to_json
from microagg_core.release.steps.candidate import Candidate
from microagg_core.release.steps.pieces import Piece, Pieces
from microagg_core.release.steps.routing import Planned
from microagg_core.release.steps.value_counts import load_distributions
from microagg_core.release.steps.work import Context, Run, Task
from microagg_core.spec.protect import ColumnDemand
from microagg_core.store.values_layout import ValuesLayout

#: What helps where a block cannot hold a demand.
_FEWER_BLOCKS = "block by fewer columns, or raise blocks.max_records where one blocking key has several blocks"


def column_demands(context: Context) -> dict[str, ColumnDemand]:
    """What is demanded of each confidential column of which anything is, in the file's order."""
    protect = context.spec.protect
    return {} if protect is None else protect.of_columns(column.name for column in context.schema.confidential)


def demands_of(context: Context) -> tuple[Demand, ...]:
    """What of it every group has to hold."""
    return tuple(
        Demand(name, demand.distinct or 0, demand.t)
        for name, demand in column_demands(context).items()
        if demand.distinct is not None or demand.t is not None
    )


# --- Groups ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionDemands:
    """The demands on the groups of one partition, and the codes of its records' values."""

    whole: BlockDemands

    @classmethod
    def of(cls, task: Task, context: Context, table: pa.Table) -> PartitionDemands | None:
        """Those on the rows of a partition, with confidential columns c0, c1, ...; None where nothing is demanded."""
        return cls.among(context, table, _distributions(task, demands_of(context)))

    @classmethod
    def among(cls, context: Context, table: pa.Table, used: Sequence[Distribution | None]) -> PartitionDemands | None:
        """The same, where it is known how confidential columns are distributed, as far as that is needed."""
        demands = demands_of(context)
        if not demands or not table.num_rows:
            return None
        place = {column.name: j for j, column in enumerate(context.schema.confidential)}
        form, codes, wholes = released_format(context.spec.output), [], []
        for demand in demands:
            j = place[demand.column]
            released = form.released_form(table.select([f"c{j}"]))[f"c{j}"]
            wholes.append(used[j] if used else None)
            codes.append(_codes(demand, released, wholes[-1]))
        return cls(block_demands(demands, codes, wholes))

    def of_block(self, start: int, end: int) -> Protect:
        """Have the groups of the block with these rows hold the demands.

        Raises:
            DataError: no groups of the block can hold them.
        """
        demands = self.whole.taken(np.arange(start, end))
        impossible = demands.impossible()
        if impossible is not None:
            raise DataError(_impossible(impossible, demands))
        return partial(protected_groups, demands=demands)


def _impossible(demand: Demand, demands: BlockDemands) -> str:
    """Why a block cannot hold a demand, and what to do."""
    one_group = np.zeros(len(demands.codes[0]), dtype=np.int64)
    codes = demands.codes[demands.demands.index(demand)]
    if distinct_values(codes, one_group)[0] < demand.distinct:
        return (
            f"protect.{demand.column}.distinct: a block has fewer than {demand.distinct} distinct values of this "
            f"column, so that no groups of it can have them; demand less, {_FEWER_BLOCKS}"
        )
    return (
        f"protect.{demand.column}.t: the values of a block differ from the whole release's by more than "
        f"{demand.closeness:g}, so that no groups of it can be nearer; raise t, {_FEWER_BLOCKS}"
    )


def _distributions(task: Task, demands: Sequence[Demand]) -> tuple[Distribution | None, ...]:
    """How confidential columns are distributed, where a demand needs to know."""
    return load_distributions(task) if any(demand.closeness is not None for demand in demands) else ()


def _codes(demand: Demand, values: pa.ChunkedArray, whole: Distribution | None) -> Ints:
    """A number for each value; where closeness is demanded, its place among the values of the whole."""
    if demand.closeness is not None and whole is not None:
        return whole.codes(values)
    return codes_of(values)


# --- The gate: a worker's half ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnNotes:
    """What a candidate file shows of one column, over its released combinations."""

    column: str
    #: The fewest distinct values, and the greatest distance from the whole; None where that is not known.
    distinct: int
    distance: float | None
    #: Records of combinations that have one value at most.
    certain: int


@dataclass(frozen=True)
class ProtectionNotes:
    """What a candidate file shows of all that is demanded; ``links`` are expected correct ones, None if not known."""

    rows: int
    columns: tuple[ColumnNotes, ...]
    links: float | None


def note_protection(task: Task, plan: Planned, candidate: Candidate) -> tuple[Piece, ...]:
    """Write what a candidate file shows, for :class:`Protection`; nothing where nothing is demanded."""
    context, table = plan.context, candidate.table
    if context.spec.protect is None:
        return ()
    columns = _note_columns(task, context, table) if table.num_rows else ()
    wants_links = context.spec.protect.linkage is not None
    links = _expected_links(plan, candidate) if wants_links and table.num_rows else 0.0
    notes = ProtectionNotes(table.num_rows, columns, links)
    return (task.put(ValuesLayout(task.run.key).protection(task.number), to_json(notes)),)


def _note_columns(task: Task, context: Context, table: pa.Table) -> tuple[ColumnNotes, ...]:
    keys = [table[column.name] for column in (*context.schema.blocking, *context.schema.quasi_identifiers)]
    labels = combinations_of(keys, table.num_rows)
    used = _distributions(task, demands_of(context))
    place = {column.name: j for j, column in enumerate(context.schema.confidential)}
    return tuple(
        _note_column(Demand(name, of.distinct or 0, of.t), table[name], labels, used[place[name]] if used else None)
        for name, of in column_demands(context).items()
    )


def _note_column(demand: Demand, values: pa.ChunkedArray, labels: Ints, whole: Distribution | None) -> ColumnNotes:
    distinct, distance = distinct_values(codes_of(values), labels), None
    if demand.closeness is not None and whole is not None:
        codes = whole.codes(values)
        if codes.min() >= 0:  # else nobody counted a value, which is not within any distance
            distance = float(whole.distances(codes, labels).max())
    certain = int(np.bincount(labels)[distinct <= 1].sum())
    return ColumnNotes(demand.column, int(distinct.min()), distance, certain)


def _expected_links(plan: Planned, candidate: Candidate) -> float | None:
    """How many records somebody is expected to link rightly who knows all their quasi-identifiers exactly."""
    blocking = tuple(column.name for column in plan.context.schema.blocking)
    shown = expose(plan.encoding, candidate.table, OtherColumns(blocking, ()), candidate.records, candidate.came)
    if shown.asked is None or not np.isfinite(shown.means).all():  # of which another check says more
        return None
    candidates = Candidates(shown.means, shown.missing, shown.labels, shown.sizes)
    return float(candidates.link(shown.asked.values, shown.groups).correct.sum())


# --- The gate: the flow's half ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProtectionFigures:
    """What all files show; private, as it says more than that demands hold: by column, and of links."""

    columns: dict[str, dict[str, float | None]]
    linkage: float | None


def read_protection(context: Context, checked: Pieces, run_key: str, n_files: int) -> ProtectionFigures | None:
    """What was noted of all files; None where some file has no notes, as it could not be looked at."""
    names = [ValuesLayout(run_key).protection(i) for i in range(n_files)]
    if not all(checked.has(name) for name in names):
        return None
    notes = [one for one in (from_json(ProtectionNotes, data) for data in checked.read_all(names)) if one.rows]
    rows = sum(one.rows for one in notes)
    columns = {}
    for j, name in enumerate(column_demands(context)):
        of = [one.columns[j] for one in notes]
        distances = [one.distance for one in of if one.distance is not None]
        columns[name] = {
            "distinct": min((one.distinct for one in of), default=None),
            "t": max(distances, default=0.0) if len(distances) == len(of) else None,
            "inference": sum(one.certain for one in of) / max(1, rows),
        }
    links = [one.links for one in notes if one.links is not None]
    return ProtectionFigures(columns, math.fsum(links) / max(1, rows) if len(links) == len(notes) else None)


def run_protection_checks(run: Run, plan: Planned, checked: Pieces) -> list[Check]:
    """Have the gate compare what the files show with what is demanded; the figures stay in the work area."""
    context = plan.context
    if context.spec.protect is None:
        return []
    figures = read_protection(context, checked, run.key, plan.outline.n_files)
    if figures is None:
        return []
    name = ValuesLayout(run.key).protection_figures()
    run.put(name, to_json(figures), "validate")
    checks = check_protection(context, figures)
    where = f"; by how much is in {name} of the work area"
    return [one if one.passed else replace(one, detail=one.detail + where) for one in checks]


def check_protection(context: Context, figures: ProtectionFigures) -> list[Check]:
    """A check for each kind of demand; none says by how much it holds, or does not."""
    protect = context.spec.protect
    if protect is None:
        return []
    demands, shown = column_demands(context).items(), figures.columns
    # Without a record there is nothing to hold; with one, a combination may have no value at all.
    least = {name: math.inf if (fewest := of["distinct"]) is None else fewest for name, of in shown.items()}
    few = [
        f"a combination has fewer than {of.distinct} distinct values of {name!r}"
        for name, of in demands
        if of.distinct is not None and least[name] < of.distinct
    ]
    far = [
        f"the values of {name!r} in a combination differ from the whole release's by more than t = {of.t:g}"
        for name, of in demands
        if of.t is not None and not _is_within(shown[name]["t"], of.t + SLACK)
    ]
    certain = [
        f"more than the allowed share of {of.inference:g} of the records have a value of {name!r} that follows from "
        "their combination"
        for name, of in demands
        if of.inference is not None and not _is_within(shown[name]["inference"], of.inference)
    ]
    checks = [
        _check("distinct values", few, [f"at least {of.distinct} of {n!r}" for n, of in demands if of.distinct]),
        _check("closeness", far, [f"{n!r} within t = {of.t:g} of the whole release" for n, of in demands if of.t]),
        _check("inference", certain, ["as the spec allows" for _, of in demands if of.inference is not None][:1]),
    ]
    if protect.linkage is not None:
        allowed = f"more than the allowed share of {protect.linkage:g} of the records are expected to be linked rightly"
        linked = [] if _is_within(figures.linkage, protect.linkage) else [allowed]
        checks.append(_check("linkage", linked, ["as the spec allows"]))
    return [check for check in checks if check is not None]


def _is_within(figure: float | None, most: float) -> bool:
    """Whether a figure is known and not above its limit."""
    return figure is not None and figure <= most


def _check(name: str, broken: list[str], promised: list[str]) -> Check | None:
    """One check; None where nothing of its kind is demanded."""
    if not promised:
        return None
    return Check(name, not broken, "; ".join(broken or promised))


def promises_of(context: Context) -> dict[str, dict[str, Any]]:
    """What the manifest promises: what every combination holds, column by column; limits of figures are private."""
    return {
        name: {key: value for key, value in (("distinct", of.distinct), ("t", of.t)) if value is not None}
        for name, of in column_demands(context).items()
        if of.distinct is not None or of.t is not None
    }
