"""The next state of the ledger, range by range, from what the files that would be published say of the units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Ints, Pairs, UInt64s
from microagg_core.plain import to_json
from microagg_core.series.digests import numbered_pairs
from microagg_core.series.fates import VANISHED
from microagg_core.series.generations import RangeFile, UnitCounts
from microagg_core.series.joining import as_columns, pairs_of, positions_in
from microagg_core.series.night import Night
from microagg_core.series.ranges import State, counts_of, range_of, range_schema
from microagg_core.series.traces import ABSENT, counted, never, next_traces
from microagg_core.steps.nights.counts import GateCounts
from microagg_core.steps.nights.knowing import layout_of, load_night
from microagg_core.steps.nights.telling import ROW_BIT
from microagg_core.steps.scattering import gather_slices
from microagg_core.steps.work import Receipt, Task
from microagg_core.tables.slices import RECORD, read_slice, write_slices

#: The objects of a traced range, each with the digest by whose ranges it is cut: units of each trace, changed units of
#: each class, units of each pair of last night's and tonight's classes, and rows of who left and who arrived.
TRACES, CHANGES, BUNDLES, ROWS = 0, 1, 2, 3
# --- The next state of the ledger ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RangeNotes:
    """What is noted of one range of the next ledger."""

    file: RangeFile
    counts: UnitCounts
    wrong: GateCounts
    #: Units that were released before, and their different confidential rows.
    released_before: int = 0
    distinct_rows: int = 0

    @classmethod
    def of_nobody(cls, file: RangeFile) -> RangeNotes:
        """Of a range of a ledger that knows no units."""
        return cls(file, UnitCounts(), GateCounts())


def trace_range(task: Task) -> Receipt:
    """Make one range of the next ledger; tells how many units share each trace, and what changed in each class."""
    night, _ = load_night(task)
    layout = layout_of(task)
    state = night.read_state(task.number)
    tonight = read_slice(task.pieces.read(layout.tonight(task.number)))
    units = _Units.of(night, state, tonight, _released(task, night, tonight, state.num_rows))
    following, wrong = units.following(_vanished(task)), units.wrong()
    file = night.ledger.write_range(night.number, task.number, following)
    pieces, slices = [], []
    for number, told, cut_by in (
        (TRACES, units.traces_told(), "t0"),
        (CHANGES, units.changes_told(), "k0"),
        (BUNDLES, units.bundles_told(), "t0"),
        (ROWS, units.rows_told(), "row"),
    ):
        data, some = write_slices(told, range_of(np.asarray(told[cut_by]), night.n_ranges), task.number, number)
        pieces.append(task.put(layout.traces_told(task.number, number), data))
        slices += some
    before = int(np.sum(units.state != State.HELD))
    notes = RangeNotes(file, counts_of(following, night.number), wrong, before, units.distinct_rows())
    pieces.append(task.put(layout.range_notes(task.number), to_json(notes)))
    return Receipt(task.step, task.number, following.num_rows, tuple(pieces), tuple(slices))


@dataclass(frozen=True)
class _Released:
    """What the files have of a range's units: of each row of the ledger, and each new one, the row of a table."""

    table: pa.Table | None
    #: For units of the ledger, then for tonight's new ones; -1 where they are not released.
    row: Ints
    unknown: int

    def column(self, name: str, kind: type, units: Ints) -> NDArray[Any]:
        values: NDArray[Any] = np.zeros(len(units), dtype=kind)
        there = self.row[units] >= 0
        if self.table is not None:
            values[there] = np.asarray(self.table[name])[self.row[units][there]]
        return values


def _released(task: Task, night: Night, tonight: pa.Table, n_state: int) -> _Released:
    """Find the unit of every released row, by the place of its record in the input."""
    layout = layout_of(task)
    table = gather_slices(task.run, task.slices, "join", lambda number, _: layout.joined(number))
    index = np.asarray(tonight["index"])
    new = np.flatnonzero(index < 0)
    unit = index.copy()
    unit[new] = n_state + np.arange(len(new))
    row = np.full(n_state + len(new), -1, dtype=np.int64)
    if table is None:
        return _Released(None, row, 0)
    part, place = np.asarray(table["part"]).astype(np.int64), np.asarray(table[RECORD])
    ghosts = np.flatnonzero(part < 0)
    row[place[ghosts]] = ghosts
    mine = np.flatnonzero(part >= 0)
    wanted = np.column_stack([part[mine], place[mine]]).astype(np.uint64)
    among = np.column_stack([np.asarray(tonight["part"]), np.asarray(tonight[RECORD])]).astype(np.uint64)
    place_of_unit = positions_in(wanted, among)
    row[unit[place_of_unit[place_of_unit >= 0]]] = mine[place_of_unit >= 0]
    return _Released(table, row, int(np.sum(place_of_unit < 0)))


