"""Who is who tonight: the units of the input met with those of the ledger.

Each input part tells the digests of its units, cut by range of units; a range is met with the ledger's; and each part
learns what its records are: arrivals, survivors, or units that are never released again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Bytes, Ints, Pairs
from microagg_core.formats.reading import read_part
from microagg_core.plain import to_json
from microagg_core.series.digests import units_of
from microagg_core.series.joining import as_columns, pairs_of, positions_in
from microagg_core.series.marks import ARRIVAL, CLOSED, CODE, RANGE, SURVIVOR, WAITED
from microagg_core.series.night import Night
from microagg_core.series.ranges import State, range_of
from microagg_core.steps.nights.counts import MatchCounts
from microagg_core.steps.nights.knowing import confidential_digests, layout_of, load_night
from microagg_core.steps.pieces import Piece
from microagg_core.steps.scattering import Scatter, gather_slices
from microagg_core.steps.units import count_repeated
from microagg_core.steps.work import Receipt, Task, load_context
from microagg_core.tables.slices import RECORD, Slice, read_slice, to_bytes, write_slices

#: The objects of a matched range: what the records are, for the parts; and the members of atoms, for their ranges.
MARKS, MEMBERS = 0, 1
#: The range of units of each record, beside its mark.
UNIT_RANGE = "unit_range"


def identify_part(task: Task) -> Receipt:
    """Tell the digests of one input part's units, and of their confidential values where changes are looked at."""
    context, (night, key) = load_context(task.run, task.reads), load_night(task)
    confidential = [c.name for c in context.schema.confidential] if night.columns else []
    names = tuple(dict.fromkeys((*night.unit, *confidential)))
    scatter, rows = Scatter(task, layout_of(task).identified), 0
    for table in read_part(context.parts[task.number], context.spec.input, names):
        units = units_of([table[name] for name in night.unit], key)
        columns = {RECORD: pa.array(np.arange(rows, rows + table.num_rows)), **as_columns(units, "u")}
        if night.columns:
            _, values = confidential_digests(context, night, key, table)
            columns |= {f"d{j}": pa.array(of_column) for j, of_column in enumerate(values)}
        scatter.add(pa.table(columns), range_of(units[:, 0], night.n_ranges))
        rows += table.num_rows
    scatter.flush()
    return Receipt(task.step, task.number, rows, tuple(scatter.pieces), tuple(scatter.slices))


class _Tonight:
    """The units of one range that are in tonight's input: part and place in it, and where the ledger has them."""

    def __init__(self, task: Task, night: Night, state: pa.Table) -> None:
        self.table = _gathered(task, len(night.columns))
        self.units = pairs_of(self.table, "u")
        self.index = positions_in(self.units, pairs_of(state, "u"))

    @property
    def n(self) -> int:
        return len(self.index)

    def places(self, n_state: int) -> tuple[Bools, Ints]:
        """Of each unit of the ledger, whether it is in the input, and at which row of the table."""
        there, row = np.zeros(n_state, dtype=np.bool_), np.zeros(n_state, dtype=np.int64)
        rows = np.flatnonzero(self.index >= 0)
        there[self.index[rows]], row[self.index[rows]] = True, rows
        return there, row


def _gathered(task: Task, n_columns: int) -> pa.Table:
    """All digests that were told for the range, with the number of the part they come from."""
    tables = []
    for one in task.slices:
        table = gather_slices(task.run, [one], "identify", layout_of(task).identified)
        if table is not None:
            tables.append(table.append_column("part", pa.array(np.full(table.num_rows, one.maker, dtype=np.int32))))
    if tables:
        return pa.concat_tables(tables).combine_chunks()
    fields = [(RECORD, pa.int64()), ("u0", pa.uint64()), ("u1", pa.uint64())]
    fields += [(f"d{j}", pa.uint32()) for j in range(n_columns)]
    return pa.schema([*fields, ("part", pa.int32())]).empty_table()


def match_range(task: Task) -> Receipt:
    """Meet one range of tonight's units with the ledger's."""
    night, _ = load_night(task)
    state = night.read_state(task.number)
    tonight = _Tonight(task, night, state)
    codes = _codes(night, state, tonight.index)
    marks, slices = _marks(task, night, state, tonight, codes)
    members, more = _members(task, night, state, tonight)
    of_units = tonight.table.select([RECORD, "part", "u0", "u1"]).append_column("index", pa.array(tonight.index))
    counts = _counted(state, tonight, codes)
    layout, number = layout_of(task), task.number
    written = (task.put(layout.tonight(number), to_bytes(of_units)), task.put(layout.matched(number), to_json(counts)))
    return Receipt(task.step, number, tonight.n, (marks, members, *written), (*slices, *more))


