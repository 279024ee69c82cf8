"""The gate of a night: the next state of the ledger, from the files that would be published, and what it says.

Every row of the candidate files tells its class and digests of its values; the input part of its record tells whose it
is; and the ledger's range of that unit has its trace. It is not asked how groups were made, or what became of atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.plain import to_json
from microagg_core.series.digests import Pairs, classes_of, numbered
from microagg_core.series.fates import VANISHED
from microagg_core.series.generations import RangeFile, UnitCounts
from microagg_core.series.joining import as_columns, pairs_of, positions_in
from microagg_core.series.marks import SURVIVOR
from microagg_core.series.night import GHOSTS_FROM, Night
from microagg_core.series.ranges import State, counts_of, range_of, range_schema
from microagg_core.series.traces import ABSENT, counted, never, next_traces
from microagg_core.steps.nights.counts import GateCounts
from microagg_core.steps.nights.knowing import confidential_digests, layout_of, load_night
from microagg_core.steps.nights.matching import read_unit_ranges
from microagg_core.steps.pieces import Piece
from microagg_core.steps.reading import BatchMarks, PartBatch
from microagg_core.steps.routing import Planned, load_planned
from microagg_core.steps.scattering import gather_slices
from microagg_core.steps.work import Receipt, Task
from microagg_core.tables.slices import RECORD, Slice, read_slice, to_bytes, write_slices

#: The objects of a traced range: units of each trace, and changed units of each class.
TRACES, CHANGES = 0, 1
#: A value differs from tonight's input: the bit of whole rows, where single columns are not watched.
_ROW_BIT = np.uint64(1) << np.uint64(63)


# --- What a candidate file says of its rows --------------------------------------------------------------------


def tell_classes(task: Task, planned: Planned, table: pa.Table, records: Ints) -> tuple[Piece, list[Slice]]:
    """Class and digests of every row, for the input part of its record; of ghosts, for the range of their unit."""
    night, key = load_night(task)
    keys = [c.name for c in (*planned.context.schema.blocking, *planned.context.schema.quasi_identifiers)]
    rows, values = confidential_digests(planned.context, night, key, table)
    is_ghost = records >= GHOSTS_FROM
    number = np.where(is_ghost, records % GHOSTS_FROM, records)
    columns = {RECORD: pa.array(number), **as_columns(classes_of(table, keys, key), "k"), "row": pa.array(rows)}
    columns |= {f"d{j}": pa.array(of_column) for j, of_column in enumerate(values)}
    n_parts = len(planned.context.parts)
    part = planned.survey.parts_of(np.where(is_ghost, 0, records))
    destination = np.where(is_ghost, n_parts + records // GHOSTS_FROM - 1, part)
    data, slices = write_slices(pa.table(columns), destination, task.number)
    return task.put(layout_of(task).classes(task.number), data), slices


def tell_survivors(task: Task, planned: Planned, batch: PartBatch, marks: BatchMarks) -> pa.Table:
    """Digests of what the input has of a batch's survivors."""
    night, key = load_night(task)
    mine = np.flatnonzero(marks.codes == SURVIVOR)
    confidential = [c.name for c in planned.context.schema.confidential]
    table = batch.whole.select(confidential).take(pa.array(mine))
    rows, values = confidential_digests(planned.context, night, key, table)
    columns = {RECORD: pa.array(batch.all_records[mine]), "row": pa.array(rows)}
    return pa.table({**columns, **{f"d{j}": pa.array(of_column) for j, of_column in enumerate(values)}})


def save_survivors(task: Task, told: Sequence[pa.Table]) -> Piece:
    """Write what was told of one part's survivors."""
    return task.put(layout_of(task).survivors_read(task.number), to_bytes(pa.concat_tables(told).combine_chunks()))


# --- Whose rows they are ---------------------------------------------------------------------------------------


