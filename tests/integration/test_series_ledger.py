"""The ledger of a series: on a disk and on a real S3 server, against rivals and deaths."""

from __future__ import annotations

import pickle
import random
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.errors import StorageError
from microagg_core.series.atoms import no_atoms, range_of_atoms
from microagg_core.series.generations import Generation
from microagg_core.series.invariants import Census
from microagg_core.series.keys import local_key
from microagg_core.series.ledger import Ledger, clear_unnamed, ledger_of
from microagg_core.series.units import empty_range, n_ranges_for, range_of, range_schema
from microagg_core.series.verification import status_of, verify_ledger
from microagg_core.spec.loading import load_spec
from microagg_core.store.objects import Store, sha256_hex
from microagg_core.store.urls import is_local
from releasing.nights import (
    atoms_of,
    generation_of,
    make_night,
    refused,
    sorted_units,
    units,
    write_atoms,
    write_ranges,
    written,
)
from releasing.runs import write_release
from trouble.interleavings import Ended, Held, Program, Search, alone, walk_on

# What is written comes back.


def test_a_night_comes_back_as_it_was_written(ledger: Ledger) -> None:
    assert ledger.head() is None and ledger.nights() == [] and status_of(ledger) is None and verify_ledger(ledger) == []
    table = units(90, n_columns=2)
    first = make_night(ledger, table, n_ranges=4)
    assert ledger.head() == first == ledger.generation(0) == pickle.loads(pickle.dumps(ledger)).head()
    parts = [ledger.read_range(first, number, 4) for number in range(4)]
    assert pa.concat_tables(parts).combine_chunks().equals(sorted_units(table))
    assert [file.rows for (file,) in first.ranges] == [part.num_rows for part in parts] and sum(map(len, parts)) == 90
    of_atoms = [ledger.read_atoms(first, number, 2) for number in range(2)]
    assert pa.concat_tables(of_atoms).sort_by("atom").equals(atoms_of(table, 0)) and all(map(len, of_atoms))
    assert [file.rows for file in first.atoms] == [part.num_rows for part in of_atoms] and len(list(first.files)) == 6
    second = make_night(ledger, units(90, n_columns=2, night=1))
    assert ledger.head() == second and second.n_ranges == 4 and ledger.nights() == [0, 1]
    assert refused(ledger) == []


def test_the_very_same_night_is_committed_once(ledger: Ledger) -> None:
    make_night(ledger, units(30))
    table = units(60, night=1)
    generation = written(ledger, 1, table, 2)
    again = written(ledger, 1, table.take(pa.array(np.random.default_rng(1).permutation(60))), 2)
    assert again == generation and again.to_bytes() == generation.to_bytes()
    assert ledger.commit(generation) and not ledger.commit(again) and not ledger.commit(generation)


def test_a_range_without_units(on_disk: Ledger) -> None:
    ledger, n_columns = on_disk, 3
    head = make_night(ledger, empty_range(n_columns), smallest_trace=None)
    assert ledger.read_range(head, 0, 1).equals(empty_range(n_columns))
    assert ledger.read_range(head, 3, 4).schema == range_schema(n_columns)
    assert ledger.read_atoms(head, 0, 2).equals(no_atoms()) and ledger.read_atoms(head, 3, 4).equals(no_atoms())
    assert refused(ledger) == []


def test_ranges_that_are_halved(on_disk: Ledger) -> None:
    table = units(900)
    first = make_night(on_disk, table.slice(0, 150), n_ranges_for(150, most=100))
    assert first.n_ranges == 2
    second = make_night(on_disk, table, n_ranges_for(900, 2, most=100))
    assert second.n_ranges == 16
    for n_ranges in (16, 32, 256):
        parts = [on_disk.read_range(second, number, n_ranges) for number in range(n_ranges)]
        assert all((range_of(part["u0"].to_numpy(), n_ranges) == i).all() for i, part in enumerate(parts))
        assert pa.concat_tables(parts).combine_chunks().equals(sorted_units(table))
        parts = [on_disk.read_atoms(second, number, n_ranges) for number in range(n_ranges)]
        assert all((range_of_atoms(np.asarray(part["atom"]), n_ranges) == i).all() for i, part in enumerate(parts))
        assert (
            pa.concat_tables(parts)
            .sort_by("atom")
            .equals(pa.concat_tables(on_disk.ranges_of_atoms(second)).sort_by("atom"))
        )
    for number, n_ranges in ((0, 8), (0, 48), (16, 16), (-1, 16)):
        with pytest.raises(ValueError, match="halved"):
            on_disk.read_range(second, number, n_ranges)
    for number, n_ranges in ((0, 1), (0, 3), (2, 2), (-1, 2)):
        with pytest.raises(ValueError, match="halved"):
            on_disk.read_atoms(second, number, n_ranges)


