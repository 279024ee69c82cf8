"""The atoms after a night, range by range: how many units are of each, and whether every trace has its k.

A unit's trace is its atom, and the night in which it left that. So traces are counted by looking at the atoms of which
the candidate files do not hold what they held before: all others are shared by as many units as ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, Pairs, UInt64s
from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.errors import InternalError
from microagg_core.plain import from_json, to_json
from microagg_core.release.steps.shuffling import gather_slices, read_slices
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.atoms import atoms_table, from_number, places_of_atoms
from microagg_core.series.census import Census, census_of_atoms
from microagg_core.series.digests import numbered_pairs
from microagg_core.series.generations import RangeFile, UnitCounts
from microagg_core.series.joining import as_columns, pairs_of
from microagg_core.series.marks import ATOM
from microagg_core.series.night import Night
from microagg_core.series.nights.knowing import layout_of, load_night
from microagg_core.series.nights.telling import ATOMS
from microagg_core.series.nights.tracing import CHANGES, COUNTS
from microagg_core.series.pairs import ABSENT


@dataclass(frozen=True)
class TraceNotes:
    """Of one range of atoms: the rarest trace of tonight, and how many units have one that fewer than k share."""

    #: The atoms after the night.
    file: RangeFile
    #: Live units that tonight released, and that it did not.
    counts: UnitCounts
    #: How many units share the rarest trace among those that tonight made or split; None: none.
    smallest: int | None
    units_below: int
    #: Atoms of which some units are released, and others may be later.
    split: int
    #: For each watched column, the classes in which some, but fewer than k, units changed.
    lone_changes: tuple[int, ...]
    #: Pairs of classes, of the last release and tonight's, that fewer units have than every night promised.
    thin_bundles: int
    #: Of all atoms of the range, read again.
    census: Census
    #: Released units that are not in tonight's input; and classes that hold one of them beside somebody who changed.
    ghosts: int = 0
    exposed: int = 0


def count_traces(task: Task) -> Receipt:
    """Make one range of the atoms, and count its traces."""
    night, _ = load_night(task)
    layout = layout_of(task)

    def gathered(number: int) -> pa.Table | None:
        wanted = task.slices.of_objects(number)
        return gather_slices(task.run, wanted, "trace", layout.traces_told)

    atoms = _Atoms.of(task, night, gathered(COUNTS))
    following, changes = atoms.following(), gathered(CHANGES)
    file = night.ledger.write_atoms(night.number, task.number, following)
    bundles = atoms.bundles()
    thin = np.asarray(bundles["n"]) < night.least_k
    smallest, below = atoms.rarest()
    notes = TraceNotes(
        file=file,
        counts=atoms.counts(following),
        smallest=smallest,
        units_below=below,
        split=int(atoms.is_split.sum()),
        thin_bundles=int(thin.sum()),
        census=census_of_atoms(night.ledger.read_atoms_file(file, night.number), night.number),
        **_changes(changes, atoms.before, night),
    )
    pieces = (
        task.put(layout.trace_notes(task.number), to_json(notes)),
        task.put(layout.bundles(task.number), to_bytes(_around(bundles, thin))),
    )
    return Receipt(task.step, task.number, following.num_rows, pieces)


@dataclass(frozen=True)
class _Atoms:
    """The atoms of a range before tonight, what the files have of them, and the new ones.

    Attributes:
        before: as the ledger has them.
        left: for each of them, how many units left it for good.
        seen: the atoms that the files do not hold as they were: their classes, with how many units; None where no
            file holds atoms.
        new: the new ones, one row an atom.
    """

    night: Night
    before: pa.Table
    left: Ints
    seen: pa.Table | None
    new: pa.Table

    @classmethod
    def of(cls, task: Task, night: Night, told: pa.Table | None) -> _Atoms:
        """Put together what ranges of units and files told."""
        before = night.read_atoms(task.number)
        left = np.zeros(before.num_rows, dtype=np.int64)
        new = atoms_table(*_NOTHING)
        if told is not None:
            gone = np.asarray(told["left"])
            place = places_of_atoms(np.asarray(told[ATOM])[gone > 0], before)
            if (place < 0).any():
                raise InternalError("a bug: units left an atom that the ledger does not know; please report it")
            np.add.at(left, place, gone[gone > 0])
            new = _new_atoms(task, night, told.filter(pa.array(gone == 0)))
        # Of a file of survivors that was checked, it reads this and nothing else.
        seen = [read_slice(task.pieces.read(piece.name)) for piece in task.reads if piece.step == "check-files"]
        return cls(night, before, left, seen[0] if seen else None, new)

    @cached_property
    def _n(self) -> Ints:
        return np.asarray(self.before["n"]).astype(np.int64)

    @cached_property
    def _n_out(self) -> Ints:
        """How many units of each atom are released with it."""
        if self.seen is None:
            return np.zeros_like(self._n)
        n_out, place = self._n.copy(), self._place_of_seen
        n_out[place] = 0
        np.add.at(n_out, place, np.asarray(self.seen["n"]))
        return n_out

    @cached_property
    def _place_of_seen(self) -> Ints:
        if self.seen is None:
            return np.zeros(0, dtype=np.int64)
        return places_of_atoms(np.asarray(self.seen[ATOM]), self.before)

    @cached_property
    def _n_after(self) -> Ints:
        after: Ints = self._n - (self.left if self.night.mode != "disjoint" else 0)
        return after

    @property
    def is_split(self) -> Bools:
        """Of which atoms some units are released, and others may be later; or more than there are."""
        return np.asarray((self._n_out > 0) & (self._n_out != self._n_after))

    def following(self) -> pa.Table:
        """The atoms after tonight; of which nobody is left, it need not be known any more."""
        kept = pa.array(self._n_after > 0)
        last = np.where(self._n_out > 0, self.night.number, np.asarray(self.before["last"]))
        since = np.asarray(self.before["since"])
        table = atoms_table(
            np.asarray(self.before[ATOM]), pairs_of(self.before, "k"), self._n_after, since, last.astype(np.int32)
        )
        return pa.concat_tables([table.filter(kept), self.new]).combine_chunks()

    def counts(self, following: pa.Table) -> UnitCounts:
        """How many live units are released and withheld."""
        if self.night.mode == "disjoint":
            return UnitCounts()
        n, is_out = np.asarray(following["n"]), np.asarray(following["last"]) == self.night.number
        return UnitCounts(released=int(n[is_out].sum()), withheld=int(n[~is_out].sum()))

    def rarest(self) -> tuple[int | None, int]:
        """How many units share the rarest trace that is new tonight, and how many have one that fewer than k share.

        Who was released under a smaller k, and is not tonight, shares his trace with as many as he was promised.
        """
        came, n_out = np.asarray(self.new["n"]), self._n_out
        parts = [came, *self._parts()]
        below = int(came[came < self.night.k].sum()) + int(n_out[(n_out > 0) & (n_out < self.night.k)].sum())
        below += sum(int(part[part < self.night.least_k].sum()) for part in self._parts())
        counted = np.concatenate(parts)
        return (int(counted.min()) if len(counted) else None), below

    def _parts(self) -> list[Ints]:
        """The units of atoms that are not together any more: who is not released tonight, and who is left."""
        if self.night.mode == "disjoint":
            return []
        if self.seen is None:  # everybody is grouped afresh
            broken = self.left > 0
            return [part[part > 0] for part in (self._n_after[broken],)]
        out, rest = self._n_out, self._n - self._n_out
        broken = ((out > 0) & (rest > 0)) | ((self.left > 0) & (self.left < self._n))
        halves = [np.where(out > 0, rest, self.left)[broken], np.where(out > 0, out, self._n - self.left)[broken]]
        return [part[part > 0] for part in halves]

    def bundles(self) -> pa.Table:
        """How many units went from each class of the last release to each of tonight's; to be absent is one, too."""
        night = self.night
        if night.mode == "independent":
            return _bundles(np.zeros((0, 2), np.uint64), np.zeros((0, 2), np.uint64), np.zeros(0, np.int64))
        was = (np.asarray(self.before["last"]) == night.previous) & (night.previous >= 0)
        klass = pairs_of(self.before, "k")
        before = np.where(was[:, None], klass, ABSENT)
        ends = [(np.repeat(ABSENT, self.new.num_rows, axis=0), pairs_of(self.new, "k"), np.asarray(self.new["n"]))]
        whole = self._n_out == self._n
        if self.seen is not None:
            place, n = self._place_of_seen, np.asarray(self.seen["n"])
            whole[place] = False
            ends.append((before[place][n > 0], pairs_of(self.seen, "k")[n > 0], n[n > 0]))
            ends.append((before[whole], klass[whole], self._n[whole]))
        rest = np.where(was, self._n - self._n_out, 0)
        some = rest > 0
        ends.append((before[some], np.repeat(ABSENT, int(some.sum()), axis=0), rest[some]))
        return _bundles(*(np.concatenate(column) for column in zip(*ends, strict=True)))


