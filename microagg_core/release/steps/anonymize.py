"""Anonymize: the algorithm on every block of a partition, group means rounded to the released type, and its figures.

The released rows leave as slices for the files they belong to; block by block, sizes and losses go to the audit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.blocks.blanking import BlankedRecords
from microagg_core.blocks.masking import NO_DEMANDS, Blocks, Demanded, loss_scale, mask_blocks
from microagg_core.blocks.plan import PartitionBlocks
from microagg_core.blocks.units import UnitRows
from microagg_core.compiling import PROTECTION, compile_parts, ensure_compiled
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.hashing import hash_rows
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import InternalError
from microagg_core.group.metrics.statistics import LossStatistics
from microagg_core.inspect.contract import UNIT
from microagg_core.release.planned import BLOCKS, PLANNED, Planned, load_blocks, load_planned
from microagg_core.release.step import JsonOutput, Rows, Step, TableOutput, Work
from microagg_core.release.steps.demands import DISTRIBUTIONS, PartitionDemands
from microagg_core.release.steps.scatter import MEASURE_SCALE, SCATTERED, gather_partition

#: The rows of a partition, anonymized, sent to files; its loss; and the sizes and losses of its blocks.
ANONYMIZED, LOSSES, BLOCK_LINES = Rows("anonymized"), JsonOutput("losses", LossStatistics), TableOutput("blocks-audit")

#: The copies of a partition's rows that a worker holds while it works on it.
_COPIES = 6


@dataclass
class _Partition:
    """The rows of a partition, by block and record number."""

    table: pa.Table
    records: Ints
    block: Ints
    ticks: list[NDArray[Any]]
    missing: Bools
    blocks: PartitionBlocks


def _gathered(work: Work, planned: Planned) -> _Partition:
    table = gather_partition(work)
    block = np.asarray(table["block"]).astype(np.int64)
    ticks, missing = planned.encoding.ticks([table[f"q{j}"] for j in range(len(planned.encoding.kinds))])
    blocks = load_blocks(work, planned)
    rows = _Partition(table, np.asarray(table[RECORD]), block, ticks, missing, blocks)
    return rows if blocks.patterns is None else _blanked(planned.encoding, rows, blocks.patterns)


def _blanked(encoding: Encoding, rows: _Partition, patterns: UInt64s) -> _Partition:
    """Blank cells as planned; rows are again by block and record number."""
    first, moves = rows.blocks.first_block, rows.blocks.moves
    made = BlankedRecords.of(encoding, rows.ticks, rows.missing, rows.block - first, patterns, moves)
    if not moves:
        return replace(rows, ticks=made.ticks, missing=made.missing)
    order = np.argsort(made.stratum, kind="stable")
    table, ticks = rows.table.take(pa.array(order)).combine_chunks(), [values[order] for values in made.ticks]
    block, missing = made.stratum[order] + first, made.missing[order]
    return _Partition(table, rows.records[order], block, ticks, missing, rows.blocks)


def anonymize_partition(work: Work) -> int:
    """Anonymize the blocks of one partition."""
    planned = load_planned(work)
    spec = planned.context.spec
    ensure_compiled(spec.algorithm.name, spec.effort, spec.k)
    moments = work.load(MEASURE_SCALE)
    scale = loss_scale(planned.encoding, moments)
    steady = scale.steadied()
    rows = _gathered(work, planned)
    demands = PartitionDemands.of(work, planned.context, rows.table)
    if demands:
        compile_parts((PROTECTION,))
    blocks = Blocks.of(rows.block, rows.ticks, rows.missing)
    unit_rows = np.array([rows.blocks.unit_rows(number) or 1 for number in blocks.numbers.tolist()])
    rows_of_units = dict(zip(blocks.starts.tolist(), unit_rows.tolist(), strict=False))
    units = np.asarray(rows.table[UNIT] if spec.parts_units else _units_of(rows.records, blocks, unit_rows))
    once = np.array(planned.context.schema.per_unit)

    def demanded(of_block: slice) -> Demanded:
        units, within = UnitRows(rows_of_units[of_block.start], once), (of_block.start, of_block.stop)
        if units.n > 1:
            return Demanded(units=demands.of_units(*within, units, spec) if demands else units)
        return Demanded(*demands.of_block(*within)) if demands else NO_DEMANDS

    masked = mask_blocks(spec, planned.encoding, steady, blocks, demanded, proving=spec.bound != "off")
    work.kernel_seconds += masked.seconds
    work.write(LOSSES, masked.statistics(scale))
    work.write(BLOCK_LINES, masked.audit(scale, steady.least_stretch(scale)))
    # What is grouped is not needed any more, and would be held beside what is written.
    rows.ticks.clear()
    rows.table = rows.table.drop_columns([RECORD, "block"])
    first_group = _first_groups(masked.first_groups, unit_rows)
    released, destination = _released_rows(planned, rows, masked.labels, masked.representatives, first_group)
    if spec.several is not None:
        released = released.append_column(UNIT, pa.array(units))
    work.send(ANONYMIZED, released, destination)
    return len(rows.records)


ANONYMIZE = Step(
    name="anonymize",
    stage="anonymize",
    per="partition",
    does=anonymize_partition,
    memory=lambda load: int(_COPIES * load.rows * load.row_bytes + load.block_bytes),
    knows=(*PLANNED, MEASURE_SCALE, DISTRIBUTIONS),
    ranges_of=(BLOCKS,),
    receives=(SCATTERED,),
    writes=(LOSSES, BLOCK_LINES),
    sends=(ANONYMIZED,),
)


def _units_of(records: Ints, blocks: Blocks, unit_rows: Ints) -> Ints:
    """Number the unit of each record by the first of its records."""
    units = records.copy()
    for (_, rows), n in zip(blocks, unit_rows.tolist(), strict=True):
        if n > 1:
            of_units = records[rows].reshape(-1, n) if len(records[rows]) % n == 0 else np.zeros((1, 2), dtype=np.int64)
            if (np.diff(of_units, axis=1) != 1).any():
                raise InternalError("a bug: the rows of a unit are not together in their block; please report it")
            units[rows] = np.repeat(of_units[:, 0], n)
    return units


def _first_groups(first_groups: Ints, unit_rows: Ints) -> Ints:
    """Find for each group the first of those that its units have their rows in."""
    n_groups = np.diff(first_groups)
    group = np.arange(first_groups[-1])
    return np.asarray(group - (group - np.repeat(first_groups[:-1], n_groups)) % np.repeat(unit_rows, n_groups))


def _released_rows(
    planned: Planned, rows: _Partition, group: Ints, ticks: list[NDArray[Any]], first_group: Ints
) -> tuple[pa.Table, Ints]:
    """Make the partition's rows as released, record number before and what came in behind; and find their files.

    ``group`` is that of each record, and ``ticks`` are those of each group, by quasi-identifier. All groups with the
    same ``first_group`` have the rows of the same units.
    """
    blocks, schema = rows.blocks, planned.context.schema
    # What the records of a group have in common is made once for each group.
    of_group = np.empty(len(ticks[0]), dtype=np.int64)
    of_group[group] = np.arange(len(group))
    block, missing = rows.block[of_group], rows.missing[of_group]
    labels = blocks.labels(block)
    shared: dict[str, Any] = {c.name: labels[f"b{j}"] for j, c in enumerate(schema.blocking)}
    for j, column in enumerate(schema.quasi_identifiers):
        shared[column.name] = planned.encoding.kinds[j].to_arrow(ticks[j], missing[:, j])
    # Equal combinations go to the same file, or units of equal profiles: the hash is of what a reader sees.
    first, count = blocks.files(block)
    spread = np.zeros(len(of_group), dtype=np.uint64)
    np.add.at(spread, first_group, hash_rows(shared.values(), len(of_group), seed=0))
    destination = (first + (spread[first_group] % count.astype(np.uint64)).astype(np.int64))[group]
    taken = pa.array(group)
    source = {name: column.take(taken) for name, column in shared.items()}
    source |= {column.name: rows.table[f"c{j}"] for j, column in enumerate(schema.confidential)}
    came = [f"q{j}" for j in range(len(schema.quasi_identifiers))]
    columns = [pa.array(rows.records), *(source[c.name] for c in schema.released), *(rows.table[q] for q in came)]
    names = [RECORD, *(f"x{j}" for j in range(len(schema.released))), *came]
    return pa.Table.from_arrays(columns, names=names), destination