def _vanished(task: Task) -> Ints:
    """The units of the ledger that are never released again, as their atoms' ranges have it."""
    layout = layout_of(task)
    table = gather_slices(task.run, task.also, "fates", lambda number, _: layout.fates_told(number))
    if table is None:
        return np.zeros(0, dtype=np.int64)
    vanished: Ints = np.asarray(table["index"])[np.asarray(table["code"]) == VANISHED]
    return vanished


@dataclass(frozen=True)
class _Units:
    """All units of a range tonight: those of the ledger, in its order, and then the new ones."""

    night: Night
    n_state: int
    there: Bools
    unit: Pairs
    state: NDArray[np.uint8]
    trace: Pairs
    klass: Pairs
    row: UInt64s
    since: NDArray[np.int32]
    last: NDArray[np.int32]
    values: list[NDArray[np.uint32]]
    released: _Released

    @classmethod
    def of(cls, night: Night, state: pa.Table, tonight: pa.Table, released: _Released) -> _Units:
        """Put together."""
        index = np.asarray(tonight["index"])
        new = np.flatnonzero(index < 0)
        there = np.zeros(state.num_rows + len(new), dtype=np.bool_)
        there[index[index >= 0]] = there[state.num_rows :] = True
        n_new = len(new)

        def with_new(column: NDArray[Any], value: int) -> NDArray[Any]:
            return np.concatenate([column, np.full(n_new, value, dtype=column.dtype)])

        unreleased = np.array([never(night.number)], dtype=np.uint64)
        states = with_new(np.asarray(state["state"]), State.HELD)
        trace = np.concatenate([pairs_of(state, "t"), np.repeat(unreleased, n_new, axis=0)])
        last = with_new(np.asarray(state["last"]), -1)
        trace[last < 0] = unreleased
        return cls(
            night,
            state.num_rows,
            there,
            np.concatenate([pairs_of(state, "u"), pairs_of(tonight, "u")[new]]),
            states,
            trace,
            np.concatenate([pairs_of(state, "k"), np.zeros((n_new, 2), dtype=np.uint64)]),
            with_new(np.asarray(state["row"]), 0),
            with_new(np.asarray(state["since"]), night.number),
            last,
            [with_new(np.asarray(state[f"d{j}"]), 0) for j in range(len(night.columns))],
            released,
        )

    @property
    def is_released(self) -> Bools:
        """Who is in the files."""
        is_released: Bools = self.released.row >= 0
        return is_released

    @property
    def classes(self) -> Pairs:
        """Tonight's class of each unit."""
        everyone = np.arange(len(self.unit))
        halves = [self.released.column(f"k{half}", np.uint64, everyone) for half in range(2)]
        return np.where(self.is_released[:, None], np.column_stack(halves), ABSENT)

    @property
    def next_trace(self) -> Pairs:
        """Every unit's trace after tonight."""
        return next_traces(self.trace, self.classes)

    @property
    def ever_released(self) -> Bools:
        """Who was released in some night, tonight included."""
        ever: Bools = (self.last >= 0) | self.is_released
        return ever

    def following(self, vanished: Ints) -> pa.Table:
        """The range as tonight leaves it; who left before he was ever released is not in it any more."""
        night, out = self.night, self.is_released
        everyone = np.arange(len(self.unit))
        state = np.where(out & (self.state == State.HELD), State.LIVE, self.state).astype(np.uint8)
        state[vanished] = np.where(state[vanished] == State.LIVE, State.GONE, state[vanished])
        if not night.carries and night.mode == "disjoint":
            state[state == State.LIVE] = State.GONE
        first = out & (self.state == State.HELD)
        columns: dict[str, NDArray[Any]] = {}
        for name, pairs in (
            ("u", self.unit),
            ("t", self.next_trace),
            ("k", np.where(out[:, None], self.classes, self.klass)),
        ):
            columns |= {f"{name}{half}": np.ascontiguousarray(pairs[:, half]) for half in range(2)}
        columns["row"] = np.where(out, self.released.column("row", np.uint64, everyone), self.row)
        columns["since"] = np.where(first, night.number, self.since).astype(np.int32)
        columns["last"] = np.where(out, night.number, self.last).astype(np.int32)
        columns["state"] = state
        for j, values in enumerate(self.values):
            columns[f"d{j}"] = np.where(out, self.released.column(f"d{j}", np.uint32, everyone), values)
        kept = np.flatnonzero(self.ever_released | self.there | (state == State.FORGOTTEN))
        schema = range_schema(len(self.values))
        return pa.table(
            [pa.array(columns[f.name][kept].astype(f.type.to_pandas_dtype())) for f in schema], schema=schema
        )

    def wrong(self) -> GateCounts:
        """What must not be, counted."""
        out, live = self.is_released, self.state == State.LIVE
        never_again = np.isin(self.state, (State.GONE, State.FORGOTTEN))
        if self.night.mode == "independent":
            never_again = self.state == State.FORGOTTEN
        again = out & (never_again | (live & (self.night.mode == "disjoint")))
        if not self.night.carries:
            return GateCounts(again=int(again.sum()), unknown=self.released.unknown)
        moved = out & live & np.any(self.classes != self.klass, axis=1)
        altered = out & live & (self._altered() | self._false_ghosts())
        return GateCounts(int(again.sum()), int(moved.sum()), int(altered.sum()), self.released.unknown)

    def _altered(self) -> Bools:
        """Released values that are not tonight's, and not those of the last release either."""
        everyone = np.arange(len(self.unit))
        differs = self.released.column("differs", np.uint64, everyone)
        altered: Bools = differs & ROW_BIT != 0
        for j, values in enumerate(self.values):
            other = self.released.column(f"d{j}", np.uint32, everyone) != values
            altered |= ((differs >> np.uint64(j)) & np.uint64(1) == 1) & other
        return altered

    def _false_ghosts(self) -> Bools:
        """Who is released without being there, with another row than last."""
        rows = self.released.column("row", np.uint64, np.arange(len(self.unit)))
        false: Bools = ~self.there & (rows != self.row)
        return false

    def traces_told(self) -> pa.Table:
        """How many of the range's units have each trace, among those that were ever released; and how many tonight."""
        traces, out = self.next_trace[self.ever_released], self.is_released[self.ever_released]
        distinct, n = counted(traces)
        _, n_out = counted(traces, out.astype(np.int64))
        return pa.table({**as_columns(distinct, "t"), "n": pa.array(n), "out": pa.array(n_out)})

    def changes_told(self) -> pa.Table:
        """How many units of each class that is published again have another value, by column."""
        again = self.is_released & (self.state == State.LIVE) & np.all(self.classes == self.klass, axis=1)
        mine = np.flatnonzero(again)
        changed = [
            (self.released.column(f"d{j}", np.uint32, mine) != values[mine]).astype(np.int64)
            for j, values in enumerate(self.values)
        ]
        some = np.flatnonzero(np.any(changed, axis=0)) if changed else np.zeros(0, dtype=np.int64)
        numbers, distinct = numbered_pairs(self.klass[mine[some]])
        sums = {
            f"n{j}": pa.array(np.bincount(numbers, of_column[some], len(distinct)).astype(np.int64))
            for j, of_column in enumerate(changed)
        }
        return pa.table({**as_columns(distinct, "k"), **sums})

    def bundles_told(self) -> pa.Table:
        """How many units have each pair of classes, of the last release and of tonight's; absence is one."""
        was = (self.state == State.LIVE) & (self.last == self.night.previous) & (self.night.previous >= 0)
        # Who is gone was there too, if he was released last night.
        was |= (self.state == State.GONE) & (self.last == self.night.previous) & (self.night.previous >= 0)
        before = np.where(was[:, None], self.klass, ABSENT)
        some = np.flatnonzero(was | self.is_released)
        # Equal pairs of classes are told by one digest, as equal traces are.
        numbers, distinct = numbered_pairs(next_traces(before, self.classes)[some])
        first = np.full(len(distinct), len(some), dtype=np.int64)
        np.minimum.at(first, numbers, np.arange(len(some)))
        n = pa.array(np.bincount(numbers, minlength=len(distinct)).astype(np.int64))
        ends = {**as_columns(before[some][first], "b"), **as_columns(self.classes[some][first], "k")}
        return pa.table({**as_columns(distinct, "t"), **ends, "n": n})

    def rows_told(self) -> pa.Table:
        """The confidential rows of who left, as last released, and of who arrived."""
        left = np.flatnonzero((self.state == State.LIVE) & ~self.there)
        arrived = np.flatnonzero(self.is_released & (self.state == State.HELD))
        rows = np.concatenate([self.row[left], self.released.column("row", np.uint64, arrived)])
        return pa.table({"row": pa.array(rows), "left": pa.array(np.arange(len(rows)) < len(left))})

    def distinct_rows(self) -> int:
        """How many different confidential rows the range's units have, as far as they were released."""
        return len(np.unique(self.row[self.state != State.HELD]))
