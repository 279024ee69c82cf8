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
from microagg_core.blocks.strata import FIRSTS, HEAVIEST, ROWS, UNITS, WEIGHT
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.slices import Slices, write_no_rows
from microagg_core.release.records import WAITED
from microagg_core.release.step import Pieces, Rows, Step, TableOutput, Work

#: The counted blocking keys of an input part, sent to ranges of their hashes; and those of a range, of all parts.
PART_KEYS, KEYS = Rows("part-keys"), TableOutput("keys")
#: What is counted of each blocking key: its records, in a night of a series those that have waited long enough, with
#: survey weights its weight and that of its heaviest record, and its units where these may have records in several.
_COUNTS = {ROWS: "sum", WAITED: "sum", WEIGHT: "sum", HEAVIEST: "max", FIRSTS: "sum", UNITS: "sum"}
#: A part cuts its keys into ranges of about this many, and into no more than ``2^_MOST_LEVELS``.
_RANGE_KEYS, _MOST_LEVELS = 4096, 12
#: The seed of the hashes by which keys are cut.
_SEED = 0


def merge_keys(tables: Sequence[pa.Table]) -> pa.Table:
    """Counts of the same keys added up."""
    table = pa.concat_tables(tables)
    counts = [name for name in _COUNTS if name in table.column_names]
    names = [name for name in table.column_names if name not in counts]
    merged = table.group_by(names, use_threads=False).aggregate([(name, _COUNTS[name]) for name in counts])
    return merged.rename_columns([*names, *counts])


def hashes_of(keys: pa.Table, seed: int) -> UInt64s:
    blocking = [one_array(keys[name]) for name in keys.column_names if name.startswith("b")]
    return hash_keys(blocking, np.asarray(keys["pattern"]).astype(np.uint64), seed)


def write_keys(work: Work, keys: pa.Table) -> None:
    """Write the keys of one part, cut by ranges of hashes."""
    level = _level(keys.num_rows / _RANGE_KEYS)
    if keys.num_rows:
        work.send(PART_KEYS, keys, _ranges_of(hashes_of(keys, _SEED), level))
    else:  # of a marked part in which nobody arrived
        work.send_packed(PART_KEYS, *write_no_rows(keys, 1, work.number))


def read_own_keys(work: Work, seed: int) -> UInt64s:
    """Read the hashes of the keys that the task's input part has."""
    if not work.has(PART_KEYS):  # a part without records
        return np.empty(0, dtype=np.uint64)
    return hashes_of(work.read(PART_KEYS), seed)


def _level(ranges: float) -> int:
    """Find the level with so many ranges at least."""
    return min(_MOST_LEVELS, int(np.ceil(np.log2(max(1.0, ranges)))))


def _ranges_of(hashes: UInt64s, level: int) -> Ints:
    """Find the range of each hash at a level."""
    if level == 0:
        return np.ones(len(hashes), dtype=np.int64)
    return (hashes >> np.uint64(64 - level)).astype(np.int64) + (1 << level)


def deal_keys(slices: Slices) -> list[Slices]:
    """Share out all parts' keys to tasks, each a range of hashes."""
    counted = int(slices.array["rows"].sum())
    level = _level(counted / grown_size(TASK_KEYS, counted, STEADY_KEYS))
    sent = _at_level(slices, level).by_destination(2 << level)[1 << level :]
    return [of_range for of_range in sent if len(of_range)]


def _at_level(slices: Slices, level: int) -> Slices:
    """Give each slice to the ranges of one level that it meets."""
    array = slices.array.copy()
    finer = np.floor(np.log2(array["destination"])).astype(np.int64) - level
    array["destination"] >>= np.maximum(finer, 0).astype(np.uint32)
    while (coarser := array["destination"] < 1 << level).any():
        halves = np.repeat(array[coarser], 2)
        halves["destination"] = 2 * halves["destination"] + np.tile(np.array([0, 1], dtype=np.uint32), coarser.sum())
        array = np.concatenate([array[~coarser], halves])
    return Slices(array)


def merge_range(work: Work) -> int:
    """Merge one range of all parts' keys; the receipt's rows are its distinct keys."""
    wanted = work.slices(PART_KEYS)[0].destination
    level = wanted.bit_length() - 1
    tables = [table for _, table in work.gather_each(PART_KEYS)]
    ranges = [_ranges_of(hashes_of(table, _SEED), level) for table in tables]
    pairs = zip(tables, ranges, strict=True)
    merged = merge_keys([table.filter(pa.array(of_each == wanted)) for table, of_each in pairs])
    work.write(KEYS, merged)
    return int(merged.num_rows)


MERGE_KEYS = Step(
    name="keys",
    stage="survey",
    per="range of keys",
    does=merge_range,
    receives=(PART_KEYS,),
    deals=deal_keys,
    writes=(KEYS,),
)


def counted_keys(written: Pieces) -> pa.Table:
    """Read all counted keys, from the ranges that were merged."""
    return pa.concat_tables(written.read_all(KEYS))
