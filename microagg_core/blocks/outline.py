"""The outline of a plan: what every worker knows of it, whatever it works on.

It does not grow with the number of blocks. What is to be known of single ones, a worker reads for its own input part
(:mod:`~microagg_core.blocks.routes`) or its own partition (:class:`PartitionBlocks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.blocks.cuts import Tree, tree_from_plain, tree_to_plain

FILE_FIRST, FILE_COUNT = "file_first", "file_count"


@dataclass(frozen=True)
class Outline:
    """What a plan comes to.

    Attributes:
        hash_seed: under which no two keys share a hash.
        n_blocks, n_files: how many there are.
        withheld_rows: records that are not released now, for whatever reason.
        suppressed_rows: those of them that are withheld for good.
        first_blocks: the first block of each partition; a partition's blocks follow each other.
        rows, seconds: records of each partition, and what its blocks take by the algorithm's model.
        trees: the cuts of strata that are too large for one block.
    """

    hash_seed: int
    n_blocks: int
    n_files: int
    withheld_rows: int
    suppressed_rows: int
    first_blocks: Ints
    rows: Ints
    seconds: Floats
    trees: dict[int, Tree]

    @property
    def n_partitions(self) -> int:
        """Number of Dask partitions."""
        return len(self.rows)

    def partitions_of(self, blocks: Ints) -> Ints:
        least, greatest = (int(blocks.min()), int(blocks.max())) if len(blocks) else (0, 0)
        if greatest - least >= len(blocks):
            return np.searchsorted(self.first_blocks, blocks, side="right") - 1
        # Many records of few blocks: each block is looked for once.
        partition = np.searchsorted(self.first_blocks, np.arange(least, greatest + 1), side="right") - 1
        return partition[blocks - least]

    def to_plain(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in ("first_blocks", "rows", "seconds")}
        trees = {str(number): tree_to_plain(tree) for number, tree in self.trees.items()}
        return {**self.__dict__, **arrays, "trees": trees}

    @classmethod
    def from_plain(cls, value: dict[str, Any]) -> Outline:
        """Inverse of :meth:`to_plain`."""
        arrays = {name: np.array(value[name], dtype=np.int64) for name in ("first_blocks", "rows")}
        arrays["seconds"] = np.array(value["seconds"])
        trees = {int(number): tree_from_plain(tree) for number, tree in value["trees"].items()}
        return cls(**{**value, **arrays, "trees": trees})


@dataclass(frozen=True)
class PartitionBlocks:
    """The blocks of one partition: released blocking values, and the files that their rows go to."""

    first_block: int
    table: pa.Table

    def labels(self, blocks: Ints) -> pa.Table:
        return self.table.drop_columns([FILE_FIRST, FILE_COUNT]).take(pa.array(blocks - self.first_block))

    def files(self, blocks: Ints) -> tuple[Ints, Ints]:
        """Find the first file of each record's label, and how many files the label fills."""
        first, count = (np.asarray(self.table[name])[blocks - self.first_block] for name in (FILE_FIRST, FILE_COUNT))
        return first, count
