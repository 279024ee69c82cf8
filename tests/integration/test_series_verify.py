"""Looking at a ledger: damage that is named, what is not so and found, who may read it, and how large it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.errors import StorageError
from microagg_core.plain import to_plain
from microagg_core.series.atoms import FIRST_NUMBER, from_number
from microagg_core.series.generations import Generation, UnitCounts
from microagg_core.series.ledger import Ledger, last_sound
from microagg_core.series.units import NO_ATOM, WITH_ATOM, State, empty_range
from microagg_core.series.verification import exit_code_of, status_of, verify_ledger
from microagg_core.store.layout import LedgerLayout
from releasing.nights import (
    FROZEN,
    atoms_of,
    change_night,
    commit_as_it_is,
    generation_of,
    make_night,
    refused,
    units,
    with_column,
    with_value,
    write_atoms,
    write_ranges,
)

# Damage.


def three_nights(ledger: Ledger) -> list[Generation]:
    return [make_night(ledger, units(30, night=night, seed=night), n_ranges=2) for night in range(3)]


@pytest.mark.parametrize("night", [0, 1])
def test_a_lost_document_is_missed(night: int, ledger: Ledger) -> None:
    three_nights(ledger)
    ledger.store.delete(LedgerLayout(night).generation())
    with pytest.raises(StorageError, match=rf"0000{night}.json is missing.*microagg series rebuild"):
        ledger.head()
    assert refused(ledger) == ["chain"] and exit_code_of(verify_ledger(ledger)) == 5


def test_a_damaged_document_is_refused(on_disk: Ledger) -> None:
    three_nights(on_disk)
    for data in (b"", b"{", b"{}", b"[]", b"\xff", b'{"night": 2}'):
        on_disk.store.put(LedgerLayout(2).generation(), data)
        with pytest.raises(StorageError, match=r"00002.json is damaged.*microagg series rebuild"):
            on_disk.head()
    on_disk.store.put(LedgerLayout(2).generation(), on_disk.store.read(LedgerLayout(1).generation()))
    with pytest.raises(StorageError, match="is the document of another night"):
        on_disk.head()


def test_a_document_leads_nowhere_else(on_disk: Ledger) -> None:
    made = three_nights(on_disk)[2]
    for name in ("../secrets", "key", "/etc/passwd", LedgerLayout(3).range(0, "ab" * 32)):
        units_of_it = ((replace(made.ranges[0][0], name=name),), made.ranges[1])
        later = (made.ranges[0], (*made.ranges[1], replace(made.ranges[1][0], name=name)))
        atoms = (replace(made.atoms[0], name=name), made.atoms[1])
        for elsewhere in (replace(made, ranges=units_of_it), replace(made, ranges=later), replace(made, atoms=atoms)):
            on_disk.store.put(LedgerLayout(2).generation(), elsewhere.to_bytes())
            with pytest.raises(StorageError, match="is the document of another night"):
                on_disk.head()


def test_a_forked_chain_is_seen(ledger: Ledger) -> None:
    made = three_nights(ledger)
    forked = replace(made[0], run_key="another")
    ledger.store.put(LedgerLayout(0).generation(), forked.to_bytes())
    assert ledger.head() == made[2], "the head looks one night back; verify looks back to the first"
    assert refused(ledger) == ["chain"]
    ledger.store.put(LedgerLayout(1).generation(), replace(made[1], run_key="another").to_bytes())
    with pytest.raises(StorageError, match=r"00002.json does not follow the document of the night before"):
        ledger.head()


def damage_of(ledger: Ledger, name: str, damage: str, other: str) -> None:
    data = ledger.store.read(name)
    bad = {
        "cut short": data[:-8],
        "changed": data[:200] + b"x" + data[201:],
        "another night's": ledger.store.read(other),
    }
    ledger.store.delete(name)
    if damage in bad:
        ledger.store.put(name, bad[damage])


@pytest.mark.parametrize("damage", ["missing", "cut short", "changed", "another night's"])
@pytest.mark.parametrize("kind", ["p", "a"], ids=["units", "atoms"])
def test_a_damaged_range_is_never_read(kind: str, damage: str, on_disk: Ledger) -> None:
    ledger, made = on_disk, three_nights(on_disk)
    bad, other = (night.ranges[1][0] if kind == "p" else night.atoms[1] for night in (made[2], made[1]))
    damage_of(ledger, bad.name, damage, other.name)
    reads: dict[str, list[Callable[[], object]]] = {
        "p": [lambda: ledger.read_range(made[2], 1, 2)],
        "a": [lambda: ledger.read_atoms(made[2], 3, 4)],
    }
    for read in (*reads[kind], lambda: list(ledger.units_with_atoms(made[2]))):
        with pytest.raises(
            StorageError, match=rf"{kind}00001-\w+.arrows is (missing|damaged).*microagg series rebuild"
        ):
            read()
    reads["a" if kind == "p" else "p"][0]()
    assert ledger.read_range(made[2], 0, 2).num_rows == made[2].ranges[0][0].rows
    assert ledger.read_atoms(made[2], 0, 2).num_rows == made[2].atoms[0].rows
    assert refused(ledger) == ["ranges", "atoms", "counts", "traces"] and exit_code_of(verify_ledger(ledger)) == 5
    assert last_sound(ledger) == made[1]


@pytest.mark.parametrize("which", [0, 1], ids=["old", "new"])
def test_of_a_range_in_many_files_none_may_be_damaged(which: int, ledger: Ledger) -> None:
    table = units(30)
    make_night(ledger, table)
    changed = with_value(table, 3, row=5)
    second = change_night(ledger, changed.slice(3, 1), changed)
    assert len(second.ranges[0]) == 2 and refused(ledger) == []
    damage_of(ledger, second.ranges[0][which].name, "cut short", second.ranges[0][which].name)
    with pytest.raises(StorageError, match=rf"data/0000{which}/p00000-\w+.arrows is damaged"):
        ledger.read_range(second, 0, 1)
    assert refused(ledger) == ["ranges", "atoms", "counts", "traces"]
    assert (last_sound(ledger) is None) == (which == 0)


def test_all_that_cannot_be_read_is_told(on_disk: Ledger) -> None:
    made = three_nights(on_disk)[2]
    for file in (made.ranges[0][0], *made.atoms):
        on_disk.store.delete(file.name)
    told = next(check.detail for check in verify_ledger(on_disk) if check.name == "ranges")
    assert told.count("is missing from the ledger") == 3


# What a document says of its units.


def states(table: pa.Table, *changes: tuple[int, int], last: int = 0) -> pa.Table:
    """The units in other states; who is not live any more does not go with an atom."""
    for place, state in changes:
        table = with_value(table, place, state=state, last=last)
    return table


def apart(table: pa.Table, place: int) -> pa.Table:
    return with_value(table, place, atom=int(from_number(np.array([77], dtype=np.uint64), FIRST_NUMBER + 999)[0]))


def test_a_ledger_of_all_states_is_sound(ledger: Ledger) -> None:
    table = states(units(36, k=6, n_held=4), (0, State.GONE), (1, State.FORGOTTEN), (5, State.GONE))
    make_night(ledger, table, n_ranges=2)
    assert refused(ledger) == []
    found = status_of(ledger)
    assert found is not None
    assert (found.live, found.gone, found.held, found.forgotten) == (29, 2, 4, 1) and found.smallest_trace == 3
    assert found.nights == 1 and found.release_id == "day-0" and found.k == 3 and found.url.endswith("/ledger")
    assert to_plain(found)["bytes"] == sum(ledger.store.size(name) or 0 for name in ledger.store.list("data"))


@pytest.mark.parametrize(
    ("wrong", "changes", "failed"),
    [
        (lambda t: t, {"smallest_trace": 4}, {"traces"}),
        (lambda t: t, {"smallest_trace": None, "frozen": replace(FROZEN, k=4)}, {"traces"}),
        (lambda t: t, {"counts": UnitCounts(released=29, held=1)}, {"counts"}),
        (lambda t: apart(t, 0), {"smallest_trace": 1}, {"traces"}),
        (lambda t: states(t, (0, 9)), {"smallest_trace": 1}, {"states", "traces"}),
        (lambda t: states(t, (0, State.REMOVED)), {"smallest_trace": 1}, {"states", "traces"}),
        (lambda t: states(t, (0, State.HELD), last=-1), {"smallest_trace": 2}, {"states", "traces"}),
        (lambda t: states(t, *((i, State.GONE) for i in range(3)), last=WITH_ATOM), {}, {"states"}),
        (lambda t: with_column(t, "since", [1] * 30), {"frozen": replace(FROZEN, mode="independent")},
         {"states", "atoms"}),
        (lambda t: with_column(t, "last", [7] * 30), {"counts": UnitCounts(withheld=30)}, {"counts"}),
        (lambda t: with_value(t, 0, atom=NO_ATOM), {"smallest_trace": 1},
         {"states", "atoms", "traces"}),
        (lambda t: with_value(t, 0, state=State.GONE, last=0, atom=NO_ATOM), {"smallest_trace": 1},
         {"states", "traces"}),
    ],
    ids=["trace said", "k", "counts", "rare trace", "state", "removed", "held", "gone with its atom", "since", "last",
         "live and never released", "gone and never released"],
)  # fmt: skip
def test_what_is_not_so_is_found(
    wrong: Callable[[pa.Table], pa.Table], changes: dict[str, object], failed: set[str], on_disk: Ledger
) -> None:
    make_night(on_disk, wrong(units(30)), **changes)
    assert set(refused(on_disk)) == failed
    assert exit_code_of(verify_ledger(on_disk)) == 4


def without_one(atoms: pa.Table) -> pa.Table:
    return atoms.slice(1)


@pytest.mark.parametrize(
    ("wrong", "changes", "failed"),
    [
        (lambda a: with_value(a, 4, n=2), {}, {"atoms"}),
        (lambda a: with_value(a, 4, n=4), {}, {"atoms"}),
        (lambda a: with_value(a, 4, last=1), {"counts": UnitCounts(released=27, withheld=3)}, {"states", "atoms"}),
        (lambda a: with_value(a, 4, since=1), {}, {"atoms"}),
        (lambda a: with_value(a, 4, since=-1), {}, {"atoms"}),
        (lambda a: with_value(a, 4, k0=int(a["k0"][4].as_py()) ^ 2**63), {}, {"atoms"}),
        (without_one, {"counts": UnitCounts(released=27, withheld=3)}, {"states"}),
        (lambda a: pa.concat_tables([a, with_value(a.slice(0, 1), 0, atom=int(a["atom"][0].as_py()) + 2**40)]), {},
         {"atoms"}),
    ],
    ids=["too few", "too many", "a later night", "since after last", "since before all", "a class of another range",
         "an atom that is not there", "an atom of nobody"],
)  # fmt: skip
def test_atoms_that_are_not_so_are_found(
    wrong: Callable[[pa.Table], pa.Table], changes: dict[str, object], failed: set[str], on_disk: Ledger
) -> None:
    table = units(30)
    make_night(on_disk, table, atoms=wrong(atoms_of(table, 0)), **changes)
    assert set(refused(on_disk)) == failed
    assert exit_code_of(verify_ledger(on_disk)) == 4


@pytest.mark.parametrize("mode", ["atoms", "disjoint"])
def test_where_units_are_released_once_atoms_count_who_is_gone(mode: str, on_disk: Ledger) -> None:
    table = units(30)
    gone = states(table, *((i, State.GONE) for i in range(30)))
    make_night(on_disk, gone, atoms=atoms_of(table, 0), frozen=replace(FROZEN, mode=mode))
    assert refused(on_disk) == ([] if mode == "disjoint" else ["atoms"])


@pytest.mark.parametrize("kind", ["units", "atoms"])
def test_what_is_in_the_wrong_range_is_found(kind: str, on_disk: Ledger) -> None:
    table = units(30)
    atoms = atoms_of(table, 0)
    files, of_atoms = write_ranges(on_disk, 0, table, 1), write_atoms(on_disk, 0, atoms)
    if kind == "units":
        files = ((on_disk.write_range(0, 0, table),), (on_disk.write_range(0, 1, empty_range(0)),))
    else:
        of_atoms = (on_disk.write_atoms(0, 0, atoms), on_disk.write_atoms(0, 1, atoms.slice(0, 0)))
    commit_as_it_is(on_disk, generation_of(0, files, of_atoms, "", counts=UnitCounts(released=30)))
    assert refused(on_disk) == ["units"]


def test_rare_traces_of_who_is_gone_are_history_and_without_a_promise_none_matters(on_disk: Ledger) -> None:
    make_night(on_disk, states(apart(units(31), 30), (30, State.GONE)), smallest_trace=1)
    assert refused(on_disk) == []
    rare = apart(units(30, night=1), 0)
    make_night(on_disk, rare, smallest_trace=1, frozen=replace(FROZEN, mode="independent"))
    assert refused(on_disk) == []


def test_a_smaller_k_and_another_key_are_found(on_disk: Ledger) -> None:
    make_night(on_disk, units(30))
    make_night(on_disk, units(30, night=1), frozen=replace(FROZEN, k=2))
    assert refused(on_disk) == ["chain"]
    make_night(on_disk, units(30, night=2), key_fingerprint="f" * 16)
    assert "another key" in verify_ledger(on_disk)[0].detail


# Privacy and size.


def test_no_name_and_no_document_holds_a_unit(on_disk: Ledger) -> None:
    ledger, table = on_disk, units(60)
    make_night(ledger, table, n_ranges=4)
    names = ledger.store.list()
    text = "\n".join([*names, *(ledger.store.read(name).decode() for name in names if name.endswith(".json"))])
    atoms = atoms_of(table, 0)
    # The 16 bits of the second word are in any text by chance.
    for column in (table["u0"], table["row"], atoms["k0"], atoms["k1"]):
        for value in column.to_pylist():
            assert str(value) not in text and f"{value:x}" not in text


def test_a_unit_takes_at_most_40_bytes_and_one_that_survives_none(on_disk: Ledger) -> None:
    table = units(50_000, n_columns=3, k=5)
    head = make_night(on_disk, table, smallest_trace=5)
    assert head.n_ranges == 1 and head.n_bytes / 50_000 <= 40
    found = status_of(on_disk)
    assert found is not None and 30 < found.bytes_per_unit <= 40
    changed = with_value(table, 0, row=1)
    after = change_night(on_disk, changed.slice(0, 1), changed)
    new = sum(file.bytes for file in after.files if file.name.startswith("data/00001/p"))
    assert 0 < new < 3_000 and after.n_bytes - head.n_bytes < 3_000
