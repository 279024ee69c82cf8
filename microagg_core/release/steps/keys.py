"""Keys: how many records each blocking key has, counted part by part and merged on workers.

A part writes its keys in the order of their hashes, cut into ranges of hashes: ``2^level`` of them, of about equal
length. Range i of a level is called ``2^level + i``, so that 1 is all hashes, and the halves of n are 2n and 2n + 1.
The workers then merge one range each, at a level at which a task holds a bounded number of keys, whatever the number
of parts and of keys: a part that was cut coarser is read by several tasks, each of which takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints, UInt64s
from microagg_core.blocks.memory import STEADY_KEYS, TASK_KEYS, grown_size
from microagg_core.blocks.routes import hash_keys
from microagg_core.blocks.strata import ROWS
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.slices import Slices, read_slice, to_bytes, write_no_rows, write_slices
from microagg_core.release.steps.pieces import Piece
from microagg_core.release.steps.shuffling import read_slices
from microagg_core.release.steps.work import Receipt, Run, Task

#: The number of a part's keys among the objects of its survey.
KEYS = 0
#: What is counted of each blocking key besides its records: in a night of a series those that have waited long enough.
WAITED = "waited"
_COUNTS = ROWS, WAITED
#: A part cuts its keys into ranges of about this many, and into no more than ``2^_MOST_LEVELS``.
_RANGE_KEYS, _MOST_LEVELS = 4096, 12
#: The seed of the hashes by which keys are cut.
_SEED = 0


def merge_keys(tables: Sequence[pa.Table]) -> pa.Table:
    """Counts of the same keys added up."""
    table = pa.concat_tables(tables)
    counts = [name for name in _COUNTS if name in table.column_names]
    names = [name for name in table.column_names if name not in counts]
    merged = table.group_by(names, use_threads=False).aggregate([(name, "sum") for name in counts])
    return merged.rename_columns([*names, *counts])


def hashes_of(keys: pa.Table, seed: int) -> UInt64s:
    """The hash of each counted key."""
    blocking = [one_array(keys[name]) for name in keys.column_names if name.startswith("b")]
    return hash_keys(blocking, np.asarray(keys["pattern"]).astype(np.uint64), seed)


# --- A part's keys -------------------------------------------------------------------------------------------


def write_keys(task: Task, keys: pa.Table) -> tuple[Piece, Slices]:
    """Write the keys of one part, cut by ranges of hashes."""
    name, level = task.layout.part_keys(task.number), _level(keys.num_rows / _RANGE_KEYS)
    if keys.num_rows:
        data, slices = write_slices(keys, _ranges_of(hashes_of(keys, _SEED), level), task.number, KEYS)
    else:  # of a marked part in which nobody arrived
        data, slices = write_no_rows(keys, 1, task.number, KEYS)
    return task.put(name, data), slices


def read_own_keys(task: Task, part: int, seed: int) -> UInt64s:
    """The hashes of the keys that an input part has."""
    name = task.layout.part_keys(part)
    if not task.pieces.has(name):  # a part without records
        return np.empty(0, dtype=np.uint64)
    return hashes_of(read_slice(task.pieces.read(name)), seed)


def _level(ranges: float) -> int:
    """The level with so many ranges at least."""
    return min(_MOST_LEVELS, int(np.ceil(np.log2(max(1.0, ranges)))))


def _ranges_of(hashes: UInt64s, level: int) -> Ints:
    """The range of each hash at a level."""
    if level == 0:
        return np.ones(len(hashes), dtype=np.int64)
    return (hashes >> np.uint64(64 - level)).astype(np.int64) + (1 << level)


# --- A range of keys -----------------------------------------------------------------------------------------


def key_tasks(surveyed: Sequence[Receipt], run: Run) -> list[Task]:
    """Tasks that merge all parts' keys, each a range of them."""
    slices = Slices.joined(receipt.slices for receipt in surveyed).of_objects(KEYS)
    counted = int(slices.array["rows"].sum())
    level = _level(counted / grown_size(TASK_KEYS, counted, STEADY_KEYS))
    sent = _at_level(slices, level).by_destination(2 << level)[1 << level :]
    return [Task("keys", number, run, of_range) for number, of_range in enumerate(sent) if len(of_range)]


def _at_level(slices: Slices, level: int) -> Slices:
    """The same slices, each for the ranges of one level that it meets."""
    array = slices.array.copy()
    finer = np.floor(np.log2(array["destination"])).astype(np.int64) - level
    array["destination"] >>= np.maximum(finer, 0).astype(np.uint32)
    while (coarser := array["destination"] < 1 << level).any():
        halves = np.repeat(array[coarser], 2)
        halves["destination"] = 2 * halves["destination"] + np.tile(np.array([0, 1], dtype=np.uint32), coarser.sum())
        array = np.concatenate([array[~coarser], halves])
    return Slices(array)


def merge_range(task: Task) -> Receipt:
    """Merge one range of all parts' keys; the receipt's rows are its distinct keys."""
    wanted = task.slices[0].destination
    level = wanted.bit_length() - 1
    tables = read_slices(task.run, task.slices, "survey", lambda part, _: task.layout.part_keys(part))
    ranges = [_ranges_of(hashes_of(table, _SEED), level) for table in tables]
    pairs = zip(tables, ranges, strict=True)
    merged = merge_keys([table.filter(pa.array(of_each == wanted)) for table, of_each in pairs])
    piece = task.put(task.layout.keys(task.number), to_bytes(merged))
    return Receipt(task.step, task.number, merged.num_rows, (piece,))


def read_keys(data: Sequence[bytes]) -> pa.Table:
    """All counted keys, from the ranges that were merged."""
    return pa.concat_tables([read_slice(of_range) for of_range in data])