_NOTHING = (
    np.zeros(0, dtype=np.uint64), np.zeros((0, 2), dtype=np.uint64), np.zeros(0, dtype=np.int64),
    np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32),
)  # fmt: skip


def _new_atoms(task: Task, night: Night, told: pa.Table) -> pa.Table:
    """The atoms that came about tonight, with the classes that the files have."""
    if not told.num_rows:
        return atoms_table(*_NOTHING)
    atoms, first, number = np.unique(np.asarray(told[ATOM]), return_index=True, return_inverse=True)
    n = np.bincount(number, np.asarray(told["came"]), len(atoms)).astype(np.int64)
    since = np.asarray(told["since"])[first]
    numbers, classes = _classes(task)
    place = np.searchsorted(numbers, np.asarray(told["number"])[first])
    if (numbers[np.minimum(place, len(numbers) - 1)] != np.asarray(told["number"])[first]).any():
        raise InternalError("a bug: units came to an atom that no file has; please report it")
    nights = np.full(len(atoms), night.number, dtype=np.int32)
    return atoms_table(atoms, classes[place], n, since, nights)


def _classes(task: Task) -> tuple[UInt64s, Pairs]:
    """The classes of the files' new atoms, by the numbers that they have in the series, in ascending order."""
    firsts = from_json(list[int], task.pieces.read(layout_of(task).numbering()))
    numbers, classes = [], []
    of_atoms = task.sent_by("check-files").of_objects(ATOMS)
    tables = read_slices(task.run, of_atoms, "check-files", lambda number, _: layout_of(task).new_atoms(number))
    for one, table in zip(of_atoms, tables, strict=True):
        numbers.append(from_number(np.asarray(table[ATOM]), firsts[one.maker]))
        classes.append(pairs_of(table, "k"))
    of_all = np.concatenate(numbers)
    order = np.argsort(of_all)
    return of_all[order], np.concatenate(classes)[order]


