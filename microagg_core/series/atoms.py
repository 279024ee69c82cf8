"""Atoms in the ledger: the classes of the units that were released together, one row an atom.

All units of an atom have the same history, so that is kept once: ``atom`` its number, ``k0 k1`` its class of the last
night that released it, ``n`` how many of its units are live (where units are released once: how many it has),
``since`` and ``last`` the nights that first and last released it. A live unit's trace is its atom; that of a unit which
left its atom is the atom and the last night of the two.

An atom's number ends in a few bits of its class, by which atoms are cut into ranges: so whoever has the class of a row,
or the atom of a unit, knows the range of the other too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, Pairs, ShortInts, UInt64s
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.series.digests import as_columns, numbered_rows, pairs_of, positions_of_numbers, units_alone
from microagg_core.series.generations import UnitCounts
from microagg_core.series.units import NO_ATOM, State, decoded, encoded

#: The bits of an atom's number that its class decides; there are no more ranges of atoms than these can tell apart.
_BITS = 12
MOST_RANGES = 2**_BITS
#: The first number, before these bits, that an atom can have; none has 0.
FIRST_NUMBER = 1
_SCHEMA = pa.schema(
    [
        ("atom", pa.uint64()),
        ("k0", pa.uint64()),
        ("k1", pa.uint64()),
        ("n", pa.int64()),
        ("since", pa.int32()),
        ("last", pa.int32()),
    ]
)
#: The columns that are written as narrow as they can be.
_NARROW = (0, 2)


def atoms_table(atom: UInt64s, klass: Pairs, n: Ints, since: ShortInts, last: ShortInts) -> pa.Table:
    arrays = [atom, klass[:, 0], klass[:, 1], n, since, last]
    return pa.table([pa.array(np.ascontiguousarray(a), f.type) for a, f in zip(arrays, _SCHEMA, strict=True)], _SCHEMA)


def no_atoms() -> pa.Table:
    return _SCHEMA.empty_table()


def atoms_bytes(table: pa.Table) -> bytes:
    return encoded(table, _SCHEMA, 1, _NARROW, "atoms", "an atom came to a ledger")


def atoms_from(data: bytes) -> pa.Table | None:
    return decoded(data, lambda _: _SCHEMA, _NARROW)


def range_of_atoms(atom: UInt64s, n_ranges: int) -> Ints:
    """Assign atoms to ranges by the last bits of their numbers.

    >>> range_of_atoms(np.array([0x1000, 0x1FFF, 0x2800], dtype=np.uint64), 2).tolist()
    [0, 1, 1]
    """
    return _range_of_bits(atom & np.uint64(2**_BITS - 1), n_ranges)


def range_of_classes(classes: Pairs, n_ranges: int) -> Ints:
    return _range_of_bits(_bits_of(classes), n_ranges)


def _bits_of(classes: Pairs) -> UInt64s:
    return classes[:, 0] >> np.uint64(64 - _BITS)


def _range_of_bits(bits: UInt64s, n_ranges: int) -> Ints:
    return (bits >> np.uint64(_BITS + 1 - n_ranges.bit_length())).astype(np.int64)


def numbered_atoms(classes: Pairs) -> tuple[UInt64s, int]:
    """Number new atoms for distinct classes as if they were the first of all; count the numbers they need.

    >>> atoms, n = numbered_atoms(np.array([[0, 1], [2**63, 1], [5, 5]], dtype=np.uint64))
    >>> atoms.tolist(), n
    ([0, 2048, 4096], 2)
    """
    bits = _bits_of(classes)
    order = np.argsort(bits, kind="stable")
    place = np.empty(len(bits), dtype=np.uint64)
    place[order] = (np.arange(len(bits)) - np.searchsorted(bits[order], bits[order])).astype(np.uint64)
    return (place << np.uint64(_BITS)) | bits, int(place.max(initial=0)) + 1 if len(bits) else 0


def from_number(atom: UInt64s, first: int) -> UInt64s:
    return atom + np.uint64(first << _BITS)


def regrouped(before: UInt64s, atom: UInt64s, night: int) -> UInt64s:
    """Derive the atoms of units that were grouped afresh: units share one if they did before and do tonight.

    With as good as no chance that two are confused; used where nothing is promised of several releases.
    """
    mixed = mix_words(before ^ mix_words(atom ^ mix_words(np.full(len(atom), night + 1, dtype=np.uint64))))
    bits = np.uint64(2**_BITS - 1)
    return (mixed | np.uint64(2**_BITS)) & ~bits | atom & bits


def places_of_atoms(wanted: UInt64s, atoms: pa.Table) -> Ints:
    """Find each wanted atom's row in a table of atoms; -1 where it has none."""
    return positions_of_numbers(wanted, np.asarray(atoms["atom"]))


def traces_of(atom: UInt64s, state: Ints, last: ShortInts) -> Pairs:
    """Derive each unit's trace: equal ones have the same history; zeros for a unit that was never released."""
    has_left = (state != State.LIVE) & (atom != NO_ATOM)
    return np.column_stack([atom, np.where(has_left, last.astype(np.int64) + 1, 0).astype(np.uint64)])


