"""The block plan: strata, cuts, blocks, partitions and files, as columns, with its cost.

Built by the flow; a worker reads of it what it needs for what it works on. A *stratum* holds the records released under
one label and with one pattern of missing values; a *block* is a stratum or a leaf of its cuts, the unit of
anonymization; a *partition* is what one task holds: whole blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints, UInt64s
from microagg_core.blocks.blanking import Move
from microagg_core.blocks.cuts import Tree, count_leaves
from microagg_core.blocks.memory import BLOCK_BYTES, PARTITION_BYTES, ROUTE_BYTES
from microagg_core.blocks.packing import assign_files, pack_blocks, rows_per_file
from microagg_core.blocks.routes import SUPPRESSED, Routes
from microagg_core.blocks.strata import Strata
from microagg_core.errors import DataError
from microagg_core.group.algorithms import AlgorithmInfo
from microagg_core.plain import PlainFloats, PlainInts

#: Blocks are cut so that the algorithm's model stays below this, where the spec says nothing else.
_BLOCK_SECONDS = 20.0
_LEAST_DEFAULT = 1000
FILE_FIRST, FILE_COUNT = "file_first", "file_count"
#: A column of blocks of units of several rows: how many each has.
UNIT_ROWS = "unit_rows"
#: Columns of blocks where cells are blanked: what their records lack as they are released; and for blocks that take the
#: nearest records of another block of their partition, which one that is, and how many they take.
PATTERN, SOURCE, TAKES = "pattern", "source", "takes"
_NOT_LABELS = {FILE_FIRST, FILE_COUNT, UNIT_ROWS, PATTERN, SOURCE, TAKES}


@dataclass(frozen=True)
class Outline:
    """Part of a plan that every worker knows; it does not grow with the number of blocks."""

    #: Under which no two keys share a hash.
    hash_seed: int
    n_blocks: int
    n_files: int
    #: Records that are not released now, for whatever reason, and those of them that are withheld for good.
    withheld_rows: int
    suppressed_rows: int
    #: The first block of each partition; a partition's blocks follow each other.
    first_blocks: PlainInts
    #: Records of each partition, and what its blocks take by the algorithm's model.
    rows: PlainInts
    seconds: PlainFloats
    #: The cuts of strata that are too large for one block.
    trees: dict[int, Tree]
    #: Cells that are blanked by quasi-identifier, and how many of the same records have no value, where any may be.
    blanked: tuple[int, ...] | None = None
    missing: tuple[int, ...] | None = None
    #: The most rows that a unit has.
    unit_rows: int = 1

    @property
    def n_partitions(self) -> int:
        return len(self.rows)

    def partitions_of(self, blocks: Ints) -> Ints:
        least, greatest = (int(blocks.min()), int(blocks.max())) if len(blocks) else (0, 0)
        if greatest - least >= len(blocks):
            return np.searchsorted(self.first_blocks, blocks, side="right") - 1
        # Many records of few blocks: each block is looked for once.
        partition = np.searchsorted(self.first_blocks, np.arange(least, greatest + 1), side="right") - 1
        return partition[blocks - least]


@dataclass(frozen=True)
class PartitionBlocks:
    """The blocks of one partition: released blocking values, and the files that their rows go to."""

    first_block: int
    table: pa.Table

    def labels(self, blocks: Ints) -> pa.Table:
        names = [name for name in self.table.column_names if name not in _NOT_LABELS]
        return self.table.select(names).take(pa.array(blocks - self.first_block))

    @property
    def patterns(self) -> UInt64s | None:
        """List what the records of each block lack as they are released; None where that is what they lacked before."""
        return np.asarray(self.table[PATTERN]) if PATTERN in self.table.column_names else None

    @property
    def moves(self) -> list[Move]:
        """The records that move from block to block, by their places in the partition."""
        source, takes = (self.table[name].to_pylist() for name in (SOURCE, TAKES))
        return [Move(source[i] - self.first_block, i, rows) for i, rows in enumerate(takes) if rows]

    def unit_rows(self, block: int) -> int | None:
        """Count the rows of each unit of a block; None where every unit has one."""
        if UNIT_ROWS not in self.table.column_names:
            return None
        return int(self.table[UNIT_ROWS][block - self.first_block].as_py())

    def files(self, blocks: Ints) -> tuple[Ints, Ints]:
        """Find the first file of each record's label, and how many files the label fills."""
        first, count = (np.asarray(self.table[name])[blocks - self.first_block] for name in (FILE_FIRST, FILE_COUNT))
        return first, count