def join_part(task: Task) -> Receipt:
    """Tell the ranges of units what the files have of the records of one input part; or pass ghosts on to a range."""
    planned, (night, _) = load_planned(task), load_night(task)
    layout, n_parts = layout_of(task), len(planned.context.parts)
    told = gather_slices(task.run, task.slices, "check-files", lambda number, _: layout.classes(number))
    if told is None:
        return Receipt(task.step, task.number, 0, ())
    if task.number >= n_parts:
        differs = np.zeros(told.num_rows, dtype=np.uint64)
        table = _joined(told, differs, part=-1, first=0)
        destination = np.full(told.num_rows, task.number - n_parts, dtype=np.int64)
    else:
        first = planned.survey.first_record(task.number)
        table = _joined(told, _differences(task, night, told), task.number, first)
        destination = read_unit_ranges(task, task.number)[np.asarray(told[RECORD]) - first]
    data, slices = write_slices(table, destination, task.number)
    return Receipt(task.step, task.number, told.num_rows, (task.put(layout.joined(task.number), data),), tuple(slices))


def _joined(told: pa.Table, differs: UInt64s, part: int, first: int) -> pa.Table:
    place = np.asarray(told[RECORD]) - first
    table = told.set_column(0, RECORD, pa.array(place))
    table = table.append_column("part", pa.array(np.full(told.num_rows, part, dtype=np.int32)))
    return table.append_column("differs", pa.array(differs))


def _differences(task: Task, night: Night, told: pa.Table) -> UInt64s:
    """For survivors' rows, a bit for each watched column whose value is not tonight's input's; or one for the row."""
    differs = np.zeros(told.num_rows, dtype=np.uint64)
    name = layout_of(task).survivors_read(task.number)
    if not any(piece.name == name for piece in task.reads):
        return differs
    read = read_slice(task.pieces.read(name))
    records = np.asarray(read[RECORD])
    if not len(records):
        return differs
    place = np.searchsorted(records, np.asarray(told[RECORD]))
    place[place == len(records)] = 0
    mine = np.flatnonzero(records[place] == np.asarray(told[RECORD]))
    if not night.columns:
        other = np.asarray(told["row"])[mine] != np.asarray(read["row"])[place[mine]]
        differs[mine] = np.where(other, _ROW_BIT, np.uint64(0))
        return differs
    for j in range(len(night.columns)):
        other = np.asarray(told[f"d{j}"])[mine] != np.asarray(read[f"d{j}"])[place[mine]]
        differs[mine] |= other.astype(np.uint64) << np.uint64(j)
    return differs


# --- The next state of the ledger ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RangeNotes:
    """What is noted of one range of the next ledger."""

    file: RangeFile
    counts: UnitCounts
    wrong: GateCounts

    @classmethod
    def of_nobody(cls, file: RangeFile) -> RangeNotes:
        """Of a range of a ledger that knows no units."""
        return cls(file, UnitCounts(), GateCounts())


def trace_range(task: Task) -> Receipt:
    """Make one range of the next ledger; tells how many units share each trace, and what changed in each class."""
    night, _ = load_night(task)
    layout = layout_of(task)
    state = night.read_state(task.number)
    known = read_slice(task.pieces.read(layout.known(task.number)))
    units = _Units.of(night, state, known, _released(task, night, known, state.num_rows))
    following, wrong = units.following(_vanished(task)), units.wrong()
    file = night.ledger.write_range(night.number, task.number, following)
    pieces, slices = [], []
    for number, told in ((TRACES, units.traces_told()), (CHANGES, units.changes_told())):
        pair = "t" if number == TRACES else "k"
        data, some = write_slices(told, range_of(pairs_of(told, pair)[:, 0], night.n_ranges), task.number, number)
        pieces.append(task.put(layout.traces_told(task.number, number), data))
        slices += some
    notes = RangeNotes(file, counts_of(following, night.number), wrong)
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