def with_atoms(units: pa.Table, atoms: pa.Table) -> pa.Table:
    """Add what atoms know to a range's units: columns ``t0 t1`` trace, ``k0 k1`` class, and the true ``last``.

    The class is zeros where the ledger does not keep it any more: of who left an atom that is gone as a whole.
    """
    atom, state = np.asarray(units["atom"]), np.asarray(units["state"]).astype(np.int64)
    place = places_of_atoms(atom, atoms)
    is_known: Bools = place >= 0
    last = np.asarray(units["last"]).copy()
    goes_with = state == State.LIVE
    # A live unit whose atom is not there is a ledger that does not hold together; it shows in no right night.
    last[goes_with & is_known] = np.asarray(atoms["last"])[place[goes_with & is_known]]
    klass = np.zeros((units.num_rows, 2), dtype=np.uint64)
    klass[is_known] = pairs_of(atoms, "k")[place[is_known]]
    columns = {**as_columns(traces_of(atom, state, last), "t"), **as_columns(klass, "k"), "last": pa.array(last)}
    others = {name: units[name] for name in units.column_names if name != "last"}
    return pa.table({**others, **columns})


def counts_of(units: pa.Table, night: int) -> UnitCounts:
    """Count a range's units by state after a night, from :func:`with_atoms`."""
    state = np.asarray(units["state"])
    live = state == State.LIVE
    released = int((live & (np.asarray(units["last"]) == night)).sum())
    return UnitCounts(
        released=released,
        withheld=int(live.sum()) - released,
        held=int((state == State.HELD).sum()),
        vanished=int((state == State.GONE).sum()),
        forgotten=int((state == State.FORGOTTEN).sum()),
    )


#: Traces, how many units have each, and whether a live one has.
_Counts: TypeAlias = tuple[Pairs, Ints, Bools]


def by_unit(table: pa.Table) -> pa.Table:
    """Make one row of the released rows of each unit of several: its trace is that of all of them together."""
    table = table.filter(pa.array(np.asarray(table["last"]) >= 0))
    unit, distinct = numbered_rows(units_alone(pairs_of(table, "u")))
    first, second = pairs_of(table, "t").T
    traces = np.zeros((len(distinct), 2), dtype=np.uint64)
    for j, words in enumerate((mix_words(first ^ mix_words(second)), mix_words(second ^ mix_words(first)))):
        np.add.at(traces[:, j], unit, words)
    is_live = np.bincount(unit, np.asarray(table["state"]) == State.LIVE, len(distinct)) > 0
    state = np.where(is_live, State.LIVE, State.GONE)
    return pa.table({**as_columns(traces, "t"), "last": np.zeros(len(distinct), np.int64), "state": state})


@dataclass
class TraceCounter:
    """Counts the units of every trace of all units that were ever released.

    Where units have ``several`` rows, the rows of every trace are counted, and besides the units of all their traces.

    Units that wait were never released, and are not counted. Those that are gone, or were erased, are in the files of
    the nights before, and hide the others there as ever.

    >>> TraceCounter().smallest() is None
    True
    """

    several: bool = False
    _counts: _Counts = field(default_factory=lambda: (np.zeros((0, 2), np.uint64), np.zeros(0, int), np.zeros(0, bool)))
    #: What was counted since, range by range; put together when it is as much as what there is, so that few sorts do.
    _ranges: list[_Counts] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._of_units = TraceCounter() if self.several else self

    def add(self, table: pa.Table) -> None:
        if self.several:
            self._of_units.add(by_unit(table))
        is_released = np.asarray(table["last"]) >= 0
        traces, live = pairs_of(table, "t")[is_released], np.asarray(table["state"])[is_released] == State.LIVE
        self._ranges.append(_merged(traces, np.ones(len(traces), dtype=np.int64), live))
        if sum(len(counts[0]) for counts in self._ranges) >= len(self._counts[0]):
            self._all()

    def smallest(self) -> int | None:
        _, units, _ = self._all()
        return int(units.min()) if len(units) else None

    def smallest_of_units(self) -> int | None:
        return self._of_units.smallest()

    def rarer_than(self, k: int) -> int:
        """Count the units whose trace a live unit has and fewer than k units share."""
        _, units, live = self._of_units._all()
        return int(units[live & (units < k)].sum())

    def _all(self) -> _Counts:
        if self._ranges:
            self._counts, self._ranges = (
                _merged(*map(np.concatenate, zip(self._counts, *self._ranges, strict=True))),
                [],
            )
        return self._counts


def _merged(traces: Pairs, units: Ints, live: Bools) -> _Counts:
    numbers, distinct = numbered_rows(traces)
    n = np.bincount(numbers, units, len(distinct)).astype(np.int64)
    return distinct, n, np.bincount(numbers, live, len(distinct)) > 0