@dataclass(frozen=True)
class BlockPlan:
    """Everything that routes a record: key -> stratum -> block -> partition, and label -> files."""

    strata: Strata
    trees: dict[int, Tree]
    block_stratum: Ints
    block_units: Ints
    block_seconds: Floats
    block_partition: Ints
    file_first: Ints
    file_count: Ints
    max_records: int
    #: Where cells are blanked, the records that move from block to block, see :class:`PartitionBlocks`.
    moves: tuple[Move, ...] = ()

    @property
    def n_blocks(self) -> int:
        return len(self.block_units)

    @property
    def block_rows(self) -> Ints:
        return np.asarray(self.block_units * self.strata.rows_of_units(self.block_stratum))

    @property
    def n_partitions(self) -> int:
        return int(self.block_partition.max(initial=-1)) + 1

    @property
    def n_files(self) -> int:
        return int((self.file_first + self.file_count).max(initial=0))

    def outline(self) -> Outline:
        return Outline(
            hash_seed=self.strata.hash_seed,
            n_blocks=self.n_blocks,
            n_files=self.n_files,
            withheld_rows=self.strata.withheld_rows,
            suppressed_rows=self.strata.suppressed_rows,
            first_blocks=np.searchsorted(self.block_partition, np.arange(self.n_partitions)),
            rows=self.rows_of_partitions(),
            seconds=np.bincount(self.block_partition, self.block_seconds, self.n_partitions).astype(np.float64),
            trees=self.trees,
            blanked=self.strata.blanked_cells,
            missing=self.strata.missing_cells,
            unit_rows=1 if self.strata.sizes is None else int(self.strata.sizes.max(initial=1)),
        )

    def routes(self) -> Routes:
        strata = self.strata
        stratum = strata.stratum_of_hash
        first_block = np.append(np.searchsorted(self.block_stratum, np.arange(len(strata.rows))), SUPPRESSED)
        # Of a key that is withheld no label is known: its row of labels is null.
        label = pa.array(np.append(strata.label, 0)[stratum], mask=stratum == SUPPRESSED)
        return Routes(
            strata.key_hashes, stratum, first_block[stratum], strata.labels.drop_columns(["label"]).take(label)
        )

    def blocks(self) -> pa.Table:
        """Tabulate what the blocks' partitions have to know of them, a row a block."""
        label, labels = self.strata.label[self.block_stratum], self.strata.labels
        values = {name: labels[name].take(pa.array(label)) for name in labels.column_names if name != "label"}
        values |= {FILE_FIRST: self.file_first[label], FILE_COUNT: self.file_count[label]}
        if self.strata.sizes is not None:
            values[UNIT_ROWS] = self.strata.sizes[self.block_stratum]
        if self.strata.blanked_cells is not None:
            source, takes = np.zeros((2, self.n_blocks), dtype=np.int64)
            for move in self.moves:
                source[move.target], takes[move.target] = move.source, move.rows
            values |= {PATTERN: self.strata.pattern[self.block_stratum], SOURCE: source, TAKES: takes}
        return pa.table(values)

    def block_bytes(self, info: AlgorithmInfo, p: int, k: int) -> int:
        """Estimate what the algorithm needs for the block that takes it most, of p attributes."""
        rows = self.strata.rows_of_units(self.block_stratum)
        most = rows.max(initial=0) + 1
        units, size = divmod(np.unique(self.block_units * most + rows), most)  # 10 times as fast as unique pairs
        pairs = zip(units.tolist(), size.tolist(), strict=True)
        return max((info.memory_bytes(n, p * s, k) for n, s in pairs), default=0)

    def route_bytes(self) -> int:
        """Estimate what the routes of an input part with all keys take."""
        return ROUTE_BYTES * min(len(self.strata.key_hashes), self.strata.withheld_rows + int(self.strata.rows.sum()))

    def rows_of_partitions(self) -> Ints:
        rows = np.bincount(self.block_partition, weights=self.block_rows, minlength=self.n_partitions)
        return rows.astype(np.int64)


