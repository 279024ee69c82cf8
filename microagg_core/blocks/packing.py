"""Blocks into Dask partitions of similar cost, and released records into files.

Everything here depends on the data and the spec alone, never on the cluster: the same blocks, partitions and files
come out for one worker or a hundred.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.blocks.memory import FILE_BYTES, PARTITION_BYTES, STEADY_BYTES, grown_size

#: Partitions are cut so that the work comes in about this many pieces, but not below a fifth of a second or 4 MiB.
_PIECES = 48
_LEAST_SECONDS, _MOST_SECONDS = 0.2, 30.0
_LEAST_BYTES = 4 * 2**20
_FAR_WIDER = 8  # times as wide as the types say, from which on files have fewer rows
_TEXT_WIDTH = 24  # assumed bytes of a text value; a released file's size must not depend on what was withheld


def pack_blocks(seconds: Floats, n_bytes: Ints) -> Ints:
    """The partition of each block: neighbours together until the cost or the bytes of a partition are reached.

    >>> pack_blocks(np.array([0.1, 0.1, 40.0, 0.1]), np.array([10, 10, 10, 10]))
    array([0, 0, 1, 2])
    """
    target = float(np.clip(seconds.sum() / _PIECES, _LEAST_SECONDS, _MOST_SECONDS))
    whole = int(n_bytes.sum())
    limit = int(np.clip(whole // _PIECES, _LEAST_BYTES, grown_size(PARTITION_BYTES, whole, STEADY_BYTES)))
    # Of a census there are millions of blocks and a thousand partitions: each is found, and its blocks are not visited.
    costs, sizes = np.cumsum(seconds), np.cumsum(n_bytes)
    starts, start = [], 0
    while start < len(seconds):
        starts.append(start)
        cost, size = (0.0, 0) if start == 0 else (costs[start - 1], sizes[start - 1])
        ends = np.searchsorted(costs, cost + target, "right"), np.searchsorted(sizes, size + limit, "right")
        start = max(start + 1, int(min(ends)))
    return np.searchsorted(starts, np.arange(len(seconds)), "right") - 1


def rows_per_file(schema: pa.Schema, row_bytes: float = 0.0) -> int:
    """Count the records of a released file, by the released types, and less where rows are many times as wide.

    Halved so often, and only from _FAR_WIDER times on, what a file holds tells no more of withheld rows' texts than
    their order of magnitude; without it, 600,000 texts of 1 kB were one file, and 2.1 GiB of memory.

    >>> schema = pa.schema({"x": pa.float64(), "note": pa.string()})
    >>> rows_per_file(schema), rows_per_file(schema, 200.0), rows_per_file(schema, 1032.0)
    (1048576, 1048576, 32768)
    """
    width = max(1, sum(_width(field.type) for field in schema))
    wider = int(row_bytes // width)
    return max(1, FILE_BYTES // width >> (wider.bit_length() - 1 if wider >= _FAR_WIDER else 0))


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _TEXT_WIDTH


def assign_files(rows_of_labels: Ints, limit: int) -> tuple[Ints, Ints]:
    """The first file of each label and how many files it fills.

    Labels follow each other into a file until it holds ``limit`` records; a label above the limit gets files of its
    own, over which its combinations are spread by their hash. A function of the released content alone.

    >>> assign_files(np.array([4, 4, 25, 3]), limit=10)
    (array([0, 0, 1, 4]), array([1, 1, 3, 1]))
    """
    first = np.zeros(len(rows_of_labels), dtype=np.int64)
    count = np.maximum(1, -(-rows_of_labels // limit))
    total, number, label = np.cumsum(rows_of_labels), 0, 0
    is_large = np.append(np.flatnonzero(rows_of_labels > limit), len(rows_of_labels))
    while label < len(rows_of_labels):
        before = total[label - 1] if label else 0
        together = int(np.searchsorted(total, before + limit, "right"))
        end = max(label + 1, min(together, int(is_large[np.searchsorted(is_large, label)])))
        first[label:end] = number
        number += int(count[label])
        label = end
    return first, count
