"""The block plan: strata, cuts, blocks, partitions and files, as columns, with its cost.

Built by the flow; a worker reads of it what it needs for what it works on. A *stratum* holds the records released under
one label and with one pattern of missing values; a *block* is a stratum or a leaf of its cuts, the unit of
anonymization; a *partition* is what one task holds: whole blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.blocks.cuts import Tree, count_leaves
from microagg_core.blocks.memory import BLOCK_BYTES, PARTITION_BYTES, ROUTE_BYTES
from microagg_core.blocks.outline import FILE_COUNT, FILE_FIRST, Outline
from microagg_core.blocks.packing import assign_files, pack_blocks, rows_per_file
from microagg_core.blocks.routes import SUPPRESSED, Routes
from microagg_core.blocks.strata import Strata
from microagg_core.errors import DataError
from microagg_core.group.algorithms import AlgorithmInfo

#: Blocks are cut so that the algorithm's model stays below this, where the spec says nothing else.
_BLOCK_SECONDS = 20.0
_LEAST_DEFAULT = 1000


@dataclass(frozen=True)
class BlockPlan:
    """Everything that routes a record: key -> stratum -> block -> partition, and label -> files."""

    strata: Strata
    trees: dict[int, Tree]
    block_stratum: Ints
    block_rows: Ints
    block_seconds: Floats
    block_partition: Ints
    file_first: Ints
    file_count: Ints
    max_records: int

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.block_rows)

    @property
    def n_partitions(self) -> int:
        """Number of Dask partitions."""
        return int(self.block_partition.max(initial=-1)) + 1

    @property
    def n_files(self) -> int:
        """Number of released files."""
        return int((self.file_first + self.file_count).max(initial=0))

    def outline(self) -> Outline:
        """Take what every worker knows of the plan."""
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
        return pa.table({**values, FILE_FIRST: self.file_first[label], FILE_COUNT: self.file_count[label]})

    def block_bytes(self, info: AlgorithmInfo, p: int, k: int) -> int:
        """Estimate what the algorithm needs for the block that takes it most, of p attributes."""
        return max((info.memory_bytes(int(n), p, k) for n in np.unique(self.block_rows)), default=0)

    def route_bytes(self) -> int:
        """Estimate what the routes of an input part with all keys take."""
        return ROUTE_BYTES * min(len(self.strata.key_hashes), self.strata.withheld_rows + int(self.strata.rows.sum()))

    def rows_of_partitions(self) -> Ints:
        rows = np.bincount(self.block_partition, weights=self.block_rows, minlength=self.n_partitions)
        return rows.astype(np.int64)


def default_max_records(info: AlgorithmInfo, p: int, k: int, row_bytes: float) -> int:
    """The largest block that the algorithm's model and a partition's memory allow.

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
    """Number the blocks, pack them into partitions, and give every label its files.

    Raises:
        DataError: a block has more records than the algorithm can take.
    """
    leaves = np.ones(len(strata.rows), dtype=np.int64)
    for number, tree in trees.items():
        leaves[number] = count_leaves(tree)
    stratum = np.repeat(np.arange(len(leaves)), leaves)
    rows = strata.rows[stratum]
    for number, of_leaves in leaf_rows.items():
        first = int(np.searchsorted(stratum, number))
        rows[first : first + len(of_leaves)] = of_leaves
    if problem := info.refuses_records(int(rows.max(initial=0))):
        raise DataError(f"blocks: {problem}")
    sizes, size_of = np.unique(rows, return_inverse=True)
    seconds = np.array([info.cost_seconds(int(n), p, k) for n in sizes])[size_of.reshape(-1)]
    partition = pack_blocks(seconds, (rows * row_bytes).astype(np.int64))
    file_first, file_count = assign_files(strata.rows_of_labels(), rows_per_file(released, row_bytes))
    return BlockPlan(strata, trees, stratum, rows, seconds, partition, file_first, file_count, max_records)
