"""A plan for keys that nobody has counted: their sizes drawn from a distribution, all else as for a real release."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.blocks.cuts import Cut, Tree
from microagg_core.blocks.plan import BlockPlan, default_max_records, plan_blocks
from microagg_core.blocks.strata import Strata
from microagg_core.release.steps.sizing.description import Description

#: Bytes of a released or blocking column in memory, and of an input row besides: a census with short codes.
_COLUMN_BYTES, _IDENTIFIER_BYTES = 5.2, 12.0


def row_bytes(description: Description) -> float:
    """Bytes in memory of what travels of a row."""
    return description.row_bytes or _COLUMN_BYTES * (description.columns + description.blocking)


def input_row_bytes(description: Description) -> float:
    """Bytes of a row of the input before compression."""
    if description.input_row_bytes:
        return description.input_row_bytes
    return row_bytes(description) + _IDENTIFIER_BYTES * description.identifiers


def sizes_of_keys(description: Description) -> Ints:
    """Records of each key, the largest first.

    >>> sizes_of_keys(Description(rows=10, keys=4, sizes="equal")).tolist()
    [3, 3, 2, 2]
    """
    share = _shares(description)
    bounds = np.rint(np.cumsum(share) * description.rows).astype(np.int64)
    return -np.sort(-np.diff(bounds, prepend=0))


def _shares(description: Description) -> Floats:
    rank = np.arange(1, description.keys + 1, dtype=np.float64)
    weight = rank**-description.spread if description.sizes == "zipf" else np.ones_like(rank)
    shares: Floats = weight / weight.sum()
    return shares


def draw_plan(description: Description) -> BlockPlan:
    """The plan, by the planner of real releases; keys below k are merged with their neighbours.

    Raises:
        DataError: a block has more records than the algorithm can take.

    >>> draw_plan(Description(rows=100_000, keys=100)).n_blocks
    100
    """
    strata = _strata(description)
    info, p, k = description.info, description.quasi_identifiers, description.k
    width = row_bytes(description)
    limit = description.max_records or default_max_records(info, p, k, width)
    trees, leaf_rows = _cut(strata.rows, limit)
    return plan_blocks(strata, trees, leaf_rows, info, p, k, width, limit, _released(description))


def _strata(description: Description) -> Strata:
    rows = _merged(sizes_of_keys(description), description.k)
    # The largest keys are anywhere among the others, as they are by their labels.
    rows = np.random.default_rng(0).permutation(rows)
    numbers = np.arange(len(rows))
    return Strata(
        key_hashes=np.arange(description.keys, dtype=np.uint64),
        stratum_of_hash=np.minimum(np.arange(description.keys), len(rows) - 1),
        hash_seed=0,
        rows=rows,
        pattern=np.zeros(len(rows), dtype=np.uint64),
        label=numbers,
        depth=np.full(len(rows), description.blocking),
        n_keys=np.ones(len(rows), dtype=np.int64),
        labels=pa.table({"label": numbers}),
        suppressed_keys=0,
        suppressed_rows=0,
        undersized_keys=0,
    )


def _merged(sizes: Ints, k: int) -> Ints:
    """Sizes in descending order, those below k put together until they reach it."""
    small = np.searchsorted(-sizes, -k, side="right")
    if small == len(sizes):
        return sizes
    few = sizes[small:]
    joined = np.bincount((np.cumsum(few) - few) // k, few).astype(np.int64)
    joined = joined[joined > 0]
    lacking = joined < k
    spare = int(joined[lacking].sum())
    kept = np.append(sizes[:small], joined[~lacking])
    kept[-1] += spare
    return kept


def _cut(rows: Ints, limit: int) -> tuple[dict[int, Tree], dict[int, Ints]]:
    """The cuts of strata above the limit: in halves, until all are below it."""
    trees: dict[int, Tree] = {}
    leaf_rows: dict[int, Ints] = {}
    for number in np.flatnonzero(rows > limit).tolist():
        levels = int(np.ceil(np.log2(rows[number] / limit)))
        trees[number] = _halved(levels)
        leaves = 1 << levels
        leaf_rows[number] = np.diff(np.arange(leaves + 1) * int(rows[number]) // leaves)
    return trees, leaf_rows


def _halved(levels: int) -> Tree:
    return Cut(0, 0.0, _halved(levels - 1), _halved(levels - 1)) if levels else None


def _released(description: Description) -> pa.Schema:
    """Columns as wide as those of the release."""
    own = row_bytes(description) * description.columns / (description.columns + description.blocking)
    quasi = [pa.field(f"q{j}", pa.float64()) for j in range(description.quasi_identifiers)]
    width = max(1, int((own - 8 * len(quasi)) / max(1, description.confidential)))
    hidden = [pa.field(f"c{j}", pa.binary(width)) for j in range(description.confidential)]
    return pa.schema([*(pa.field(f"b{j}", pa.string()) for j in range(description.blocking)), *quasi, *hidden])