def test_a_document_has_files_for_each_range(on_disk: Ledger) -> None:
    table = units(30)
    files, (atoms,) = write_ranges(on_disk, 0, table, 2), write_atoms(on_disk, 0, atoms_of(table, 0))
    for n_ranges, named in ((1, files), (2, files[:1]), (0, ()), (2, (files[0], ()))):
        with pytest.raises(ValueError, match="a file for each of its ranges"):
            generation_of(0, named, [atoms], "", n_ranges=n_ranges)
    with pytest.raises(ValueError, match="a file for each of its ranges"):
        generation_of(0, files, [], "")
    for named, of_atoms in (((*files, files[0]), 1), (files, 3)):
        with pytest.raises(ValueError, match="power of two"):
            generation_of(0, named, [atoms] * of_atoms, "")


# Rivals.


def test_of_different_nights_one_wins(ledger: Ledger) -> None:
    make_night(ledger, units(30))
    rivals = [written(ledger, 1, units(30, night=1, seed=seed), run_key=f"run{seed}") for seed in range(3)]

    def outcome(generation: Generation) -> str:
        try:
            return "won" if ledger.commit(generation) else "there"
        except StorageError as error:
            assert "another night of the series people was committed meanwhile" in error.message
            return "lost"

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(outcome, [*rivals, *rivals]))
    assert outcomes.count("won") == outcomes.count("there") == 1 and outcomes.count("lost") == 4
    assert ledger.head() in rivals
    assert clear_unnamed(ledger) == 4 and refused(ledger) == []


def test_who_reads_what_later_nights_cleared_is_told_so(on_disk: Ledger) -> None:
    first = make_night(on_disk, units(30))
    for night in (1, 2):
        make_night(on_disk, units(30, night=night, seed=night))
    clear_unnamed(on_disk)
    with pytest.raises(StorageError, match=r"later nights of the series people .* run again"):
        on_disk.read_range(first, 0, 1)
    with pytest.raises(StorageError, match=r"later nights of the series people .* run again"):
        on_disk.read_atoms(first, 0, 2)


@pytest.mark.parametrize("parent", ["", "ab" * 32])
def test_a_night_that_does_not_follow_is_not_committed(parent: str, ledger: Ledger) -> None:
    first = make_night(ledger, units(30))
    following = written(ledger, 1, units(30))
    with pytest.raises(StorageError, match="would not follow"):
        ledger.commit(replace(following, parent=parent))
    with pytest.raises(StorageError, match=r"00001.json is missing.*microagg series rebuild"):
        ledger.commit(generation_of(2, first.ranges, first.atoms, parent))
    assert ledger.nights() == [0]


@dataclass(frozen=True)
class Forgiving(Store):
    """A store that overwrites what it was asked to create."""

    def create(self, name: str, data: bytes) -> bool:
        self.put(name, data)
        return True


@pytest.mark.parametrize("night", [0, 1])
def test_a_store_that_lets_two_create_is_refused(night: int, on_disk: Ledger) -> None:
    if night:
        make_night(on_disk, units(30))
    before = on_disk.head()
    weak = Ledger(Forgiving(on_disk.store.url, private=True), "people")
    with pytest.raises(StorageError, match="does not honour conditional creation"):
        weak.commit(written(weak, night, units(30)))
    assert night == 0 or on_disk.head() == before


def night_of_a_run(content: int) -> Program:
    """A run that adds a night to what it finds, and clears; the same content is the same night.

    The first night writes all units, and the others what they change.
    """

    def run(store: Store) -> tuple[Generation, bool]:
        ledger = Ledger(store, "people")
        head = ledger.head()
        night = head.night + 1 if head else 0
        changes = units(1 if night else 6, night=night, seed=content)
        files = ledger.write_changes(head, night, 0, 1, changes)
        atoms = ledger.write_atoms(night, 0, atoms_of(changes, night))
        generation = generation_of(night, (files,), [atoms], ledger.parent_of(night), run_key=f"run{content}")
        created = ledger.commit(generation, Census())  # the content is no matter here
        clear_unnamed(ledger)
        return generation, created

    return run


def chain_of(held: Held) -> list[Generation]:
    """The generations of a store that is a value; fails where the chain is broken, or its last two lack units."""
    objects = dict(held)
    documents = sorted(name for name in objects if name.startswith("generations/"))
    chain = [Generation.from_bytes(objects[name], night, "model") for night, name in enumerate(documents)]
    for night, generation in enumerate(chain):
        assert generation.parent == (sha256_hex(objects[documents[night - 1]]) if night else "")
    for generation in chain[-2:]:
        assert all(sha256_hex(objects[file.name]) == file.sha256 for file in generation.files)
    return chain


def watch(before: Held, after: Held) -> None:
    documents = {item for item in before if item[0].startswith("generations/")}
    assert documents <= after, "a document was changed or removed"
    chain_of(after)


