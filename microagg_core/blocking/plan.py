"""The block plan: strata, cuts, blocks, partitions and files, as columns, with its cost.

Built by the flow, written to the work area, and read by every worker. A *stratum* holds the records released under
one label and with one pattern of missing values; a *block* is a stratum or a leaf of its cuts, the unit of
anonymization; a *partition* is what one task holds: whole blocks.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.algorithms import AlgorithmInfo
from microagg_core.arrays import Floats, Ints
from microagg_core.blocking.cuts import Tree, count_leaves, route, tree_from_plain, tree_to_plain, with_record_numbers
from microagg_core.blocking.memory import BLOCK_BYTES, PARTITION_BYTES
from microagg_core.blocking.packing import assign_files, pack_blocks, rows_per_file
from microagg_core.blocking.strata import Strata
from microagg_core.errors import DataError

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

    @cached_property
    def first_block(self) -> Ints:
        """The first block of each stratum; its other blocks follow."""
        return np.searchsorted(self.block_stratum, np.arange(len(self.strata.rows)))

    def blocks_of(self, stratum: Ints, Z: Floats, records: Ints) -> Ints:
        """The block of each record, given its stratum and its standardized values."""
        block = self.first_block[stratum]
        if self.trees and len(stratum):
            order = np.argsort(stratum, kind="stable")
            numbers, first = np.unique(stratum[order], return_index=True)
            for number, rows in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
                if number in self.trees:
                    block[rows] += route(self.trees[number], with_record_numbers(Z[rows], records[rows]))
        return block

    def rows_of_partitions(self) -> Ints:
        """Records of each partition."""
        rows = np.bincount(self.block_partition, weights=self.block_rows, minlength=self.n_partitions)
        return rows.astype(np.int64)


def default_max_records(info: AlgorithmInfo, p: int, k: int, row_bytes: float) -> int:
    """The largest block that the algorithm's model and a partition's memory allow.

    >>> from microagg_core.algorithms import algorithms
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
    numbers = np.arange(len(strata.rows))
    stratum = np.repeat(numbers, np.array([count_leaves(trees.get(int(s))) for s in numbers], dtype=np.int64))
    rows_of_strata = [leaf_rows.get(int(s), strata.rows[s : s + 1]) for s in numbers]
    rows = np.concatenate([*rows_of_strata, np.empty(0, dtype=np.int64)])  # a night of a series may have no stratum
    if problem := info.refuses_records(int(rows.max(initial=0))):
        raise DataError(f"blocks: {problem}")
    seconds = np.array([info.cost_seconds(int(n), p, k) for n in rows])
    partition = pack_blocks(seconds, (rows * row_bytes).astype(np.int64))
    first, count = assign_files(strata.rows_of_labels(), rows_per_file(released))
    return BlockPlan(strata, trees, stratum, rows, seconds, partition, first, count, max_records)


def plan_to_objects(plan: BlockPlan) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The plan as binary objects by name, and the rest as plain values."""
    strata = plan.strata
    sink = io.BytesIO()
    np.savez(
        sink,
        key_hashes=strata.key_hashes,
        stratum_of_hash=strata.stratum_of_hash,
        rows=strata.rows,
        pattern=strata.pattern,
        label=strata.label,
        depth=strata.depth,
        n_keys=strata.n_keys,
        block_stratum=plan.block_stratum,
        block_rows=plan.block_rows,
        block_seconds=plan.block_seconds,
        block_partition=plan.block_partition,
        file_first=plan.file_first,
        file_count=plan.file_count,
    )
    labels = io.BytesIO()
    with pa.ipc.new_stream(labels, strata.labels.schema) as writer:
        writer.write_table(strata.labels)
    values = {
        "hash_seed": strata.hash_seed,
        "suppressed_keys": strata.suppressed_keys,
        "suppressed_rows": strata.suppressed_rows,
        "undersized_keys": strata.undersized_keys,
        "held_keys": strata.held_keys,
        "held_rows": strata.held_rows,
        "max_records": plan.max_records,
        "trees": {str(s): tree_to_plain(tree) for s, tree in plan.trees.items()},
    }
    return {"arrays": sink.getvalue(), "labels": labels.getvalue()}, values


def plan_from_objects(objects: dict[str, bytes], values: dict[str, Any]) -> BlockPlan:
    """Inverse of :func:`plan_to_objects`."""
    arrays = np.load(io.BytesIO(objects["arrays"]))
    of_strata = ("key_hashes", "stratum_of_hash", "rows", "pattern", "label", "depth", "n_keys")
    of_blocks = ("block_stratum", "block_rows", "block_seconds", "block_partition", "file_first", "file_count")
    counts = ("hash_seed", "suppressed_keys", "suppressed_rows", "undersized_keys", "held_keys", "held_rows")
    with pa.ipc.open_stream(objects["labels"]) as reader:
        labels = reader.read_all()
    strata = Strata(labels=labels, **{n: arrays[n] for n in of_strata}, **{n: values[n] for n in counts})
    trees = {int(s): tree_from_plain(tree) for s, tree in values["trees"].items()}
    return BlockPlan(strata, trees, max_records=values["max_records"], **{n: arrays[n] for n in of_blocks})
