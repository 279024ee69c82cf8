"""Atoms: numbers that say where they belong and never come twice, what units have of them, and files that come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.arrays import Pairs
from microagg_core.data.tables.slices import to_bytes
from microagg_core.errors import InternalError
from microagg_core.series.atoms import (
    FIRST_NUMBER,
    MOST_RANGES,
    atoms_bytes,
    atoms_from,
    atoms_table,
    counts_of,
    from_number,
    no_atoms,
    numbered_atoms,
    places_of_atoms,
    range_of_atoms,
    range_of_classes,
    regrouped,
    traces_of,
    with_atoms,
)
from microagg_core.series.units import NO_ATOM, WITH_ATOM, State, empty_range, range_bytes, range_from, range_schema

EVERY_NUMBER_OF_RANGES = [2**i for i in range(13)]
words = st.integers(0, 2**64 - 1)
#: Classes of which many are of one range, and some of the first or the last.
class_words = st.one_of(words, st.integers(0, 5), st.integers(2**64 - 5, 2**64 - 1), st.integers(2**62, 2**62 + 9))
classes_drawn = st.lists(st.tuples(class_words, words), max_size=40, unique=True)


def pairs_of(rows: list[tuple[int, int]]) -> Pairs:
    return np.array(rows, dtype=np.uint64).reshape(-1, 2)


# Numbers and ranges.


@given(classes_drawn)
@examples(100)
def test_new_atoms_have_distinct_numbers_and_the_ranges_of_their_classes(rows: list[tuple[int, int]]) -> None:
    classes = pairs_of(rows)
    atoms, n = numbered_atoms(classes)
    assert len(set(atoms.tolist())) == len(rows) and (n > 0) == bool(rows)
    most = Counter(k0 >> 52 for k0, _ in rows).most_common(1)
    assert n == (most[0][1] if most else 0), "no more numbers than the fullest range needs"
    numbered = from_number(atoms, FIRST_NUMBER)
    assert NO_ATOM not in numbered.tolist()
    for n_ranges in EVERY_NUMBER_OF_RANGES:
        expected = [k0 * n_ranges >> 64 for k0, _ in rows]
        assert range_of_classes(classes, n_ranges).tolist() == expected
        assert range_of_atoms(atoms, n_ranges).tolist() == range_of_atoms(numbered, n_ranges).tolist() == expected
    assert EVERY_NUMBER_OF_RANGES[-1] == MOST_RANGES


@given(st.lists(classes_drawn, max_size=8))
@examples(100)
def test_numbers_never_collide_with_earlier_ones(nights: list[list[tuple[int, int]]]) -> None:
    """The same class may come again, in another file and on another night: it is another atom."""
    seen: set[int] = set()
    following = FIRST_NUMBER
    for rows in [*nights, *nights]:
        atoms, n = numbered_atoms(pairs_of(rows))
        numbered = from_number(atoms, following).tolist()
        assert not seen & set(numbered) and len(set(numbered)) == len(rows)
        assert all(following <= number >> 12 < following + n for number in numbered)
        seen |= set(numbered)
        following += n


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 3)), max_size=40), st.integers(0, 50))
@examples(100)
def test_units_stay_together_that_were_and_are(rows: list[tuple[int, int, int]], night: int) -> None:
    """Before, who was never released is in no atom; tonight everybody is in one."""
    before = np.array([7 * one << 12 if one else NO_ATOM for one, _, _ in rows], dtype=np.uint64)
    tonight = np.array([(1 + one) << 12 | bits << 10 | 5 for _, one, bits in rows], dtype=np.uint64)
    after = regrouped(before, tonight, night)
    for i, j in product(range(len(rows)), repeat=2):
        together = before[i] == before[j] and tonight[i] == tonight[j]
        assert (after[i] == after[j]) == together
    assert not set(after.tolist()) & {NO_ATOM}
    for n_ranges in EVERY_NUMBER_OF_RANGES:
        assert range_of_atoms(after, n_ranges).tolist() == range_of_atoms(tonight, n_ranges).tolist()
    again = regrouped(before, tonight, night + 1)
    assert not set(after.tolist()) & set(again.tolist())


def test_many_regrouped_atoms_are_all_distinct() -> None:
    before, tonight = (np.repeat(np.arange(300), 300), np.tile(np.arange(300), 300))
    after = regrouped(*((part.astype(np.uint64) + np.uint64(1)) << np.uint64(12) for part in (before, tonight)), 3)
    assert len(np.unique(after)) == 90_000


# What units have of their atoms.


def drawn_atoms(draw: np.random.Generator, n: int, night: int) -> pa.Table:
    classes = draw.integers(0, 2**64, (n, 2), dtype=np.uint64)
    atom = from_number(numbered_atoms(classes)[0], int(draw.integers(1, 9)))
    last = draw.integers(0, night + 1, n).astype(np.int32)
    return atoms_table(atom, classes, draw.integers(1, 9, n), np.zeros(n, dtype=np.int32), last)


def drawn_units(draw: np.random.Generator, n: int, atoms: pa.Table, night: int) -> pa.Table:
    """Units of some atoms, of others, and of none, in any state."""
    numbers = [*atoms["atom"].to_pylist(), NO_ATOM, 2**50 + 1]
    columns: dict[str, Any] = {
        "u0": draw.integers(0, 2**64, n, dtype=np.uint64),
        "u1": draw.integers(0, 2**32, n, dtype=np.uint64),
        "atom": np.array([numbers[i] for i in draw.integers(0, len(numbers), n)], dtype=np.uint64),
        "row": draw.integers(0, 2**64, n, dtype=np.uint64),
        "since": draw.integers(0, night + 1, n).astype(np.int32),
        "last": draw.choice([WITH_ATOM, -1, *range(night + 1)], n).astype(np.int32),
        "state": draw.integers(0, 4, n).astype(np.uint8),
        "d0": draw.integers(0, 2**32, n, dtype=np.uint32),
    }
    return pa.table(columns, schema=range_schema(1))


def told_slowly(unit: dict[str, int], atoms: dict[int, dict[str, int]]) -> dict[str, int]:
    """What an atom says of a unit, the slow way."""
    atom = atoms.get(unit["atom"])
    last = atom["last"] if unit["state"] == State.LIVE and atom else unit["last"]
    is_apart = unit["state"] != State.LIVE and unit["atom"] != NO_ATOM
    trace = {"t0": unit["atom"], "t1": last + 1 if is_apart else 0}
    klass = {name: atom[name] if atom else 0 for name in ("k0", "k1")}
    return {**unit, **trace, **klass, "last": last}


@pytest.mark.parametrize("seed", range(25))
def test_units_with_their_atoms_equal_the_slow_way(seed: int) -> None:
    draw, night = np.random.default_rng(seed), seed % 5
    atoms = drawn_atoms(draw, int(draw.integers(0, 12)), night)
    table = drawn_units(draw, int(draw.integers(0, 60)), atoms, night)
    # Of who left an atom the ledger has the night; of nobody else is it asked what his trace would be then.
    table = table.filter((pa.compute.field("last") != WITH_ATOM) | (pa.compute.field("state") == int(State.LIVE)))
    told = with_atoms(table, atoms)
    by_number = {row["atom"]: row for row in atoms.to_pylist()}
    expected = [told_slowly(row, by_number) for row in table.to_pylist()]
    assert told.to_pylist() == [{name: row[name] for name in told.column_names} for row in expected]
    assert set(told.column_names) == {*table.column_names, "t0", "t1", "k0", "k1"}
    counts = counts_of(told, night)
    live = [row["last"] == night for row in expected if row["state"] == State.LIVE]
    assert (counts.released, counts.withheld) == (sum(live), len(live) - sum(live))
    states = Counter(row["state"] for row in expected)
    assert (counts.held, counts.vanished, counts.forgotten) == tuple(
        states[state] for state in (State.HELD, State.GONE, State.FORGOTTEN)
    )
    assert counts.units == len(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(list(State)[:4]), st.integers(0, 4)), max_size=30))
@examples(100)
def test_a_trace_is_the_atom_and_the_night_in_which_one_left_it(rows: list[tuple[int, State, int]]) -> None:
    atom, state, last = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    traces = list(map(tuple, traces_of(atom.astype(np.uint64), state, last.astype(np.int32)).tolist()))

    def history(i: int) -> tuple[int, int | None]:
        number, its_state, its_last = rows[i]
        return (number, its_last if number != NO_ATOM and its_state != State.LIVE else None)

    for i, j in product(range(len(rows)), repeat=2):
        assert (traces[i] == traces[j]) == (history(i) == history(j))
    assert all(trace == (0, 0) for trace, row in zip(traces, rows, strict=True) if row[0] == NO_ATOM)


@given(classes_drawn, st.lists(st.integers(0, 2**40), max_size=20))
@examples(100)
def test_atoms_are_found_by_their_numbers(rows: list[tuple[int, int]], others: list[int]) -> None:
    atom = from_number(numbered_atoms(pairs_of(rows))[0], 3)
    n = np.ones(len(rows), dtype=np.int64)
    table = atoms_table(atom, pairs_of(rows), n, n.astype(np.int32), n.astype(np.int32))
    wanted = [*atom.tolist()[::-1], *others, *atom.tolist()]
    numbers = atom.tolist()
    expected = [numbers.index(one) if one in numbers else -1 for one in wanted]
    assert places_of_atoms(np.array(wanted, dtype=np.uint64), table).tolist() == expected


# Files.


def range_of_seed(seed: int, n: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    return drawn_units(draw, n, drawn_atoms(draw, 5, 3), 3)


def atoms_of_seed(seed: int, n: int) -> pa.Table:
    return drawn_atoms(np.random.default_rng(seed), n, 3)


FILES = [
    pytest.param(range_of_seed, range_bytes, range_from, ["u0", "u1"], id="units"),
    pytest.param(atoms_of_seed, atoms_bytes, atoms_from, ["atom"], id="atoms"),
]
Make = Callable[[int, int], pa.Table]
Write = Callable[[pa.Table], bytes]
Read = Callable[[bytes], pa.Table | None]


@pytest.mark.parametrize(("make", "write", "read", "by"), FILES)
@given(seed=st.integers(0, 2**32), n=st.integers(0, 30))
@examples(60)
def test_what_is_written_comes_back_sorted(
    make: Make, write: Write, read: Read, by: list[str], seed: int, n: int
) -> None:
    table = make(seed, n)
    data = write(table)
    back = read(data)
    assert back is not None and back.schema == table.schema
    assert back.equals(table.sort_by([(name, "ascending") for name in by]))
    shuffled = table.take(pa.array(np.random.default_rng(seed + 1).permutation(n)))
    in_pieces = pa.concat_tables([shuffled.slice(n // 2), shuffled.slice(0, n // 2)]).replace_schema_metadata(
        {"a": "b"}
    )
    assert write(shuffled) == write(in_pieces) == write(back) == data


@pytest.mark.parametrize(("make", "write", "read", "by"), FILES)
@pytest.mark.parametrize("largest", [255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**64 - 1])
def test_numbers_of_every_width_come_back(make: Make, write: Write, read: Read, by: list[str], largest: int) -> None:
    table = make(1, 9)
    for name in {"u1", "atom"} & set(table.column_names):
        values = [largest, *range(8)]
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.uint64()))
    back = read(write(table))
    assert back is not None and back.schema == table.schema
    assert back.equals(table.sort_by([(name, "ascending") for name in by]))


@pytest.mark.parametrize(("make", "write", "read", "by"), FILES)
def test_what_comes_twice_or_lacks_something_is_a_bug(make: Make, write: Write, read: Read, by: list[str]) -> None:
    table = make(1, 9)
    with pytest.raises(InternalError, match="twice"):
        write(pa.concat_tables([table, table.slice(4, 1)]))
    for i, name in enumerate(table.column_names):
        others = [table.drop_columns([name])] if name != "d0" else []
        others.append(table.set_column(i, name, pa.nulls(9, table.schema.field(name).type)))
        others.append(table.set_column(i, name, pa.array([1.0] * 9)))
        others.append(table.rename_columns([n if n != name else "another" for n in table.column_names]))
        for other in others:
            with pytest.raises(InternalError, match="a bug: what is to be"):
                write(other)


@pytest.mark.parametrize(("make", "write", "read", "by"), FILES)
def test_what_is_no_file_of_ours_is_nothing(make: Make, write: Write, read: Read, by: list[str]) -> None:
    table = make(1, 9)
    data = write(table)
    assert all(read(data[:n]) is None for n in range(0, len(data) - 8, 7))
    assert read(b"") is None and read(b"x" * 100) is None and read(b"\xff" * 8 + data) is None
    for i, name in enumerate(table.column_names):
        for values in (pa.array(["x"] * 9), pa.array([1.0] * 9), pa.array(range(9), pa.int8())):
            assert read(to_bytes(table.set_column(i, name, values))) is None
        assert name == "d0" or read(to_bytes(table.drop_columns([name]))) is None
    assert read(to_bytes(table.select(table.column_names[::-1]))) is None
    assert read(to_bytes(table.append_column("more", pa.array(range(9))))) is None


def test_the_file_of_one_kind_is_none_of_the_other() -> None:
    assert range_from(atoms_bytes(atoms_of_seed(1, 5))) is None and atoms_from(range_bytes(range_of_seed(1, 5))) is None
    assert range_from(atoms_bytes(no_atoms())) is None and atoms_from(range_bytes(empty_range(0))) is None