class Race:
    """A search through all that can happen to runs, with what must hold at every step and at every end."""

    def __init__(self, programs: list[Program], remote: bool) -> None:
        self.url = "s3://model" if remote else "/model"
        self.endings: set[str] = set()
        self.search = Search(programs, self.url, watch, self.ended)

    def ended(self, program: int, end: Ended, held: Held, smoothly: bool) -> None:
        if end.error is None:
            generation, created = end.value
            assert generation in chain_of(held), "it says committed, and is not"
            self.endings.add("created" if created else "there")
            return
        assert isinstance(end.error, StorageError | KeyboardInterrupt), end.error
        self.endings.add("lost" if "committed meanwhile" in str(end.error) else type(end.error).__name__)

    def assert_another_run_goes_on(self) -> None:
        for held in self.search.stores():
            again, after = alone(night_of_a_run(9), self.url, held)
            assert again.error is None, again.error
            chain = chain_of(after)
            named = {file.name for generation in chain[-2:] for file in generation.files}
            assert {name for name, _ in after if name.startswith("data/")} <= named, "something is left"


EMPTY: Held = frozenset()


@pytest.mark.parametrize("remote", [False, True], ids=["disk", "remote"])
@pytest.mark.parametrize("contents", [(0, 0), (0, 1)], ids=["same", "different"])
@pytest.mark.parametrize("nights", [0, 1])
def test_every_interleaving_of_two(nights: int, contents: tuple[int, int], remote: bool) -> None:
    """With deaths everywhere, and one request that fails, succeeds unheard, is interrupted, or arrives much later."""
    race = Race([night_of_a_run(content) for content in contents], remote)
    held = EMPTY
    for night in range(nights):
        held = alone(night_of_a_run(7 + night), race.url, held)[1]
    assert race.search.everything(held, faults=1) > 200
    assert {"created", "TransientStorageError", "KeyboardInterrupt"} <= race.endings
    assert ("there" if contents == (0, 0) else "lost") in race.endings
    race.assert_another_run_goes_on()


def test_three_at_random() -> None:
    race = Race([night_of_a_run(content) for content in (0, 0, 1)], remote=True)
    held = alone(night_of_a_run(7), race.url, EMPTY)[1]
    assert sum(race.search.walks(held, faults, n_walks=800, seed=1) for faults in (0, 1, 2)) > 1500
    assert {"created", "lost"} <= race.endings
    race.assert_another_run_goes_on()


def test_walks_over_a_real_store(ledger: Ledger) -> None:
    programs = [night_of_a_run(content) for content in (0, 1, 0)]
    ends = walk_on(ledger.store, programs, 2, random.Random(0), lambda: None)
    assert all(not isinstance(end, Ended) or end.error is None or isinstance(end.error, StorageError) for end in ends)
    generation, _ = night_of_a_run(9)(ledger.store)
    assert ledger.head() == generation and "ranges" not in refused(ledger) and "chain" not in refused(ledger)


# Deaths and clearing.


@pytest.mark.parametrize("which", [1, 2], ids=["units", "atoms"])
def test_a_document_that_names_what_is_not_there_is_not_written(which: int, ledger: Ledger) -> None:
    generation = written(ledger, 0, units(30), 2)
    name = [file.name for file in generation.files][which]
    ledger.store.put(name, ledger.store.read(name)[:-1])
    for _ in range(2):  # cut short, then missing
        with pytest.raises(StorageError, match="was not committed; run again"):
            ledger.commit(generation)
        ledger.store.delete(name)
    assert ledger.head() is None


# The key of a ledger that is given none.


def test_a_key_is_made_once(ledger: Ledger) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: local_key(ledger.store), range(8)))
    assert len(keys) == 1 and len(keys.pop()) == 32
    if is_local(ledger.store.url):
        assert stat.S_IMODE((Path(ledger.store.url) / "key").stat().st_mode) == 0o600


def test_a_damaged_key_is_not_replaced(on_disk: Ledger) -> None:
    local_key(on_disk.store)
    for damage in (b"", b"zz" * 32, b"ab" * 31, b"\xff" * 64):
        on_disk.store.put("key", damage)
        with pytest.raises(StorageError, match=r"key is damaged.*restore it"):
            local_key(on_disk.store)
        assert on_disk.store.read("key") == damage


def test_a_lost_key_is_not_made_again(on_disk: Ledger) -> None:
    local_key(on_disk.store)
    make_night(on_disk, units(30))
    on_disk.store.delete("key")
    with pytest.raises(StorageError, match=r"key is missing.*restore it"):
        local_key(on_disk.store)
    assert not on_disk.store.exists("key")


def test_the_default_place_is_in_the_work_area(tmp_path: Path) -> None:
    spec = load_spec(str(write_release(tmp_path, [pa.table({"id": ["a"]})])))
    ledger = ledger_of(spec)
    assert ledger == Ledger(Store(str(tmp_path / "work" / "series" / "test"), private=True), "test")