def default_max_records(info: AlgorithmInfo, p: int, k: int, row_bytes: float) -> int:
    """Find the largest block that the algorithm's model and a partition's memory allow.

    >>> from microagg_core.group.algorithms import algorithms
    >>> default_max_records(algorithms()["mdav"], 4, 5, 100.0) >= 10_000
    True
    """
    most = max(int(PARTITION_BYTES / max(row_bytes, 1.0)), _LEAST_DEFAULT)
    low, high = 2 * k, max(most, 2 * k)
    while low < high:
        middle = (low + high + 1) // 2
        if info.cost_seconds(middle, p, k) <= _BLOCK_SECONDS and info.memory_bytes(middle, p, k) <= BLOCK_BYTES:
            low = middle
        else:
            high = middle - 1
    return low


def plan_blocks(
    strata: Strata,
    trees: dict[int, Tree],
    leaf_rows: dict[int, Ints],
    info: AlgorithmInfo,
    p: int,
    k: int,
    row_bytes: float,
    max_records: int,
    released: pa.Schema,
) -> BlockPlan:
    """Number the blocks, pack them into partitions, and give every label its files."""
    leaves = np.ones(len(strata.units), dtype=np.int64)
    for number, tree in trees.items():
        leaves[number] = count_leaves(tree)
    stratum = np.repeat(np.arange(len(leaves)), leaves)
    units, unit_rows = strata.units[stratum], strata.rows_of_units(stratum)
    for number, of_leaves in leaf_rows.items():
        first = int(np.searchsorted(stratum, number))
        units[first : first + len(of_leaves)] = of_leaves
    # Leaves have as many records as they give, and k more: the last one's stand beside the blocks that take them.
    first_after = np.searchsorted(stratum, np.arange(len(leaves)), side="right")
    moves = tuple(Move(int(first_after[s]) - 1, int(first_after[t]) - 1, n) for s, t, n in strata.moves)
    for move in moves:
        units[move.source] -= move.rows
        units[move.target] += move.rows
    if problem := info.refuses_records(int(units.max(initial=0))):
        raise DataError(f"blocks: {problem}")
    # Of units of several rows a point has the attributes of all of them.
    sizes, size_of = np.unique(np.column_stack([units, unit_rows]), axis=0, return_inverse=True)
    seconds = np.array([info.cost_seconds(int(n), p * int(s), k) for n, s in sizes])[size_of.reshape(-1)]
    partition = _packed_together(seconds, (units * unit_rows * row_bytes).astype(np.int64), moves)
    file_first, file_count = assign_files(strata.rows_of_labels(), rows_per_file(released, row_bytes))
    return BlockPlan(strata, trees, stratum, units, seconds, partition, file_first, file_count, max_records, moves)


def _packed_together(seconds: Floats, n_bytes: Ints, moves: tuple[Move, ...]) -> Ints:
    """Pack blocks, and leave those between which records move, which follow each other, in one partition."""
    is_first = np.ones(len(seconds), dtype=np.bool_)
    for move in moves:
        is_first[move.source + 1 : move.target + 1] = False
    together = np.cumsum(is_first) - 1
    costs: Floats = np.bincount(together, seconds).astype(np.float64)
    sizes: Ints = np.bincount(together, n_bytes).astype(np.int64)
    return np.asarray(pack_blocks(costs, sizes)[together])
