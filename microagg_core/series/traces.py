"""Counts of a night, added up over ranges; for the operator alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from microagg_core.arrays import Bools, Ints, Pairs, UInt64s
from microagg_core.data.tables.slices import RECORD, Slices, read_slice, to_bytes, write_slices
from microagg_core.errors import InternalError
from microagg_core.plain import from_json, to_json
from microagg_core.release.steps.shuffling import gather_slices, read_slices
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.atoms import atoms_table, from_number, places_of_atoms, range_of_atoms, regrouped
from microagg_core.series.candidates import ATOMS, GateCounts
from microagg_core.series.digests import ABSENT, as_columns, numbered_pairs, pairs_of, positions_in
from microagg_core.series.generations import RangeFile, UnitCounts
from microagg_core.series.invariants import Census, census_of_atoms, census_of_units
from microagg_core.series.marks import ATOM
from microagg_core.series.night import Night, layout_of, load_night
from microagg_core.series.units import WITH_ATOM, State, range_schema

#: The objects of a traced range: how many units came to each atom and left it, and how many changed in each.
COUNTS, CHANGES = 0, 1


@dataclass(frozen=True)
class RangeNotes:
    """What is noted of one range of the next ledger."""

    files: tuple[RangeFile, ...]
    #: What changed in the counts; who is released or withheld is counted with the atoms.
    counts: UnitCounts
    wrong: GateCounts
    #: Of all units of the range, read again.
    census: Census


def trace_range(task: Task) -> Receipt:
    """Write what changes of one range of units; tells who came to each atom and left it, and what changed in it."""
    night, _ = load_night(task)
    layout = layout_of(task)
    met = read_slice(task.pieces.read(layout.met(task.number)))
    units = _Units.of(night, met, gather_slices(task.run, task.slices, "join", lambda number, _: layout.joined(number)))
    files = night.ledger.write_changes(night.state, night.number, task.number, night.n_ranges, units.changes())
    pieces, slices = [], Slices()
    for number, told in ((COUNTS, units.counts_told()), (CHANGES, units.changes_told())):
        by = range_of_atoms(np.asarray(told[ATOM]), night.n_atom_ranges)
        data, some = write_slices(told, by, task.number, number)
        pieces.append(task.put(layout.traces_told(task.number, number), data))
        slices += some
    whole = night.ledger.read_files(files, night.number)
    notes = RangeNotes(files, units.counts(), units.wrong(), census_of_units(whole, night.mode))
    pieces.append(task.put(layout.range_notes(task.number), to_json(notes)))
    return Receipt(task.step, task.number, met.num_rows, tuple(pieces), slices)


@dataclass(frozen=True)
class _Units:
    """The units of a range of which something may be to be said: what the ledger has of them, and what the files do.

    Attributes:
        met: as the ledger has them, and where they are in the input; who is new has no index.
        told: what was told of rows of the files; None: nothing.
        row: for each unit, its row of ``told``; -1 where nothing was told.
        unknown: rows of the files that are nobody's.
    """

    night: Night
    met: pa.Table
    told: pa.Table | None
    row: Ints
    unknown: int

    @classmethod
    def of(cls, night: Night, met: pa.Table, told: pa.Table | None) -> _Units:
        """Find the unit of every row that was told, by its place in the input, or in the ledger for ghosts."""
        row = np.full(met.num_rows, -1, dtype=np.int64)
        if told is None:
            return cls(night, met, None, row, 0)
        is_ghost = np.asarray(told["part"]) < 0
        place = np.asarray(told[RECORD])
        unit = np.full(len(place), -1, dtype=np.int64)
        absent = np.asarray(met["part"]) < 0
        index = np.where(absent, np.asarray(met["index"]), -1)
        unit[is_ghost] = positions_in(
            _pairs(np.zeros(is_ghost.sum()), place[is_ghost]), _distinct_places(absent, index)
        )
        parts = np.asarray(told["part"])[~is_ghost]
        among = _pairs(np.asarray(met["part"]), np.asarray(met["place"]))
        among[absent] = _nowhere(absent)
        unit[~is_ghost] = positions_in(_pairs(parts, place[~is_ghost]), among)
        theirs = np.flatnonzero(unit >= 0)
        row[unit[theirs]] = theirs
        # A row of a survivor that is not released was told only to have it closed.
        return cls(night, met, told, row, int((unit < 0).sum()))

    # --- What the ledger has, and what the files do ------------------------------------------------------------

    def _column(self, name: str) -> NDArray[Any]:
        return np.asarray(self.met[name])

    def _told(self, name: str, kind: DTypeLike) -> NDArray[Any]:
        values: NDArray[Any] = np.zeros(self.met.num_rows, dtype=kind)
        if self.told is not None:
            heard = self.row >= 0
            values[heard] = np.asarray(self.told[name])[self.row[heard]]
        return values

    @property
    def _state(self) -> NDArray[np.uint8]:
        return self._column("state")

    @property
    def _present(self) -> Bools:
        return np.asarray(self._column("part") >= 0)

    @property
    def _was_live(self) -> Bools:
        return np.asarray(self._state == State.LIVE)

    @property
    def _is_told_out(self) -> Bools:
        """Whose row is told to be in the files."""
        return np.asarray((self.row >= 0) & self._told("out", np.bool_))

    @property
    def _is_new(self) -> Bools:
        """Who is in a file of arrivals."""
        return np.asarray(self._is_told_out & (self._told(ATOM, np.uint64) != 0))

    @property
    def _is_closed(self) -> Bools:
        """Which live units were to be released or not by the rules of their series, and will never be again."""
        night = self.night
        if night.mode == "disjoint":  # who an earlier night might have released again
            return self._was_live
        if not night.n_carried:
            return np.zeros(self.met.num_rows, dtype=np.bool_)
        policy = night.policy
        is_out = np.where(self._present, (self.row < 0) | self._is_told_out, self._is_told_out)
        stays = np.asarray(night.leavers == "withhold") & ~policy.is_due(self._column("since"))
        return np.asarray(self._was_live & ~is_out & ~stays)

    # --- What follows ------------------------------------------------------------------------------------------

    @property
    def _atoms(self) -> UInt64s:
        new, before = self._told(ATOM, np.uint64), self._column("atom")
        if self.night.mode == "independent":
            new = regrouped(before, new, self.night.number)
        return np.where(self._is_new, new, before)

    @property
    def _next_state(self) -> NDArray[np.uint8]:
        state = self._state.copy()
        state[self._is_new] = State.GONE if self.night.mode == "disjoint" else State.LIVE
        state[self._is_closed] = State.GONE
        state[(state == State.HELD) & ~self._present] = State.REMOVED
        # Who was erased is never anything else.
        state[self._state == State.FORGOTTEN] = State.FORGOTTEN
        return state

    def changes(self) -> pa.Table:
        """The rows of the ledger that are new or not as they were."""
        night, new, out = self.night, self._is_new, self._is_told_out
        last = np.where(new, night.number if night.mode == "disjoint" else WITH_ATOM, self._column("last"))
        first = (self._state == State.HELD) & (new | (self._column("since") < 0))
        columns: dict[str, NDArray[Any]] = {name: self._column(name) for name in ("u0", "u1")}
        columns["atom"] = self._atoms
        columns["row"] = np.where(out, self._told("row", np.uint64), self._column("row"))
        columns["since"] = np.where(first, night.number, self._column("since"))
        columns["last"] = np.where(self._is_closed, night.previous, last)
        columns["state"] = self._next_state
        for j in range(len(night.columns)):
            columns[f"d{j}"] = np.where(out, self._told(f"d{j}", np.uint32), self._column(f"d{j}"))
        differs = self._column("index") < 0
        for name, values in columns.items():
            differs |= values != self._column(name)
        kept = np.flatnonzero(differs & ~((self._column("index") < 0) & (columns["state"] == State.REMOVED)))
        schema = range_schema(len(night.columns))
        return pa.table([pa.array(columns[f.name][kept].astype(f.type.to_pandas_dtype())) for f in schema], schema)

    def counts(self) -> UnitCounts:
        """By how much the counts of units change, but for those of live ones, which are counted with their atoms."""
        before, after = self._state, self._next_state
        listed = self._column("index") >= 0

        def change(state: State) -> int:
            return int((after == state).sum()) - int(((before == state) & listed).sum())

        return UnitCounts(held=change(State.HELD), vanished=change(State.GONE), forgotten=change(State.FORGOTTEN))

    def wrong(self) -> GateCounts:
        """What must not be, counted."""
        never_again = [State.FORGOTTEN] if self.night.mode == "independent" else [State.FORGOTTEN, State.GONE]
        again = self._is_told_out & np.isin(self._state, never_again)
        again |= self._is_new & self._was_live & (self.night.mode == "disjoint")
        moved = self._is_new & self._was_live & bool(self.night.n_carried)
        altered = self._is_told_out & self._was_live & (self._differs_from_last() | self._false_ghosts())
        return GateCounts(int(again.sum()), int(moved.sum()), int(altered.sum()), self.unknown)

    def _differs_from_last(self) -> Bools:
        """Values that are not tonight's, and not those of the last release either."""
        differs, altered = self._told("differs", np.uint64), np.zeros(self.met.num_rows, dtype=np.bool_)
        for j, name in enumerate(self.night.compared):
            altered |= ((differs >> np.uint64(j)) & np.uint64(1) == 1) & self._changed(name)
        return altered

    def _changed(self, name: str) -> Bools:
        """Whose digest in the files is another than that of the last release."""
        last = self._column(name)
        return np.asarray(self._told(name, last.dtype) != last)

    def _false_ghosts(self) -> Bools:
        """Who is released without being there, with another row than last."""
        return np.asarray(~self._present & self._changed("row"))

    # --- What is told ------------------------------------------------------------------------------------------

    def counts_told(self) -> pa.Table:
        """Units that came to each atom and that left it: the atom, tonight's number of its class, since when."""
        new = self._is_new
        came = np.column_stack([self._atoms, self._told(ATOM, np.uint64), self._since().astype(np.uint64)])[new]
        left = self._is_closed | (new & self._was_live & (self.night.mode == "independent"))
        arrivals, n_came = np.unique(came, axis=0, return_counts=True)
        leavers, n_left = np.unique(self._column("atom")[left], return_counts=True)
        nothing = np.zeros(len(leavers), dtype=np.uint64)
        return pa.table(
            {
                ATOM: pa.array(np.concatenate([arrivals[:, 0], leavers]).astype(np.uint64)),
                "number": pa.array(np.concatenate([arrivals[:, 1], nothing]).astype(np.uint64)),
                "since": pa.array(np.concatenate([arrivals[:, 2], nothing]).astype(np.int32)),
                "came": pa.array(np.concatenate([n_came, nothing]).astype(np.int64)),
                "left": pa.array(np.concatenate([np.zeros(len(arrivals)), n_left]).astype(np.int64)),
            }
        )

    def _since(self) -> NDArray[np.int32]:
        first = self._state == State.HELD
        return np.where(first, self.night.number, self._column("since")).astype(np.int32)

    def changes_told(self) -> pa.Table:
        """How many units of each atom are not there, and how many have another value than last, by what is compared."""
        again = self._is_told_out & self._was_live & bool(self.night.n_carried)
        marks = {"ghosts": again & ~self._present}
        marks |= {f"n{j}": again & self._changed(name) for j, name in enumerate(self.night.compared)}
        some = np.flatnonzero(np.any(list(marks.values()), axis=0))
        atoms, number = np.unique(self._column("atom")[some], return_inverse=True)
        sums = {name: np.bincount(number, mark[some], len(atoms)).astype(np.int64) for name, mark in marks.items()}
        return pa.table({ATOM: pa.array(atoms.astype(np.uint64)), **{name: pa.array(n) for name, n in sums.items()}})


def _pairs(first: NDArray[Any], second: NDArray[Any]) -> Pairs:
    return np.column_stack([first.astype(np.int64), second.astype(np.int64)]).astype(np.uint64)


def _nowhere(which: Bools) -> Pairs:
    """Places that nobody asks for, each another."""
    return np.column_stack([np.full(which.sum(), 2**64 - 1, dtype=np.uint64), np.arange(which.sum(), dtype=np.uint64)])


def _distinct_places(which: Bools, index: Ints) -> Pairs:
    """The indices of some units, and for the others places that nobody asks for."""
    among = _pairs(np.zeros(len(index)), index)
    among[~which] = _nowhere(~which)
    return among


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
        **_change_counts(changes, atoms.before, night),
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


def _change_counts(told: pa.Table | None, atoms: pa.Table, night: Night) -> dict[str, Any]:
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
