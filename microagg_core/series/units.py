"""The files of a ledger that hold units, cut into ranges of units, so that no task has to hold them all.

Columns: ``u0 u1`` the unit, ``atom`` the atom to which it belongs or belonged, ``row`` a digest of what was released of
it last, ``since`` the night that first released it (or first saw it, while it waits), ``last`` the night that last
released it, ``state``; and ``d0``, ``d1``, ... a digest for each column whose changes are looked at. Nothing of it
names a unit to anybody who lacks the key.

A range is one file with all of its units and, after it, files with those that later nights changed: the last word on a
unit counts. So what a night writes grows with what happened in it, not with the series. A survivor is no change: the
last night of a live unit is that of its atom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Ints, UInt64s
from microagg_core.data.tables.slices import to_bytes
from microagg_core.errors import InternalError

#: Ranges are cut in two when they would hold more units than this on average.
MOST_UNITS = 500_000
#: The last night of a live unit that comes and goes with its atom: the atom's.
WITH_ATOM = -2
#: The atom of who was never released; no atom has that number.
NO_ATOM = 0
_FIXED = (
    ("u0", pa.uint64()),
    ("u1", pa.uint64()),
    ("atom", pa.uint64()),
    ("row", pa.uint64()),
    ("since", pa.int32()),
    ("last", pa.int32()),
    ("state", pa.uint8()),
)
_HALF, _ATOM = 1, 2


class State(IntEnum):
    #: Released before, and may be again.
    LIVE = 0
    #: Released before, and never again.
    GONE = 1
    #: Never again, as it had to be erased.
    FORGOTTEN = 2
    #: Never released: an arrival that waits.
    HELD = 3
    #: Among changes alone: a unit that the ledger need not know any more, as it left before it was ever released.
    REMOVED = 4


def range_schema(n_columns: int) -> pa.Schema:
    """The columns of a range, with digests of ``n_columns`` watched columns."""
    return pa.schema([*_FIXED, *((f"d{i}", pa.uint32()) for i in range(n_columns))])


def empty_range(n_columns: int) -> pa.Table:
    return range_schema(n_columns).empty_table()


def n_ranges_for(units: int, current: int = 1, most: int = MOST_UNITS) -> int:
    """Choose the number of ranges for so many units: a power of two, which never falls.

    >>> n_ranges_for(0), n_ranges_for(500_000), n_ranges_for(500_001), n_ranges_for(10, current=4)
    (1, 1, 2, 4)
    """
    while units > current * most:
        current *= 2
    return current


def range_of(u0: UInt64s, n_ranges: int) -> Ints:
    """Assign units to ranges by the first bits of their digests.

    >>> range_of(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 4).tolist()
    [0, 2, 3]
    """
    # A shift by all 64 bits is not defined.
    return ((u0 >> np.uint64(32)) >> np.uint64(33 - n_ranges.bit_length())).astype(np.int64)


def range_bytes(table: pa.Table) -> bytes:
    schema = range_schema(max(table.num_columns - len(_FIXED), 0))
    return encoded(table, schema, 2, (_HALF, _ATOM), "a range", "a unit came to a range of a ledger")


def range_from(data: bytes) -> pa.Table | None:
    """Decode a range of units; None for the bytes of anything else."""
    return decoded(data, lambda n: range_schema(max(n - len(_FIXED), 0)), (_HALF, _ATOM))


def encoded(table: pa.Table, schema: pa.Schema, n_keys: int, narrow: Sequence[int], noun: str, repeated: str) -> bytes:
    """Encode rows, sorted by their first columns: the same bytes for the same rows in whatever order they come.

    The columns at ``narrow`` get the narrowest type that holds all; wide numbers compress to more than that.
    """
    if not table.schema.equals(schema) or any(column.null_count for column in table.columns):
        raise InternalError(f"a bug: what is to be {noun} of a ledger lacks columns or values; please report it")
    columns = [np.asarray(column) for column in table.columns]
    order = np.lexsort(columns[:n_keys][::-1])
    columns = [column[order] for column in columns]
    if np.all([key[1:] == key[:-1] for key in columns[:n_keys]], axis=0).any():
        raise InternalError(f"a bug: {repeated} twice; please report it")
    # New arrays: neither chunks nor what was cut away leave a mark in the bytes.
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    for place in narrow:
        arrays[place] = pa.array(columns[place].astype(np.min_scalar_type(int(columns[place].max(initial=0)))))
    return to_bytes(pa.Table.from_arrays(arrays, names=schema.names))


def decoded(data: bytes, schema_of: Callable[[int], pa.Schema], narrow: Sequence[int]) -> pa.Table | None:
    """Decode :func:`encoded` rows of a schema that follows from the number of columns; None for anything else."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
    except (pa.ArrowInvalid, OSError):
        return None
    schema = schema_of(table.num_columns)
    if table.column_names != schema.names:
        return None
    may_differ = (i in narrow and pa.types.is_unsigned_integer(kind) for i, kind in enumerate(table.schema.types))
    pairs = zip(may_differ, table.schema.types, schema.types, strict=True)
    return table.cast(schema) if all(may or kind == whole for may, kind, whole in pairs) else None


def latest_of(tables: Sequence[pa.Table]) -> pa.Table:
    """Merge a range's files, old to new: the last row of each unit counts.

    >>> old = pa.table({"u0": [1, 2], "u1": [0, 0], "state": [0, 3]})
    >>> latest_of([old, pa.table({"u0": [2, 3], "u1": [0, 0], "state": [4, 0]})]).to_pydict()
    {'u0': [1, 3], 'u1': [0, 0], 'state': [0, 0]}
    """
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables).combine_chunks()
    u0, u1 = (np.asarray(table[name]) for name in ("u0", "u1"))
    order = np.lexsort((np.arange(table.num_rows), u1, u0))
    is_last = np.ones(table.num_rows, dtype=np.bool_)
    is_last[:-1] = (u0[order][1:] != u0[order][:-1]) | (u1[order][1:] != u1[order][:-1])
    table = table.take(pa.array(order[is_last]))
    return table.filter(pc.not_equal(table["state"], int(State.REMOVED))).combine_chunks()


def is_increasing(high: UInt64s, low: UInt64s) -> bool:
    greater = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    return bool(greater.all())
