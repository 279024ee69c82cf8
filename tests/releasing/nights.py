"""Small ledgers for tests: units with made-up digests, and nights that are committed one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Pairs, UInt64s
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.series.atoms import (
    FIRST_NUMBER,
    MOST_RANGES,
    atoms_table,
    counts_of,
    from_number,
    range_of_atoms,
    with_atoms,
)
from microagg_core.series.generations import Frozen, FrozenColumn, Generation, RangeFile, UnitCounts
from microagg_core.series.ledger import Ledger
from microagg_core.series.units import NO_ATOM, WITH_ATOM, State, n_ranges_for, range_of, range_schema
from microagg_core.series.verification import verify_ledger

#: The files of each range of units, as a document names them.
Files = tuple[tuple[RangeFile, ...], ...]

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
    atom = np.minimum(np.arange(n) // k, max((n - n_held) // k - 1, 0)).astype(np.uint64)
    number = atom * np.uint64(MOST_RANGES) | draw.integers(0, MOST_RANGES, n, dtype=np.uint64)[atom]
    is_held = np.arange(n) >= n - n_held
    columns: dict[str, Any] = {
        "u0": draw.integers(0, 2**64, n, dtype=np.uint64),
        "u1": draw.integers(0, 2**16, n, dtype=np.uint64),
        "atom": np.where(is_held, np.uint64(NO_ATOM), from_number(number, FIRST_NUMBER)),
        "row": draw.integers(0, 2**64, n, dtype=np.uint64),
        "since": np.full(n, night, dtype=np.int32),
        "last": np.where(is_held, -1, WITH_ATOM).astype(np.int32),
        "state": np.where(is_held, State.HELD, State.LIVE).astype(np.uint8),
        **{f"d{i}": draw.integers(0, 2**32, n, dtype=np.uint32) for i in range(n_columns)},
    }
    return pa.table({name: columns[name] for name in range_schema(n_columns).names}, schema=range_schema(n_columns))


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    position = table.schema.get_field_index(name)
    return table.set_column(position, name, pa.array(values, table.schema.field(name).type))


def with_value(table: pa.Table, place: int, **values: int) -> pa.Table:
    for name, value in values.items():
        column = table[name].to_numpy().copy()
        column[place] = value
        table = with_column(table, name, column)
    return table


def refused(ledger: Ledger) -> list[str]:
    return [check.name for check in verify_ledger(ledger) if not check.passed]


def sorted_units(table: pa.Table) -> pa.Table:
    return table.sort_by([("u0", "ascending"), ("u1", "ascending")]).combine_chunks()


def classes_of_atoms(atom: UInt64s) -> Pairs:
    bits = atom % np.uint64(MOST_RANGES)
    k0 = bits * np.uint64(2**64 // MOST_RANGES) + mix_words(atom) // np.uint64(MOST_RANGES)
    return np.column_stack([k0, mix_words(atom + np.uint64(1)) >> np.uint64(32)])


def atoms_of(table: pa.Table, night: int) -> pa.Table:
    is_live = np.asarray(table["state"]) == State.LIVE
    atom, place, n = np.unique(np.asarray(table["atom"])[is_live], return_index=True, return_counts=True)
    since = np.asarray(table["since"])[is_live][place]
    return atoms_table(atom, classes_of_atoms(atom), n, since, np.full(len(atom), night, dtype=np.int32))


def write_ranges(ledger: Ledger, night: int, table: pa.Table, n_ranges: int) -> Files:
    number = range_of(table["u0"].to_numpy(), n_ranges)
    return tuple((ledger.write_range(night, i, table.filter(pa.array(number == i))),) for i in range(n_ranges))


def write_changes(ledger: Ledger, changes: pa.Table, n_ranges: int) -> Files:
    """Write what changes after the newest night, range by range."""
    head = ledger.head()
    assert head is not None
    number = range_of(changes["u0"].to_numpy(), n_ranges)
    return tuple(
        ledger.write_changes(head, head.night + 1, i, n_ranges, changes.filter(pa.array(number == i)))
        for i in range(n_ranges)
    )


def write_atoms(ledger: Ledger, night: int, atoms: pa.Table, n_ranges: int = 1) -> tuple[RangeFile, ...]:
    number = range_of_atoms(np.asarray(atoms["atom"]), n_ranges)
    return tuple(ledger.write_atoms(night, i, atoms.filter(pa.array(number == i))) for i in range(n_ranges))


def generation_of(night: int, files: Files, atoms: Sequence[RangeFile], parent: str, **others: Any) -> Generation:
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
        "ranges": files,
        "atoms": tuple(atoms),
        "next_number": 10_000,
        "frozen": FROZEN,
        "counts": UnitCounts(),
        "smallest_trace": 3,
    }
    return Generation(**{**fields, **others})


def written(ledger: Ledger, night: int, table: pa.Table, n_ranges: int = 1, **others: Any) -> Generation:
    """What the document of a night would say, whose units and atoms are written."""
    files, atoms = write_ranges(ledger, night, table, n_ranges), atoms_of(table, night)
    counts = counts_of(with_atoms(table, atoms), night)
    of_atoms = write_atoms(ledger, night, atoms)
    return generation_of(night, files, of_atoms, ledger.parent_of(night), **{"counts": counts, **others})


def make_night(
    ledger: Ledger, table: pa.Table, n_ranges: int = 0, atoms: pa.Table | None = None, **others: Any
) -> Generation:
    """Write a night after the newest one, all anew, and commit it."""
    head = ledger.head()
    n_ranges = n_ranges or n_ranges_for(table.num_rows, head.n_ranges if head else 1)
    night = head.night + 1 if head else 0
    return _committed(ledger, write_ranges(ledger, night, table, n_ranges), table, atoms, **others)


def change_night(ledger: Ledger, changes: pa.Table, after: pa.Table, n_ranges: int = 0, **others: Any) -> Generation:
    """Write a night that changes some units of the newest one, and commit it; ``after`` are all units after it."""
    head = ledger.head()
    assert head is not None
    files = write_changes(ledger, changes, n_ranges or head.n_ranges)
    return _committed(ledger, files, after, None, **others)


def _committed(ledger: Ledger, files: Files, table: pa.Table, atoms: pa.Table | None, **others: Any) -> Generation:
    head = ledger.head()
    night = head.night + 1 if head else 0
    atoms = atoms_of(table, night) if atoms is None else atoms
    fields = {"counts": counts_of(with_atoms(table, atoms), night), **others}
    of_atoms = write_atoms(ledger, night, atoms, len(head.atoms) if head else 2)
    generation = generation_of(night, files, of_atoms, ledger.parent_of(night), **fields)
    commit_as_it_is(ledger, generation)
    return generation


def commit_as_it_is(ledger: Ledger, generation: Generation) -> None:
    """Commit a night that breaks what a night keeps to, so that verification has something to find."""
    with mock.patch("microagg_core.series.ledger.require"):
        assert ledger.commit(generation)
