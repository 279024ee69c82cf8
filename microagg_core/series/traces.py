"""The next state of the ledger, made range by range from what the candidate files say, and its traces.

A unit's trace is its atom, and the night in which it left that. So traces are counted by looking at the atoms of which
the candidate files do not hold what they held before: all others are shared by as many units as ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Ints, Pairs, UInt64s
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import InternalError
from microagg_core.release.step import JsonOutput, Rows, Step, TableOutput, Work
from microagg_core.series.atoms import atoms_table, from_number, no_atoms, places_of_atoms, range_of_atoms, regrouped
from microagg_core.series.candidates import GHOSTS, JOINED, NEW_ATOMS, NUMBERING, SEEN, GateCounts
from microagg_core.series.digests import ABSENT, as_columns, numbered_rows, pairs_of, positions_in, units_alone
from microagg_core.series.generations import RangeFile, UnitCounts
from microagg_core.series.invariants import Census, census_of_atoms, census_of_units
from microagg_core.series.match import ATOM, MET
from microagg_core.series.night import NIGHT, NIGHT_KEY, Night, gather, load_night
from microagg_core.series.units import NO_ATOM, WITH_ATOM, State, range_schema

#: How many units of a range came to each atom and left it, and how many changed in each.
COUNTS, CHANGES = Rows("atom-counts"), Rows("atom-changes")
#: Classes of the last release and tonight's, with how many units went from which to which, where few did.
BUNDLES = TableOutput("bundles")


@dataclass(frozen=True)
class RangeNotes:
    files: tuple[RangeFile, ...]
    #: Changes of the counts; released and withheld units are counted with the atoms.
    counts: UnitCounts
    wrong: GateCounts
    #: Of all units of the range, read again.
    census: Census


RANGE_NOTES = JsonOutput("range-notes", RangeNotes)


def trace_range(work: Work) -> int:
    """Write the changes of one range of units; send to ranges of atoms who came, who left, and what changed."""
    night, _ = load_night(work)
    met = work.read(MET)
    columns = [(RECORD, pa.int64()), (ATOM, pa.uint64()), ("out", pa.bool_()), ("row", pa.uint64())]
    columns += [(f"d{j}", pa.uint32()) for j in range(len(night.columns))]
    columns += [("differs", pa.uint64()), ("part", pa.int32())]
    rows = [gather(work, output, columns) for output in (JOINED, GHOSTS)]
    units = _Units(night, met, pa.concat_tables(rows).combine_chunks())
    files = night.ledger.write_changes(night.state, night.number, work.number, night.n_ranges, units.changes())
    for output, of_atoms in ((COUNTS, units.came_and_left()), (CHANGES, units.ghosts_and_changes())):
        work.send(output, of_atoms, range_of_atoms(np.asarray(of_atoms[ATOM]), night.n_atom_ranges))
    whole = night.ledger.read_files(files, night.number)
    wrong = units.wrong() + GateCounts(parted=parted_units(whole) if night.several else 0)
    work.write(RANGE_NOTES, RangeNotes(files, units.counts(), wrong, census_of_units(whole, night.mode)))
    return int(met.num_rows)


TRACE = Step(
    name="trace",
    stage="validate",
    per="range of units",
    does=trace_range,
    knows=(NIGHT, NIGHT_KEY),
    same=(MET,),
    receives=(JOINED, GHOSTS),
    writes=(RANGE_NOTES,),
    sends=(COUNTS, CHANGES),
    is_gate=True,
)


class _Units:
    """The units of a range of which the ledger may have to hear: what it has of them, and what the files do."""

    def __init__(self, night: Night, met: pa.Table, rows: pa.Table) -> None:
        self._night, self._met, self._rows = night, met, rows
        #: For each unit, its row of ``rows``, or -1; and the rows that are nobody's.
        self._row, self._unknown = _row_of_each(met, rows)
        self._state = self._of_ledger("state")
        self._was_live = self._state == State.LIVE
        self._present = self._of_ledger("part") >= 0
        self._listed = self._of_ledger("index") >= 0
        self._new_atom = self._of_files(ATOM)
        # A row of a survivor that is not released was sent only to have it closed.
        self._out = (self._row >= 0) & self._of_files("out")
        #: In a file of arrivals.
        self._new = self._out & (self._new_atom != NO_ATOM)
        self._closed = self._are_closed()
        self._next_state = self._following_state()
        self._next_atom = self._following_atom()

    def _of_ledger(self, name: str) -> NDArray[Any]:
        return np.asarray(self._met[name])

    def _of_files(self, name: str) -> NDArray[Any]:
        of_rows, has_row = np.asarray(self._rows[name]), self._row >= 0
        values = np.zeros(self._met.num_rows, dtype=of_rows.dtype)
        values[has_row] = of_rows[self._row[has_row]]
        return values

    def _changed(self, name: str) -> Bools:
        """Mark units whose digest in the files is another than that of their last release."""
        return np.asarray(self._of_files(name) != self._of_ledger(name))

    def _are_closed(self) -> Bools:
        """Mark live units that will never be released again by the rules of their series."""
        night = self._night
        if night.mode == "disjoint":  # who an earlier night might have released again
            return np.asarray(self._was_live)
        if not night.n_carried:
            return np.zeros(self._met.num_rows, dtype=np.bool_)
        is_out = np.where(self._present, (self._row < 0) | self._out, self._out)
        stays = np.asarray(night.leavers == "withhold") & ~night.is_due(self._of_ledger("since"))
        return np.asarray(self._was_live & ~is_out & ~stays)

    def _following_state(self) -> NDArray[np.uint8]:
        state = self._state.copy()
        state[self._new] = State.GONE if self._night.mode == "disjoint" else State.LIVE
        state[self._closed] = State.GONE
        state[(state == State.HELD) & ~self._present] = State.REMOVED
        # Who was erased is never anything else.
        state[self._state == State.FORGOTTEN] = State.FORGOTTEN
        return np.asarray(state)

    def _following_atom(self) -> UInt64s:
        new, before = self._new_atom, self._of_ledger("atom")
        if self._night.mode == "independent":
            new = regrouped(before, new, self._night.number)
        return np.where(self._new, new, before)

    def changes(self) -> pa.Table:
        """Collect the rows of the ledger that are new or not as they were."""
        night, new, out, since = self._night, self._new, self._out, self._of_ledger("since")
        last = np.where(new, night.number if night.mode == "disjoint" else WITH_ATOM, self._of_ledger("last"))
        first = (self._state == State.HELD) & (new | (since < 0))
        columns: dict[str, NDArray[Any]] = {name: self._of_ledger(name) for name in ("u0", "u1")}
        columns["atom"] = self._next_atom
        columns["since"] = np.where(first, night.number, since)
        columns["last"] = np.where(self._closed, night.previous, last)
        columns["state"] = self._next_state
        for name in ("row", *(f"d{j}" for j in range(len(night.columns)))):
            before = self._of_ledger(name)
            columns[name] = np.where(out, self._of_files(name), before)
        differs = ~self._listed
        for name, values in columns.items():
            differs |= values != self._of_ledger(name)
        kept = np.flatnonzero(differs & (self._listed | (self._next_state != State.REMOVED)))
        schema = range_schema(len(night.columns))
        return pa.table([pa.array(columns[f.name][kept].astype(f.type.to_pandas_dtype())) for f in schema], schema)

    def counts(self) -> UnitCounts:
        """Count how units change their state, but for live ones, which are counted with their atoms."""

        def change(state: State) -> int:
            return int((self._next_state == state).sum()) - int(((self._state == state) & self._listed).sum())

        return UnitCounts(held=change(State.HELD), vanished=change(State.GONE), forgotten=change(State.FORGOTTEN))

    def wrong(self) -> GateCounts:
        night = self._night
        never_again = [State.FORGOTTEN] if night.mode == "independent" else [State.FORGOTTEN, State.GONE]
        again = self._out & np.isin(self._state, never_again)
        again |= self._new & self._was_live & (night.mode == "disjoint")
        moved = self._new & self._was_live & bool(night.n_carried)
        # Ghosts with another row than last; values that are neither tonight's nor those of the last release.
        altered = ~self._present & self._changed("row")
        differs = self._of_files("differs")
        for j, name in enumerate(night.compared):
            altered |= ((differs >> np.uint64(j)) & np.uint64(1) == 1) & self._changed(name)
        altered &= self._out & self._was_live
        return GateCounts(int(again.sum()), int(moved.sum()), int(altered.sum()), self._unknown)

    def came_and_left(self) -> pa.Table:
        """Count units that came to each atom (with tonight's number of its class, since when), and that left it."""
        new = self._new
        since = np.where(self._state == State.HELD, self._night.number, self._of_ledger("since"))
        came = np.column_stack([self._next_atom, self._new_atom, since.astype(np.uint64)])[new]
        left = self._closed | (new & self._was_live & (self._night.mode == "independent"))
        arrivals, n_came = np.unique(came, axis=0, return_counts=True)
        leavers, n_left = np.unique(self._of_ledger("atom")[left], return_counts=True)
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

    def ghosts_and_changes(self) -> pa.Table:
        """Count units of each atom that are ghosts, and that have another value than last, by what is compared."""
        again = self._out & self._was_live & bool(self._night.n_carried)
        marks = {"ghosts": again & ~self._present}
        marks |= {f"n{j}": again & self._changed(name) for j, name in enumerate(self._night.compared)}
        marked = np.flatnonzero(np.any(list(marks.values()), axis=0))
        atoms, number = np.unique(self._of_ledger("atom")[marked], return_inverse=True)
        sums = {name: np.bincount(number, mark[marked], len(atoms)).astype(np.int64) for name, mark in marks.items()}
        return pa.table({ATOM: pa.array(atoms.astype(np.uint64)), **{name: pa.array(n) for name, n in sums.items()}})


def parted_units(units: pa.Table) -> int:
    """Count units of several rows that were not all first released on one night."""
    released = units.filter(pa.array(np.asarray(units[ATOM]) != NO_ATOM))
    unit, distinct = numbered_rows(units_alone(pairs_of(released, "u")))
    since = np.asarray(released["since"])
    least, most = np.full(len(distinct), np.iinfo(np.int64).max), np.full(len(distinct), -1)
    np.minimum.at(least, unit, since)
    np.maximum.at(most, unit, since)
    return int(np.sum(least != most))


def _row_of_each(met: pa.Table, rows: pa.Table) -> tuple[Ints, int]:
    """Find each unit's row, by its place in the input, or in the ledger for ghosts; count the rows of nobody."""
    row = np.full(met.num_rows, -1, dtype=np.int64)
    part = np.asarray(met["part"]).astype(np.int64)
    place = np.where(part < 0, np.asarray(met["index"]), np.asarray(met["place"]))
    wanted = [np.asarray(rows[name]).astype(np.int64) for name in ("part", RECORD)]
    unit = positions_in(np.column_stack(wanted).astype(np.uint64), np.column_stack([part, place]).astype(np.uint64))
    known = np.flatnonzero(unit >= 0)
    row[unit[known]] = known
    return row, int((unit < 0).sum())


@dataclass(frozen=True)
class TraceNotes:
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


TRACE_NOTES = JsonOutput("trace-notes", TraceNotes)


def count_traces(work: Work) -> int:
    night, _ = load_night(work)
    atoms = _Atoms(work, night)
    following = atoms.following()
    file = night.ledger.write_atoms(night.number, work.number, following)
    bundles = atoms.bundles()
    thin = np.asarray(bundles["n"]) < night.least_k
    smallest, below = atoms.rarest()
    notes = TraceNotes(
        file=file,
        counts=_live_counts(following, night),
        smallest=smallest,
        units_below=below,
        split=atoms.n_split,
        thin_bundles=int(thin.sum()),
        census=census_of_atoms(night.ledger.read_atoms_file(file, night.number), night.number),
        **_change_counts(work, atoms.before, night),
    )
    work.write(TRACE_NOTES, notes)
    work.write(BUNDLES, _around(bundles, thin))
    return int(following.num_rows)


COUNT_TRACES = Step(
    name="traces",
    stage="validate",
    per="range of atoms",
    does=count_traces,
    knows=(NIGHT, NIGHT_KEY, NUMBERING),
    same=(SEEN,),
    receives=(COUNTS, CHANGES, NEW_ATOMS),
    writes=(TRACE_NOTES, BUNDLES),
    is_gate=True,
)


class _Atoms:
    """The atoms of a range before tonight, how many of their units left for good, what files have of them; new ones.

    ``seen`` are the atoms that the files do not hold as they were: their classes, with how many units; None where no
    file holds atoms.
    """

    def __init__(self, work: Work, night: Night) -> None:
        self.night, self.before = night, night.read_atoms(work.number)
        columns = [(ATOM, pa.uint64()), ("number", pa.uint64()), ("since", pa.int32())]
        rows = gather(work, COUNTS, [*columns, ("came", pa.int64()), ("left", pa.int64())])
        gone = np.asarray(rows["left"])
        place = places_of_atoms(np.asarray(rows[ATOM])[gone > 0], self.before)
        if (place < 0).any():
            raise InternalError("a bug: units left an atom that the ledger does not know; please report it")
        self.left = np.zeros(self.before.num_rows, dtype=np.int64)
        np.add.at(self.left, place, gone[gone > 0])
        self.new = _new_atoms(work, night, rows.filter(pa.array(gone == 0)))
        self.seen = work.read(SEEN) if work.has(SEEN) else None
        self._n = np.asarray(self.before["n"]).astype(np.int64)
        self._n_after = self._n - (self.left if night.mode != "disjoint" else 0)
        self._place_of_seen = np.zeros(0, dtype=np.int64)
        #: Units of each atom that are released with it.
        self._n_out = np.zeros_like(self._n)
        if self.seen is not None:
            self._place_of_seen = places_of_atoms(np.asarray(self.seen[ATOM]), self.before)
            self._n_out = self._n.copy()
            self._n_out[self._place_of_seen] = 0
            np.add.at(self._n_out, self._place_of_seen, np.asarray(self.seen["n"]))

    @property
    def n_split(self) -> int:
        """Atoms of which some units are released, and others may be later; or more than there are."""
        return int(((self._n_out > 0) & (self._n_out != self._n_after)).sum())

    def following(self) -> pa.Table:
        """Make the atoms after tonight; an atom that nobody is left of need not be known any more."""
        before = self.before
        last = np.where(self._n_out > 0, self.night.number, np.asarray(before["last"])).astype(np.int32)
        atom, since = np.asarray(before[ATOM]), np.asarray(before["since"])
        table = atoms_table(atom, pairs_of(before, "k"), self._n_after, since, last)
        return pa.concat_tables([table.filter(pa.array(self._n_after > 0)), self.new]).combine_chunks()

    def rarest(self) -> tuple[int | None, int]:
        """Count the units that share the rarest trace that is new tonight, and those whose trace fewer than k share.

        Who was released under a smaller k, and is not tonight, shares his trace with as many as he was promised.
        """
        night, came, n_out, parts = self.night, np.asarray(self.new["n"]), self._n_out, self._parts()
        below = int(came[came < night.k].sum()) + int(n_out[(n_out > 0) & (n_out < night.k)].sum())
        below += sum(int(part[part < night.least_k].sum()) for part in parts)
        counted = np.concatenate([came, *parts])
        return (int(counted.min()) if len(counted) else None), below

    def _parts(self) -> list[Ints]:
        """Count the units of atoms that are not together any more: who is not released tonight, and who is left."""
        if self.night.mode == "disjoint":
            return []
        out, rest = self._n_out, self._n - self._n_out
        if self.seen is None:  # everybody is grouped afresh
            parts = [self._n_after[self.left > 0]]
        else:
            broken = ((out > 0) & (rest > 0)) | ((self.left > 0) & (self.left < self._n))
            parts = [np.where(out > 0, rest, self.left)[broken], np.where(out > 0, out, self._n - self.left)[broken]]
        return [part[part > 0] for part in parts]

    def bundles(self) -> pa.Table:
        """Count the units that went from each class of the last release to each of tonight's; or to or from absence."""
        night = self.night
        if night.mode == "independent":
            return _bundles(np.zeros((0, 2), np.uint64), np.zeros((0, 2), np.uint64), np.zeros(0, np.int64))
        was = (np.asarray(self.before["last"]) == night.previous) & (night.previous >= 0)
        klass = pairs_of(self.before, "k")
        before = np.where(was[:, None], klass, ABSENT)
        ends = [(np.repeat(ABSENT, self.new.num_rows, axis=0), pairs_of(self.new, "k"), np.asarray(self.new["n"]))]
        if self.seen is not None:
            whole = self._n_out == self._n
            place, n = self._place_of_seen, np.asarray(self.seen["n"])
            whole[place] = False
            ends.append((before[place][n > 0], pairs_of(self.seen, "k")[n > 0], n[n > 0]))
            ends.append((before[whole], klass[whole], self._n[whole]))
        rest = np.where(was, self._n - self._n_out, 0)
        stays = rest > 0
        ends.append((before[stays], np.repeat(ABSENT, int(stays.sum()), axis=0), rest[stays]))
        return _bundles(*(np.concatenate(column) for column in zip(*ends, strict=True)))


def _live_counts(atoms: pa.Table, night: Night) -> UnitCounts:
    if night.mode == "disjoint":
        return UnitCounts()
    n, is_out = np.asarray(atoms["n"]), np.asarray(atoms["last"]) == night.number
    return UnitCounts(released=int(n[is_out].sum()), withheld=int(n[~is_out].sum()))


def _new_atoms(work: Work, night: Night, rows: pa.Table) -> pa.Table:
    if not rows.num_rows:
        return no_atoms()
    atoms, first, number = np.unique(np.asarray(rows[ATOM]), return_index=True, return_inverse=True)
    n = np.bincount(number, np.asarray(rows["came"]), len(atoms)).astype(np.int64)
    since = np.asarray(rows["since"])[first]
    numbers, classes = _classes(work)
    place = np.searchsorted(numbers, np.asarray(rows["number"])[first])
    if (numbers[np.minimum(place, len(numbers) - 1)] != np.asarray(rows["number"])[first]).any():
        raise InternalError("a bug: units came to an atom that no file has; please report it")
    nights = np.full(len(atoms), night.number, dtype=np.int32)
    return atoms_table(atoms, classes[place], n, since, nights)


def _classes(work: Work) -> tuple[UInt64s, Pairs]:
    """Read the classes of the files' new atoms, by their numbers in the series, in ascending order."""
    firsts = work.read(NUMBERING)
    numbers, classes = [], []
    for sent, table in work.gather_each(NEW_ATOMS):
        numbers.append(from_number(np.asarray(table[ATOM]), firsts[sent.maker]))
        classes.append(pairs_of(table, "k"))
    of_all = np.concatenate(numbers)
    order = np.argsort(of_all)
    return of_all[order], np.concatenate(classes)[order]


def _bundles(before: Pairs, after: Pairs, n: Ints) -> pa.Table:
    ends = np.concatenate([before, after], axis=1)
    distinct, number = np.unique(ends, axis=0, return_inverse=True)
    counts = np.bincount(number.reshape(-1), n, len(distinct)).astype(np.int64)
    distinct = distinct.reshape(-1, 4)
    return pa.table({**as_columns(distinct[:, :2], "b"), **as_columns(distinct[:, 2:], "k"), "n": pa.array(counts)})


def _around(bundles: pa.Table, thin: Bools) -> pa.Table:
    """Select the bundles at the classes of thin ones: with no other can a thin one make a small sum."""
    marked = []
    for end in "bk":
        numbers, _ = numbered_rows(pairs_of(bundles, end))
        touched = np.zeros(bundles.num_rows, dtype=np.bool_)
        touched[numbers[thin]] = True
        is_absent = np.all(pairs_of(bundles, end) == ABSENT, axis=1)
        marked.append(touched[numbers] & ~is_absent)
    return bundles.filter(pa.array(marked[0] | marked[1] | thin))


def _change_counts(work: Work, atoms: pa.Table, night: Night) -> dict[str, Any]:
    """Count ghosts, classes in which some, but fewer than k, changed in a column, and those with both.

    Beside a ghost nobody may change: those who do are none then, and those who do not are the whole class.
    """
    names = ["ghosts", *(f"n{j}" for j in range(len(night.compared)))]
    rows = gather(work, CHANGES, [(ATOM, pa.uint64()), *((name, pa.int64()) for name in names)])
    place = places_of_atoms(np.asarray(rows[ATOM]), atoms)
    numbers, distinct = numbered_rows(pairs_of(atoms, "k")[place])
    ghosts, *changed = (np.bincount(numbers, np.asarray(rows[name]), len(distinct)) for name in names)
    lone = (int(np.sum((n > 0) & (n < night.k))) for n in changed[: len(night.columns)])
    exposed = (ghosts > 0) & np.any([n > 0 for n in changed], axis=0)
    return {"lone_changes": tuple(lone), "ghosts": int(ghosts.sum()), "exposed": int(np.sum(exposed))}