def _codes(night: Night, state: pa.Table, index: Ints) -> Bytes:
    """What each record of the input is."""
    codes = np.full(len(index), ARRIVAL, dtype=np.uint8)
    listed = index >= 0
    states, since = np.asarray(state["state"])[index[listed]], np.asarray(state["since"])[index[listed]]
    live = {"independent": ARRIVAL, "disjoint": CLOSED}.get(night.mode, SURVIVOR)
    gone = ARRIVAL if night.mode == "independent" else CLOSED
    codes[listed] = np.select(
        [states == State.LIVE, states == State.GONE, states == State.FORGOTTEN, since <= night.waited],
        [live, gone, CLOSED, WAITED],
        ARRIVAL,
    )
    return codes


def _marks(task: Task, night: Night, state: pa.Table, tonight: _Tonight, codes: Bytes) -> tuple[Piece, list[Slice]]:
    ranges = np.zeros(tonight.n, dtype=np.uint16)
    survivors = codes == SURVIVOR
    if survivors.any():
        ranges[survivors] = atom_range(pairs_of(state, "k"), night)[tonight.index[survivors]]
    table = pa.table({RECORD: tonight.table[RECORD], CODE: pa.array(codes), RANGE: pa.array(ranges)})
    data, slices = write_slices(table, np.asarray(tonight.table["part"]).astype(np.int64), task.number, MARKS)
    return task.put(layout_of(task).marks_told(task.number), data), slices


def atom_range(classes: Pairs, night: Night) -> Ints:
    """The range in which the atoms of each class are carried."""
    return (((classes[:, 0] >> np.uint64(32)) * np.uint64(max(night.n_atom_ranges, 1))) >> np.uint64(32)).astype(
        np.int64
    )


def _members(task: Task, night: Night, state: pa.Table, tonight: _Tonight) -> tuple[Piece, list[Slice]]:
    """All live units of the ledger, present or not, for the ranges of their classes."""
    live = np.flatnonzero(np.asarray(state["state"]) == State.LIVE) if night.carries else np.zeros(0, dtype=np.int64)
    there, row = tonight.places(state.num_rows)
    present, row = there[live], row[live]
    kept = state.take(pa.array(live))
    columns = {name: kept[name] for name in kept.column_names if name != "state"}
    columns["present"] = pa.array(present)
    columns["unit_range"] = pa.array(np.full(len(live), task.number, dtype=np.uint16))
    columns["index"] = pa.array(live)
    for name in (RECORD, "part"):
        values = np.asarray(tonight.table[name]).astype(np.int64)
        columns["place" if name == RECORD else name] = pa.array(np.where(present, _taken(values, row), -1))
    for j in range(len(night.columns)):
        now = _taken(np.asarray(tonight.table[f"d{j}"]), row)
        columns[f"changed{j}"] = pa.array(present & (now != np.asarray(kept[f"d{j}"])))
    table = pa.table(columns)
    data, slices = write_slices(table, atom_range(pairs_of(kept, "k"), night), task.number, MEMBERS)
    return task.put(layout_of(task).members_told(task.number), data), slices


def _taken(values: NDArray[Any], row: Ints) -> NDArray[Any]:
    return values[row] if len(values) else np.zeros(len(row), dtype=values.dtype)


def _counted(state: pa.Table, tonight: _Tonight, codes: Bytes) -> MatchCounts:
    states = np.asarray(state["state"])
    there, _ = tonight.places(state.num_rows)
    return MatchCounts(
        repeated=count_repeated(tonight.units) if tonight.n else 0,
        arrivals=int(np.isin(codes, (ARRIVAL, WAITED)).sum()),
        closed=int((codes == CLOSED).sum()),
        released_before=int((there & (np.asarray(state["last"]) >= 0)).sum()),
        leavers=int((~there & (states == State.LIVE)).sum()),
    )


def mark_part(task: Task) -> Receipt:
    """Put together what the records of one input part are, in their order."""
    tables = []
    for one in task.slices:
        table = gather_slices(task.run, [one], "match", lambda number, _: layout_of(task).marks_told(number))
        if table is not None:
            tables.append(
                table.append_column(UNIT_RANGE, pa.array(np.full(table.num_rows, one.maker, dtype=np.uint16)))
            )
    columns = {CODE: pa.uint8(), RANGE: pa.uint16(), UNIT_RANGE: pa.uint16()}
    marks = pa.schema(list(columns.items())).empty_table()
    if tables:
        told = pa.concat_tables(tables).combine_chunks()
        order = np.argsort(np.asarray(told[RECORD]), kind="stable")
        marks = told.take(pa.array(order)).select(list(columns))
    return Receipt(task.step, task.number, marks.num_rows, (task.put(task.layout.marks(task.number), to_bytes(marks)),))


def read_unit_ranges(task: Task, part: int) -> Ints:
    """The range of units of every record of a part."""
    return np.asarray(read_slice(task.pieces.read(task.layout.marks(part)))[UNIT_RANGE]).astype(np.int64)
