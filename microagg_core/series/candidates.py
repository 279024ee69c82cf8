"""The candidate files of a night, as the gate reads them: what they say of their rows, and whose rows they are.

Every row has a class and digests of its values; the input part of its record knows whose it is. How groups were made,
or what becomes of atoms, is not asked: of a file of survivors it is found out which atoms are in it, how many of their
units and in which class, and only what is not as it was is sent on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Ints, Pairs, UInt64s
from microagg_core.data.tables.slices import RECORD, Slices, to_bytes, write_slices
from microagg_core.plain import from_json, to_json
from microagg_core.release.steps.pieces import Piece
from microagg_core.release.steps.routing import Planned, load_planned
from microagg_core.release.steps.shuffling import gather_slices, read_slices
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.atoms import from_number, numbered_atoms, places_of_atoms, range_of_classes
from microagg_core.series.digests import as_columns, classes_of, numbered_pairs, pairs_of, positions_of_numbers
from microagg_core.series.generations import Counts
from microagg_core.series.marks import ATOM
from microagg_core.series.matching import half_of, read_unit_ranges
from microagg_core.series.night import GHOSTS_FROM, Night, confidential_digests, layout_of, load_night
from microagg_core.series.survivors import absent_units, number_of_ghosts
from microagg_core.series.units import NO_ATOM

#: The objects of a checked file: what is told of its rows, for the parts of their records and the ranges of ghosts; and
#: its new atoms, for their ranges.
ROWS, ATOMS = 0, 1


@dataclass(frozen=True)
class GateCounts(Counts):
    """Counts of what a candidate file, or a range of the next ledger, should not have."""

    #: Units that are released although they never may be again.
    again: int = 0
    #: Survivors that are not released in the class in which they were last.
    moved: int = 0
    #: Survivors, or ghosts, with values that are neither tonight's nor those of their last release.
    altered: int = 0
    #: Released records whose unit is not known.
    unknown: int = 0
    #: Atoms of which some are released, and others may be later.
    split: int = 0


@dataclass(frozen=True)
class Looked:
    """Notes of one candidate file: what it should not have, and how many numbers its new atoms need."""

    wrong: GateCounts
    numbers: int = 0


def tell_arrivals(task: Task, plan: Planned, table: pa.Table, records: Ints) -> tuple[list[Piece], Slices]:
    """Send every row's new atom and digests to the input part of its record, and the atoms' classes to their ranges."""
    (night, key), layout = load_night(task), layout_of(task)
    number, distinct = numbered_pairs(classes_of(table, _keys_of(plan), key))
    atoms, n_numbers = numbered_atoms(distinct)
    rows, values = confidential_digests(plan.context, night, key, table)
    told = _row_table(records, atoms[number], np.ones(len(records), dtype=np.bool_), rows, values)
    data, slices = write_slices(told, plan.survey.parts_of(records), task.number, ROWS)
    new = pa.table({ATOM: pa.array(atoms), **as_columns(distinct, "k")})
    of_atoms, more = write_slices(new, range_of_classes(distinct, night.n_atom_ranges), task.number, ATOMS)
    pieces = [
        task.put(layout.classes(task.number), data),
        task.put(layout.new_atoms(task.number), of_atoms),
        task.put(layout.looked(task.number), to_json(Looked(GateCounts(), n_numbers))),
    ]
    return pieces, slices + more


def _keys_of(plan: Planned) -> list[str]:
    return [c.name for c in (*plan.context.schema.blocking, *plan.context.schema.quasi_identifiers)]


def _row_table(
    records: Ints,
    atoms: UInt64s,
    out: Bools,
    rows: UInt64s,
    values: list[NDArray[np.uint32]],
    differs: UInt64s | None = None,
) -> pa.Table:
    """Tabulate what ledger ranges hear of rows: a new atom, whether they are released, digests of their values."""
    differs = np.zeros(len(records), dtype=np.uint64) if differs is None else differs
    columns = {RECORD: pa.array(records), ATOM: pa.array(atoms), "out": pa.array(out), "row": pa.array(rows)}
    columns |= {f"d{j}": pa.array(of_column) for j, of_column in enumerate(values)}
    return pa.table({**columns, "differs": pa.array(differs)})


def look_at_survivors(task: Task, plan: Planned, table: pa.Table, records: Ints) -> tuple[list[Piece], Slices]:
    """Compare a file with the atoms that it should hold, and send on what is not as it was."""
    (night, key), layout = load_night(task), layout_of(task)
    held = _Held(task, plan, night, records)
    klass = classes_of(table, _keys_of(plan), key)
    rows, values = confidential_digests(plan.context, night, key, table)
    differs = held.differs(rows, values)
    told, destination = held.exceptions(plan, rows, values, differs)
    data, slices = write_slices(told, destination, task.number, ROWS)
    pieces = [
        task.put(layout.exceptions(task.number), data),
        task.put(layout.seen(task.number), to_bytes(held.seen(klass))),
        task.put(layout.looked(task.number), to_json(Looked(held.wrong(klass, differs)))),
    ]
    return pieces, slices


class _Held:
    """The rows of a file of survivors, and whose they are.

    ``came`` is what the input has of survivors of the file's atoms; None: there are none.
    """

    def __init__(self, task: Task, plan: Planned, night: Night, records: Ints) -> None:
        self._night, self._records = night, records
        self._atoms = night.read_atoms(task.number - plan.outline.n_files)
        self._came = came = gather_slices(task.run, task.slices, "scatter", layout_of(task).survivors_read)
        #: For each row of the file, its place in ``came``; -1 for ghosts, and for rows that are nobody's.
        self._row = np.full(len(records), -1, dtype=np.int64)
        #: The place of each row's atom; -1 for rows that are nobody's.
        self._atom = self._row.copy()
        if came is not None:
            self._row = positions_of_numbers(records, np.asarray(came[RECORD]))
            is_own = self._row >= 0
            self._atom[is_own] = places_of_atoms(np.asarray(came[ATOM]), self._atoms)[self._row[is_own]]
        absent = absent_units(task, task.sent_by("match"))
        if absent is not None:
            numbers = number_of_ghosts(np.asarray(absent["unit_range"]), np.asarray(absent["index"]))
            ghost = positions_of_numbers(records, numbers)
            self._atom[ghost >= 0] = places_of_atoms(np.asarray(absent[ATOM]), self._atoms)[ghost[ghost >= 0]]
        self._is_changed = self._of_input("changed", np.dtype(np.bool_))

    def _of_input(self, name: str, kind: np.dtype[Any]) -> NDArray[Any]:
        values: NDArray[Any] = np.zeros(len(self._row), dtype=kind)
        if self._came is not None:
            is_own = self._row >= 0
            values[is_own] = np.asarray(self._came[name])[self._row[is_own]]
        return values

    def differs(self, rows: UInt64s, values: list[NDArray[np.uint32]]) -> UInt64s:
        """For survivors' rows, set a bit for each watched column whose value is not tonight's; or one for the row."""
        differs, is_own = np.zeros(len(self._row), dtype=np.uint64), self._row >= 0
        digests = {f"d{j}": of_column for j, of_column in enumerate(values)} or {"half": half_of(rows)}
        for j, (name, digest) in enumerate(digests.items()):
            other = is_own & (digest != self._of_input(name, digest.dtype))
            differs |= other.astype(np.uint64) << np.uint64(j)
        return differs

    def wrong(self, classes: Pairs, differs: UInt64s) -> GateCounts:
        # Who has tonight the values of his last release cannot have others; whose are others, the ledger tells.
        altered = (differs != 0) & ~(self._is_changed & bool(self._night.compared))
        moved = self._are_moved(classes)
        return GateCounts(moved=int(moved.sum()), altered=int(altered.sum()), unknown=int((self._atom < 0).sum()))

    def _are_moved(self, classes: Pairs) -> Bools:
        """Mark rows that are not in the class in which their atom was released last."""
        moved, known = np.zeros(len(self._atom), dtype=np.bool_), self._atom >= 0
        moved[known] = np.any(classes[known] != pairs_of(self._atoms, "k")[self._atom[known]], axis=1)
        return moved

    def seen(self, classes: Pairs) -> pa.Table:
        """Collect the atoms that are not in the file as they were: classes, with how many units; zeros where absent."""
        known = self._atom >= 0
        n_out = np.bincount(self._atom[known], minlength=self._atoms.num_rows)
        is_odd = n_out != np.asarray(self._atoms["n"])
        is_odd[self._atom[self._are_moved(classes)]] = True
        odd = np.flatnonzero(known)[is_odd[self._atom[known]]]
        numbers, distinct = numbered_pairs(classes[odd])
        both, n = np.unique(np.column_stack([self._atom[odd], numbers]), axis=0, return_counts=True)
        absent = np.flatnonzero(is_odd & (n_out == 0))
        places = np.concatenate([both[:, 0].astype(np.int64), absent])
        of_atoms = np.concatenate([distinct[both[:, 1].astype(np.int64)], np.zeros((len(absent), 2), dtype=np.uint64)])
        counts = np.concatenate([n, np.zeros(len(absent), dtype=np.int64)]).astype(np.int64)
        atom = np.asarray(self._atoms[ATOM])[places]
        return pa.table({ATOM: pa.array(atom), **as_columns(of_atoms, "k"), "n": pa.array(counts)})

    def exceptions(
        self, plan: Planned, rows: UInt64s, values: list[NDArray[np.uint32]], differs: UInt64s
    ) -> tuple[pa.Table, Ints]:
        """Collect the rows that the ledger has to hear of, and missing survivors, with the range that each goes to."""
        n_parts, missing = len(plan.context.parts), self._missing()
        is_ghost = (self._records >= GHOSTS_FROM) & (self._atom >= 0)
        odd = np.flatnonzero(is_ghost | self._is_changed)

        def with_missing(of_rows: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([of_rows[odd], np.zeros(len(missing), of_rows.dtype)])

        records = np.concatenate([self._records[odd], missing])
        ghost = with_missing(is_ghost)
        of_parts = plan.survey.parts_of(np.where(ghost, 0, records))
        destination = np.where(ghost, n_parts + records // GHOSTS_FROM - 1, of_parts)
        numbers = np.where(ghost, records % GHOSTS_FROM, records)
        no_atom = np.full(len(records), NO_ATOM, dtype=np.uint64)
        out = np.arange(len(records)) < len(odd)
        digests = [with_missing(digest) for digest in values]
        return _row_table(numbers, no_atom, out, with_missing(rows), digests, with_missing(differs)), destination

    def _missing(self) -> Ints:
        """Find the records of survivors that may vanish tonight, and are not in the file."""
        if self._came is None:
            return np.zeros(0, dtype=np.int64)
        atom = places_of_atoms(np.asarray(self._came[ATOM]), self._atoms)
        is_missing = self._night.may_vanish(np.asarray(self._atoms["since"])[atom])
        is_missing[self._row[self._row >= 0]] = False
        return np.asarray(self._came[RECORD])[is_missing]


def join_part(task: Task) -> Receipt:
    """Send what the files have of one input part's records to the ranges of units; or pass ghosts on to a range."""
    plan = load_planned(task)
    layout, n_parts = layout_of(task), len(plan.context.parts)
    told = _gathered(task, plan)
    if told is None:
        return Receipt(task.step, task.number, 0, ())
    is_part = task.number < n_parts
    first = plan.survey.first_record(task.number) if is_part else 0
    place = np.asarray(told[RECORD]) - first
    table = told.set_column(0, RECORD, pa.array(place))
    table = table.append_column("part", pa.array(np.full(len(place), task.number if is_part else -1, dtype=np.int32)))
    if is_part:
        destination = read_unit_ranges(task, task.number)[place]
    else:
        destination = np.full(len(place), task.number - n_parts, dtype=np.int64)
    data, slices = write_slices(table, destination, task.number)
    return Receipt(task.step, task.number, told.num_rows, (task.put(layout.joined(task.number), data),), slices)


def _gathered(task: Task, plan: Planned) -> pa.Table | None:
    """Gather what all files say of the part's records, new atoms by their numbers in the series."""
    layout, tables = layout_of(task), []
    firsts = from_json(list[int], task.pieces.read(layout.numbering()))
    n_files = plan.outline.n_files

    def name_of(file: int, _: int) -> str:
        return layout.classes(file) if file < n_files else layout.exceptions(file)

    for one, table in zip(task.slices, read_slices(task.run, task.slices, "check-files", name_of), strict=True):
        if one.maker < n_files:
            atoms = from_number(np.asarray(table[ATOM]), firsts[one.maker])
            table = table.set_column(1, ATOM, pa.array(atoms))
        tables.append(table)
    return pa.concat_tables(tables).combine_chunks() if tables else None
