"""Small ledgers for tests: units with made-up digests, and nights that are committed one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.series.generations import Frozen, FrozenColumn, Generation, RangeFile, UnitCounts
from microagg_core.series.ledger import Ledger
from microagg_core.series.ranges import State, counts_of, n_ranges_for, range_of, range_schema

#: The trace of who was never released, in these tests.
NEVER = (7, 2**64 - 7)
FROZEN = Frozen(
    k=3,
    unit=("person",),
    columns=(FrozenColumn("age", "double", "quasi_identifier"), FrozenColumn("town", "string", "blocking")),
    rounding={"age": 0.5},
    traits={"age": {"decimals": 1}},
    missing="error",
    mode="atoms",
    guarantee="trace",
)


def units(n: int, n_columns: int = 0, night: int = 0, seed: int = 0, k: int = 3, n_held: int = 0) -> pa.Table:
    """Units of atoms of k or more, the last ``n_held`` of them waiting, in no order."""
    draw = np.random.default_rng(seed)

    def digests() -> Any:
        return draw.integers(0, 2**64, n, dtype=np.uint64)

    atom = np.minimum(np.arange(n) // k, max((n - n_held) // k - 1, 0))
    is_held = np.arange(n) >= n - n_held
    columns = {
        "u0": digests(),
        "u1": digests(),
        "t0": np.where(is_held, np.uint64(NEVER[0]), digests()[atom]),
        "t1": np.where(is_held, np.uint64(NEVER[1]), digests()[atom]),
        "k0": digests()[atom],
        "k1": digests()[atom],
        "row": digests(),
        "since": np.full(n, night, dtype=np.int32),
        "last": np.where(is_held, -1, night).astype(np.int32),
        "state": np.where(is_held, State.HELD, State.LIVE).astype(np.uint8),
        **{f"d{i}": draw.integers(0, 2**32, n, dtype=np.uint32) for i in range(n_columns)},
    }
    return pa.table({name: columns[name] for name in range_schema(n_columns).names}, schema=range_schema(n_columns))


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    """The same units with other values in a column."""
    position = table.schema.get_field_index(name)
    return table.set_column(position, name, pa.array(values, table.schema.field(name).type))


def write_ranges(ledger: Ledger, night: int, table: pa.Table, n_ranges: int) -> tuple[RangeFile, ...]:
    """Write the units of a night, range by range."""
    number = range_of(table["u0"].to_numpy(), n_ranges)
    return tuple(ledger.write_range(night, i, table.filter(pa.array(number == i))) for i in range(n_ranges))


def generation_of(night: int, files: Sequence[RangeFile], parent: str, **others: Any) -> Generation:
    """What a night's document says; ``others`` are fields of it."""
    fields = {
        "night": night,
        "kind": "night",
        "release_id": f"day-{night}",
        "revision": "r0001",
        "output": "s3://bucket/output",
        "manifest_sha256": "ab" * 32,
        "date": "2026-11-18",
        "run_key": "3f9a",
        "parent": parent,
        "key_fingerprint": "0123456789abcdef",
        "n_ranges": len(files),
        "ranges": tuple(files),
        "never": NEVER,
        "frozen": FROZEN,
        "counts": UnitCounts(released=sum(file.units for file in files)),
        "smallest_trace": 3,
    }
    return Generation(**{**fields, **others})


def make_night(ledger: Ledger, table: pa.Table, n_ranges: int = 0, **others: Any) -> Generation:
    """Write a night after the newest one and commit it."""
    head = ledger.head()
    night = head.night + 1 if head else 0
    files = write_ranges(ledger, night, table, n_ranges or n_ranges_for(table.num_rows, head.n_ranges if head else 1))
    fields = {"counts": counts_of(table, night), **others}
    generation = generation_of(night, files, ledger.parent_of(night), **fields)
    assert ledger.commit(generation)
    return generation