def _released(task: Task, night: Night, known: pa.Table, n_state: int) -> _Released:
    """Find the unit of every released row, by the place of its record in the input."""
    layout = layout_of(task)
    table = gather_slices(task.run, task.slices, "join", lambda number, _: layout.joined(number))
    index = np.asarray(known["index"])
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
    among = np.column_stack([np.asarray(known["part"]), np.asarray(known[RECORD])]).astype(np.uint64)
    found = positions_in(wanted, among)
    row[unit[found[found >= 0]]] = mine[found >= 0]
    return _Released(table, row, int(np.sum(found < 0)))


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
    def of(cls, night: Night, state: pa.Table, known: pa.Table, released: _Released) -> _Units:
        """Put together."""
        index = np.asarray(known["index"])
        new = np.flatnonzero(index < 0)
        there = np.zeros(state.num_rows + len(new), dtype=np.bool_)
        there[index[index >= 0]] = there[state.num_rows :] = True
        n_new = len(new)

        def with_new(column: NDArray[Any], value: int) -> NDArray[Any]:
            return np.concatenate([column, np.full(n_new, value, dtype=column.dtype)])

        unreleased = np.array([never(night.number)], dtype=np.uint64)
        states = with_new(np.asarray(state["state"]), State.HELD)
        trace = np.concatenate([pairs_of(state, "t"), np.repeat(unreleased, n_new, axis=0)])
        trace[states == State.HELD] = unreleased
        return cls(
            night,
            state.num_rows,
            there,
            np.concatenate([pairs_of(state, "u"), pairs_of(known, "u")[new]]),
            states,
            trace,
            np.concatenate([pairs_of(state, "k"), np.zeros((n_new, 2), dtype=np.uint64)]),
            with_new(np.asarray(state["row"]), 0),
            with_new(np.asarray(state["since"]), night.number),
            with_new(np.asarray(state["last"]), -1),
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
        ever: Bools = (self.state != State.HELD) | self.is_released
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
        kept = np.flatnonzero(self.ever_released | self.there)
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
        altered: Bools = differs & _ROW_BIT != 0
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
        numbers, distinct = numbered(self.klass[mine[some]])
        sums = {
            f"n{j}": pa.array(np.bincount(numbers, of_column[some], len(distinct)).astype(np.int64))
            for j, of_column in enumerate(changed)
        }
        return pa.table({**as_columns(distinct, "k"), **sums})


# --- What it says ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TraceNotes:
    """Of one range of traces: the rarest, and how many units have one that fewer than k share; and broken changes."""

    smallest: int | None
    units_below: int
    #: For each watched column, the classes in which some, but fewer than k, units changed.
    lone_changes: tuple[int, ...]


def count_traces(task: Task) -> Receipt:
    """Add up one range of traces, and of classes."""
    night, _ = load_night(task)
    layout = layout_of(task)

    def gathered(number: int) -> pa.Table | None:
        wanted = [one for one in task.slices if one.object == number]
        return gather_slices(task.run, wanted, "trace", layout.traces_told)

    traces, changes = gathered(TRACES), gathered(CHANGES)
    smallest, below = None, 0
    if traces is not None:
        _, n = counted(pairs_of(traces, "t"), np.asarray(traces["n"]))
        _, n_out = counted(pairs_of(traces, "t"), np.asarray(traces["out"]))
        # Who was released under a smaller k, and is not tonight, shares his trace with as many as he was promised.
        needed = np.where(n_out > 0, night.k, night.least_k)
        smallest, below = int(n.min()), int(n[n < needed].sum())
    lone = tuple(_lone(changes, j, night.k) for j in range(len(night.columns)))
    piece = task.put(layout.trace_notes(task.number), to_json(TraceNotes(smallest, below, lone)))
    return Receipt(task.step, task.number, 0, (piece,))


def _lone(changes: pa.Table | None, column: int, k: int) -> int:
    if changes is None:
        return 0
    _, n = counted(pairs_of(changes, "k"), np.asarray(changes[f"n{column}"]))
    return int(np.sum((n > 0) & (n < k)))
