"""What a night changes in the ledger of a series: it writes that alone, and read is as if it wrote everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.series.ledger import Ledger, clear_unnamed
from microagg_core.series.units import NO_ATOM, WITH_ATOM, State, latest_of, range_of
from microagg_core.store.layout import LedgerLayout, night_of
from releasing.nights import (
    Files,
    atoms_of,
    change_night,
    commit_as_it_is,
    generation_of,
    make_night,
    refused,
    sorted_units,
    units,
    with_column,
    with_value,
    write_atoms,
    write_changes,
)


def names(files: Files) -> list[list[int | None]]:
    return [[night_of(file.name) for file in of_range] for of_range in files]


def removed(table: pa.Table) -> pa.Table:
    return with_column(table, "state", [State.REMOVED] * table.num_rows)


def after_changes(table: pa.Table, changes: pa.Table) -> pa.Table:
    """The slow way: units by their digests, one after the other."""
    by_unit = {(row["u0"], row["u1"]): row for row in table.to_pylist()}
    for row in changes.to_pylist():
        by_unit[row["u0"], row["u1"]] = row
    rows = [row for row in by_unit.values() if row["state"] != State.REMOVED]
    return sorted_units(pa.Table.from_pylist(rows, schema=table.schema))


def all_units(ledger: Ledger, n_ranges: int = 0) -> pa.Table:
    """All units of the newest night, read range by range."""
    head = ledger.head()
    assert head is not None
    n_ranges = n_ranges or head.n_ranges
    return pa.concat_tables([ledger.read_range(head, i, n_ranges) for i in range(n_ranges)]).combine_chunks()


# Only what changed is written.


def test_a_night_with_few_changes_writes_only_these(ledger: Ledger) -> None:
    table = units(120, n_columns=1, n_held=6)
    first = make_night(ledger, table, n_ranges=4)
    mine = np.flatnonzero(range_of(table["u0"].to_numpy(), 4) == 2)[:2]
    changed = with_value(with_value(table, int(mine[0]), row=5), int(mine[1]), d0=6)
    before = set(ledger.store.list())
    second = change_night(ledger, changed.take(pa.array(mine)), changed)
    new = second.ranges[2][1]
    assert set(ledger.store.list()) - before == {
        new.name, "generations/00001.json", *(file.name for file in second.atoms)
    }  # fmt: skip
    assert new.rows == 2 and second.ranges == (*first.ranges[:2], (*first.ranges[2], new), first.ranges[3])
    assert all_units(ledger).equals(sorted_units(changed)) and refused(ledger) == []
    whole = [ledger.write_range(1, i, ledger.read_range(second, i, 4)) for i in range(4)]
    same = [ledger.write_range(1, i, part) for i, part in enumerate(parts_of(changed, 4))]
    assert whole == same, "what is read is what a ledger that is written whole would hold, to the byte"


def parts_of(table: pa.Table, n_ranges: int) -> list[pa.Table]:
    number = range_of(table["u0"].to_numpy(), n_ranges)
    return [table.filter(pa.array(number == i)) for i in range(n_ranges)]


def test_a_night_without_changes_writes_no_units(on_disk: Ledger) -> None:
    table = units(30)
    first = make_night(on_disk, table, n_ranges=2)
    second = change_night(on_disk, table.slice(0, 0), table)
    assert second.ranges == first.ranges and {night_of(file.name) for file in second.atoms} == {1}
    assert refused(on_disk) == []


def test_changes_of_a_first_night_are_all_units(on_disk: Ledger) -> None:
    table = units(30)
    (file,) = on_disk.write_changes(None, 0, 0, 1, table)
    assert file == on_disk.write_range(0, 0, table)


@pytest.mark.parametrize("seed", range(2))
def test_read_is_what_the_slow_way_gives(seed: int, on_disk: Ledger) -> None:
    """Units come, change, leave and come again, for many nights, with ranges that are halved in between."""
    draw = np.random.default_rng(seed)
    everybody = units(300, n_columns=1, seed=seed)
    expected = everybody.slice(0, 200)
    make_night(on_disk, expected, n_ranges=2)
    n_ranges, appended = 2, 0
    for night in range(1, 40):
        changes = everybody.take(pa.array(draw.choice(300, int(draw.integers(0, 5)), replace=False)))
        changes = with_column(changes, "row", draw.integers(0, 2**63, changes.num_rows))
        leave = pa.array(draw.random(changes.num_rows) < 0.4)
        changes = pa.concat_tables([removed(changes.filter(leave)), changes.filter(pa.compute.invert(leave))])
        expected = after_changes(expected, changes)
        n_ranges *= 2 if night in (13, 29) else 1
        head = change_night(on_disk, changes, expected, n_ranges)
        appended += max(map(len, head.ranges)) > 2
        clear_unnamed(on_disk)
        assert all_units(on_disk).equals(expected) and all_units(on_disk, 4 * n_ranges).equals(expected)
        assert set(refused(on_disk)) <= {"traces"}
    assert appended > 5


# When a range is written anew.


def test_a_range_is_written_anew_when_more_than_a_quarter_changed(on_disk: Ledger) -> None:
    table = units(40)
    make_night(on_disk, table)
    nights = []
    for i in range(4):
        table = with_column(table, "row", np.asarray(table["row"]) ^ np.uint64(1 << i))
        nights.append(names(change_night(on_disk, table.slice(5 * i, 5), table).ranges)[0])
        assert all_units(on_disk).num_rows == 40
    assert nights == [[0, 1], [0, 1, 2], [3], [3, 4]]
    for n, expected in ((5, [3, 4, 5]), (6, [5])):
        files = names(write_changes(on_disk, table.slice(0, n), 1))[0]
        assert files == expected, "a quarter is all that may be changed, with what changed before"


def test_a_range_is_written_anew_after_thirty_nights(on_disk: Ledger) -> None:
    table = units(300)
    make_night(on_disk, table)
    for night in range(1, 34):
        table = with_value(table, night, row=night)
        head = change_night(on_disk, table.slice(night, 1), table)
        assert names(head.ranges)[0] == [*range(night + 1)] if night <= 30 else [*range(31, night + 1)]
        clear_unnamed(on_disk)
    assert all_units(on_disk).equals(sorted_units(table)) and refused(on_disk) == []
    assert names(head.ranges) == [[31, 32, 33]]
    kept = {night_of(name) for name in on_disk.store.list("data")}
    assert kept == {31, 32, 33}


def test_how_much_changed_is_counted_by_range(on_disk: Ledger) -> None:
    table = units(80)
    make_night(on_disk, table, n_ranges=2)
    first, second = parts_of(table, 2)
    changes = pa.concat_tables([first, second.slice(0, 1)])
    head = change_night(on_disk, changes, table)
    assert names(head.ranges) == [[1], [0, 1]] and head.ranges[0][0].rows == first.num_rows


def test_ranges_that_are_halved_are_written_anew(on_disk: Ledger) -> None:
    table = units(100)
    make_night(on_disk, table, n_ranges=2)
    changed = with_value(table, 0, row=1)
    change_night(on_disk, changed.slice(0, 1), changed)
    halved = with_value(changed, 1, row=2)
    head = change_night(on_disk, halved.slice(1, 1), halved, n_ranges=4)
    assert names(head.ranges) == [[2]] * 4 and all_units(on_disk).equals(sorted_units(halved))
    assert refused(on_disk) == []


# Who is removed.


def test_who_is_removed_is_gone(ledger: Ledger) -> None:
    table = units(60, n_held=6)
    make_night(ledger, table)
    left = table.slice(58, 2)
    head = change_night(ledger, removed(left), stay := table.slice(0, 58))
    assert names(head.ranges) == [[0, 1]] and all_units(ledger).equals(sorted_units(stay)) and refused(ledger) == []
    back = with_column(left, "since", [2, 2])
    change_night(ledger, back, pa.concat_tables([stay, back]))
    assert all_units(ledger).num_rows == 60 and refused(ledger) == []
    whole = removed(table.slice(54, 6))
    head = change_night(ledger, pa.concat_tables([whole, stay.slice(0, 20)]), table.slice(0, 54))
    assert names(head.ranges) == [[3]] and head.ranges[0][0].rows == 54 and refused(ledger) == []


def test_the_last_word_on_a_unit_counts() -> None:
    table = sorted_units(units(6))
    words = [table, table.slice(1, 2), with_value(table.slice(1, 2), 0, row=7), removed(table.slice(2, 1))]
    assert latest_of(words).equals(pa.concat_tables([with_value(table.slice(0, 2), 1, row=7), table.slice(3)]))
    again = with_value(table.slice(2, 1), 0, row=8)
    assert latest_of([*words, again]).num_rows == 6
    assert latest_of([table]).equals(table)


# What is cleared.


def test_only_the_last_two_nights_keep_their_units(ledger: Ledger) -> None:
    made = [make_night(ledger, units(30, night=night, seed=night), n_ranges=2) for night in range(4)]
    ledger.store.put(LedgerLayout(1).range(0, "ef" * 32), b"of a run that lost")
    assert clear_unnamed(ledger) == 9 and clear_unnamed(ledger) == 0
    kept = sorted(file.name for generation in made[2:] for file in generation.files)
    assert ledger.store.list("data") == kept and ledger.nights() == [0, 1, 2, 3]
    assert refused(ledger) == []


def test_a_night_that_is_taken_back_leaves_the_units_of_the_one_before(ledger: Ledger) -> None:
    published = make_night(ledger, units(30))
    make_night(ledger, units(30, night=1, seed=1))
    clear_unnamed(ledger)
    void = replace(published, night=2, kind="void", parent=ledger.parent_of(2))
    assert ledger.commit(void) and clear_unnamed(ledger) == 0
    assert refused(ledger) == [] and ledger.read_range(void, 0, 1).equals(ledger.read_range(published, 0, 1))
    make_night(ledger, units(30, night=3, seed=3))
    assert clear_unnamed(ledger) == 3 and ledger.read_range(void, 0, 1).num_rows == 30


def test_files_of_earlier_nights_stay_while_the_last_two_nights_name_them(ledger: Ledger) -> None:
    table = units(40)
    made = [make_night(ledger, table, n_ranges=2)]
    for night in range(1, 5):
        table = with_value(table, night, row=night)
        made.append(change_night(ledger, table.slice(night, 1), table))
        clear_unnamed(ledger)
        kept = {file.name for generation in made[-2:] for file in generation.files}
        assert set(ledger.store.list("data")) == kept
    assert {night for files in names(made[-1].ranges) for night in files} >= {0, 4}
    assert {night_of(file.name) for file in made[-1].files if file.name.split("/")[2].startswith("a")} == {4}
    assert refused(ledger) == [] and all_units(ledger).equals(sorted_units(table))
    assert [ledger.read_range(made[3], i, 2).num_rows for i in range(2)] == [file.rows for (file, *_) in made[0].ranges]


def test_what_a_rival_changed_is_cleared_and_what_the_next_night_may_name_is_not(on_disk: Ledger) -> None:
    table = units(40)
    make_night(on_disk, table)
    lost = write_changes(on_disk, with_value(table, 0, row=1).slice(0, 1), 1)[0][1]
    won = change_night(on_disk, with_value(table, 0, row=2).slice(0, 1), with_value(table, 0, row=2))
    about_to_be = write_changes(on_disk, with_value(table, 0, row=3).slice(0, 1), 1)[0]
    assert about_to_be[:2] == won.ranges[0]
    assert clear_unnamed(on_disk) == 1 and not on_disk.store.exists(lost.name)
    assert all(on_disk.store.exists(file.name) for file in about_to_be)
    atoms = write_atoms(on_disk, 2, atoms_of(table, 2))
    commit_as_it_is(on_disk, generation_of(2, (about_to_be,), atoms, on_disk.parent_of(2)))


def test_a_unit_that_waited_and_came_is_one_change(on_disk: Ledger) -> None:
    """A night of a series: who waited is grouped with who is new, and one who left closes what was its atom's."""
    table = units(61, n_held=1)
    make_night(on_disk, table)
    came = units(3, seed=9, night=1)
    atom = int(came["atom"][0].as_py()) + 2**40
    waited = with_value(table.slice(60, 1), 0, atom=atom, state=State.LIVE, last=WITH_ATOM, since=1)
    came = with_column(came, "atom", [atom] * 3)
    gone = with_column(with_column(table.slice(0, 3), "state", [State.GONE] * 3), "last", [0] * 3)
    after = pa.concat_tables([table.slice(3, 57), waited, came, gone])
    head = change_night(on_disk, pa.concat_tables([waited, came, gone]), after)
    assert len(head.ranges[0]) == 2 and head.ranges[0][1].rows == 7
    assert (head.counts.released, head.counts.held, head.counts.vanished) == (61, 0, 3) and refused(on_disk) == []
    assert NO_ATOM not in all_units(on_disk)["atom"].to_pylist()
