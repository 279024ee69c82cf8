"""The files of a ledger: one row a unit, cut into ranges of units, so that no task has to hold them all.

Columns: ``u0 u1`` the unit, ``t0 t1`` its trace, ``k0 k1`` its class of the last night that released it, ``row`` a
digest of what was released of it then, ``since`` the night that first released it (or first saw it, while it waits),
``last`` the night that last released it (-1 for none), ``state``; and ``d0``, ``d1``, ... a digest for each column
whose changes are looked at. Nothing of it names a unit to anybody who lacks the key.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints, UInt64s
from microagg_core.errors import InternalError
from microagg_core.series.generations import UnitCounts
from microagg_core.tables.slices import to_bytes

#: Ranges are cut in two when they would hold more units than this on average.
MOST_UNITS = 500_000
_PAIRS = ("u0", "u1", "t0", "t1", "k0", "k1")
_FIXED = (
    *((name, pa.uint64()) for name in (*_PAIRS, "row")),
    ("since", pa.int32()),
    ("last", pa.int32()),
    ("state", pa.uint8()),
)


class State(IntEnum):
    """What is to become of a unit."""

    #: Released before, and may be again.
    LIVE = 0
    #: Released before, and never again.
    GONE = 1
    #: Never again, as it had to be erased.
    FORGOTTEN = 2
    #: Never released: an arrival that waits.
    HELD = 3


def range_schema(n_columns: int) -> pa.Schema:
    """The columns of a range, with the digests of so many columns.

    >>> range_schema(2).names[-4:]
    ['last', 'state', 'd0', 'd1']
    """
    return pa.schema([*_FIXED, *((f"d{i}", pa.uint32()) for i in range(n_columns))])


def empty_range(n_columns: int) -> pa.Table:
    """A range without units, with the digests of so many columns."""
    return range_schema(n_columns).empty_table()


def n_columns_of(schema: pa.Schema) -> int | None:
    """How many columns a range has digests of; None where this is not the schema of a range."""
    n_columns = len(schema) - len(_FIXED)
    return n_columns if n_columns >= 0 and schema.equals(range_schema(n_columns)) else None


def n_ranges_for(units: int, current: int = 1) -> int:
    """How many ranges are needed for so many units: a power of two, which never falls.

    >>> n_ranges_for(0), n_ranges_for(500_000), n_ranges_for(500_001), n_ranges_for(10, current=4)
    (1, 1, 2, 4)
    """
    while units > current * MOST_UNITS:
        current *= 2
    return current


def range_of(u0: UInt64s, n_ranges: int) -> Ints:
    """The range of each unit: the first bits of its digest.

    >>> range_of(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 4).tolist()
    [0, 2, 3]
    """
    # A shift by all 64 bits is not defined.
    return ((u0 >> np.uint64(32)) >> np.uint64(33 - n_ranges.bit_length())).astype(np.int64)


def range_bytes(table: pa.Table) -> bytes:
    """The file of a range: sorted by unit, and the same bytes for the same units in whatever order they come.

    Raises:
        InternalError: these are not the columns of a range, a value is missing, or a unit comes twice.
    """
    n_columns = n_columns_of(table.schema.remove_metadata())
    if n_columns is None or any(column.null_count for column in table.columns):
        raise InternalError("a bug: what is to be a range of a ledger lacks columns or values; please report it")
    columns = [column.to_numpy() for column in table.columns]
    order = np.lexsort((columns[1], columns[0]))
    if not is_increasing(columns[0][order], columns[1][order]):
        raise InternalError("a bug: a unit came to a range of a ledger twice; please report it")
    # New arrays: neither chunks nor what was cut away leave a mark in the bytes.
    return to_bytes(pa.table([column[order] for column in columns], schema=range_schema(n_columns)))


def range_from(data: bytes) -> pa.Table | None:
    """Inverse of :func:`range_bytes`; None for the bytes of anything else."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
    except (pa.ArrowInvalid, OSError):
        return None
    return None if n_columns_of(table.schema) is None else table


def is_increasing(high: UInt64s, low: UInt64s) -> bool:
    """Whether pairs are sorted and none comes twice."""
    greater = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    return bool(greater.all())


def counts_of(table: pa.Table, night: int) -> UnitCounts:
    """How many units of a range are in which state after a night.

    >>> counts_of(empty_range(0), 3).units
    0
    """
    state = table["state"].to_numpy()
    live = state == State.LIVE
    released = int((live & (table["last"].to_numpy() == night)).sum())
    return UnitCounts(
        released=released,
        withheld=int(live.sum()) - released,
        held=int((state == State.HELD).sum()),
        vanished=int((state == State.GONE).sum()),
        forgotten=int((state == State.FORGOTTEN).sum()),
    )