def _bundles(before: Pairs, after: Pairs, n: Ints) -> pa.Table:
    """Each pair of classes once, with all its units."""
    ends = np.concatenate([before, after], axis=1)
    distinct, number = np.unique(ends, axis=0, return_inverse=True)
    counts = np.bincount(number.reshape(-1), n, len(distinct)).astype(np.int64)
    distinct = distinct.reshape(-1, 4)
    return pa.table({**as_columns(distinct[:, :2], "b"), **as_columns(distinct[:, 2:], "k"), "n": pa.array(counts)})


def _around(bundles: pa.Table, thin: Bools) -> pa.Table:
    """The bundles at the classes of thin ones: with no other can a thin one make a small sum."""
    marked = []
    for end in "bk":
        numbers, _ = numbered_pairs(pairs_of(bundles, end))
        touched = np.zeros(bundles.num_rows, dtype=np.bool_)
        touched[numbers[thin]] = True
        is_absent = np.all(pairs_of(bundles, end) == ABSENT, axis=1)
        marked.append(touched[numbers] & ~is_absent)
    return bundles.filter(pa.array(marked[0] | marked[1] | thin))


def _changes(told: pa.Table | None, atoms: pa.Table, night: Night) -> dict[str, Any]:
    """Count ghosts, classes in which some, but fewer than k, changed in a column, and those with both.

    Beside a ghost nobody may change: those who do are none then, and those who do not are the whole class.
    """
    if told is None:
        return {"lone_changes": (0,) * len(night.columns)}
    place = places_of_atoms(np.asarray(told[ATOM]), atoms)
    numbers, distinct = numbered_pairs(pairs_of(atoms, "k")[place])
    names = ["ghosts", *(f"n{j}" for j in range(len(night.compared)))]
    ghosts, *changed = (np.bincount(numbers, np.asarray(told[name]), len(distinct)) for name in names)
    lone = (int(np.sum((n > 0) & (n < night.k))) for n in changed[: len(night.columns)])
    exposed = (ghosts > 0) & np.any([n > 0 for n in changed], axis=0)
    return {"lone_changes": tuple(lone), "ghosts": int(ghosts.sum()), "exposed": int(np.sum(exposed))}
