"""What changes in the ledger, range of units by range, from what the files that would be published say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from microagg_core.arrays import Bools, Ints, Pairs, UInt64s
from microagg_core.data.tables.slices import RECORD, Slices, read_slice, write_slices
from microagg_core.plain import to_json
from microagg_core.release.steps.shuffling import gather_slices
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.atoms import range_of_atoms, regrouped
from microagg_core.series.census import Census, census_of_units
from microagg_core.series.generations import RangeFile, UnitCounts
from microagg_core.series.joining import positions_in
from microagg_core.series.marks import ATOM
from microagg_core.series.night import Night
from microagg_core.series.nights.counts import GateCounts
from microagg_core.series.nights.knowing import layout_of, load_night
from microagg_core.series.ranges import WITH_ATOM, State, range_schema

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
        unit[is_ghost] = positions_in(_pairs(np.zeros(is_ghost.sum()), place[is_ghost]), _distinct(absent, index))
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


def _distinct(which: Bools, index: Ints) -> Pairs:
    """The indices of some units, and for the others places that nobody asks for."""
    among = _pairs(np.zeros(len(index)), index)
    among[~which] = _nowhere(~which)
    return among
