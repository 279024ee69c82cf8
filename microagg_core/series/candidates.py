"""What the files that would be published say of their rows, and whose rows they are.

Every row of a candidate file has a class and digests of its values; the input part of its record tells whose it is. It
is not asked how groups were made, or what becomes of atoms: of a file of survivors it is found out which atoms are in
it, how many of their units and in which class, and only what is not as it was is told to anybody.
"""

from __future__ import annotations

from dataclasses import dataclass

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
class Looked:
    """What was noted of one candidate file: what it should not have, and how many numbers its new atoms need."""

    wrong: GateCounts
    numbers: int = 0


def tell_arrivals(task: Task, plan: Planned, table: pa.Table, records: Ints) -> tuple[list[Piece], Slices]:
    """New atom and digests of every row, for the input part of its record; and the classes of the atoms."""
    (night, key), layout = load_night(task), layout_of(task)
    number, distinct = numbered_pairs(classes_of(table, _keys_of(plan), key))
    atoms, n_numbers = numbered_atoms(distinct)
    rows, values = confidential_digests(plan.context, night, key, table)
    told = _told(records, atoms[number], np.ones(len(records), dtype=np.bool_), rows, values)
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


def _told(
    records: Ints,
    atoms: UInt64s,
    out: Bools,
    rows: UInt64s,
    values: list[NDArray[np.uint32]],
    differs: UInt64s | None = None,
) -> pa.Table:
    """What is told of rows: their new atom, if they have one, whether they are released, digests of their values."""
    differs = np.zeros(len(records), dtype=np.uint64) if differs is None else differs
    columns = {RECORD: pa.array(records), ATOM: pa.array(atoms), "out": pa.array(out), "row": pa.array(rows)}
    columns |= {f"d{j}": pa.array(of_column) for j, of_column in enumerate(values)}
    return pa.table({**columns, "differs": pa.array(differs)})


def look_at_survivors(task: Task, plan: Planned, table: pa.Table, records: Ints) -> tuple[list[Piece], Slices]:
    """Compare a file with the atoms that it should hold; tells what is not as it was."""
    (night, key), layout = load_night(task), layout_of(task)
    held = _Held.of(task, plan, night, table, records)
    klass = classes_of(table, _keys_of(plan), key)
    rows, values = confidential_digests(plan.context, night, key, table)
    differs = held.differs(rows, values)
    told, destination = held.exceptions(plan, rows, values, differs)
    data, slices = write_slices(told, destination, task.number, ROWS)
    # Who has tonight the values of his last release cannot have others; whose are others, the ledger tells.
    altered = (differs != 0) & ~(held.is_changed & bool(night.compared))
    wrong = GateCounts(moved=held.moved(klass), altered=int(altered.sum()), unknown=held.unknown)
    pieces = [
        task.put(layout.exceptions(task.number), data),
        task.put(layout.seen(task.number), to_bytes(held.seen(klass))),
        task.put(layout.looked(task.number), to_json(Looked(wrong))),
    ]
    return pieces, slices


@dataclass(frozen=True)
class _Held:
    """The rows of a file of survivors, and whose they are.

    Attributes:
        atoms: the atoms of the range, as the ledger has them.
        came: what the input has of survivors of these atoms; None: there are none.
        row: for each row of the file, its place in ``came``; -1 for ghosts, and for rows that are nobody's.
        atom: the place of each row's atom; -1 for rows that are nobody's.
    """

    night: Night
    records: Ints
    atoms: pa.Table
    came: pa.Table | None
    row: Ints
    atom: Ints

    @classmethod
    def of(cls, task: Task, plan: Planned, night: Night, table: pa.Table, records: Ints) -> _Held:
        atom_range = task.number - plan.outline.n_files
        atoms = night.read_atoms(atom_range)
        came = gather_slices(task.run, task.slices, "scatter", layout_of(task).survivors_read)
        row, atom = (np.full(len(records), -1, dtype=np.int64) for _ in range(2))
        if came is not None:
            row = positions_of_numbers(records, np.asarray(came[RECORD]))
            atom[row >= 0] = places_of_atoms(np.asarray(came[ATOM]), atoms)[row[row >= 0]]
        absent = absent_units(task, task.sent_by("match"))
        if absent is not None:
            numbers = number_of_ghosts(np.asarray(absent["unit_range"]), np.asarray(absent["index"]))
            ghost = positions_of_numbers(records, numbers)
            atom[ghost >= 0] = places_of_atoms(np.asarray(absent[ATOM]), atoms)[ghost[ghost >= 0]]
        return cls(night, records, atoms, came, row, atom)

    @property
    def unknown(self) -> int:
        """How many rows are nobody's who may be in the file."""
        return int((self.atom < 0).sum())

    @property
    def is_changed(self) -> Bools:
        """Whose values are others tonight than in their last release."""
        changed, mine = np.zeros(len(self.row), dtype=np.bool_), self.row >= 0
        if self.came is not None:
            changed[mine] = np.asarray(self.came["changed"])[self.row[mine]]
        return changed

    def differs(self, rows: UInt64s, values: list[NDArray[np.uint32]]) -> UInt64s:
        """For survivors' rows, a bit for each watched column whose value is not tonight's; or one for the whole row."""
        differs = np.zeros(len(self.row), dtype=np.uint64)
        mine = self.row >= 0
        if self.came is None:
            return differs
        place = self.row[mine]
        if not values:
            differs[mine] = half_of(rows)[mine] != np.asarray(self.came["half"])[place]
        for j, of_column in enumerate(values):
            other = of_column[mine] != np.asarray(self.came[f"d{j}"])[place]
            differs[mine] |= other.astype(np.uint64) << np.uint64(j)
        return differs

    def moved(self, klass: Pairs) -> int:
        """How many are not in the class in which their atom was released last."""
        mine = self.atom >= 0
        return int(np.any(klass[mine] != pairs_of(self.atoms, "k")[self.atom[mine]], axis=1).sum())

    def seen(self, klass: Pairs) -> pa.Table:
        """The atoms that are not in the file as they were: their classes, with how many units; no class for none."""
        n_atoms = self.atoms.num_rows
        mine = np.flatnonzero(self.atom >= 0)
        n_out = np.bincount(self.atom[mine], minlength=n_atoms)
        is_odd = n_out != np.asarray(self.atoms["n"])
        moved = np.any(klass[mine] != pairs_of(self.atoms, "k")[self.atom[mine]], axis=1)
        is_odd[self.atom[mine[moved]]] = True
        odd = mine[is_odd[self.atom[mine]]]
        numbers, distinct = numbered_pairs(klass[odd])
        both, n = np.unique(np.column_stack([self.atom[odd], numbers]), axis=0, return_counts=True)
        none = np.flatnonzero(is_odd & (n_out == 0))
        places = np.concatenate([both[:, 0].astype(np.int64), none])
        classes = np.concatenate([distinct[both[:, 1].astype(np.int64)], np.zeros((len(none), 2), dtype=np.uint64)])
        counts = np.concatenate([n, np.zeros(len(none), dtype=np.int64)]).astype(np.int64)
        atom = np.asarray(self.atoms[ATOM])[places]
        return pa.table({ATOM: pa.array(atom), **as_columns(classes, "k"), "n": pa.array(counts)})

    def exceptions(
        self, plan: Planned, rows: UInt64s, values: list[NDArray[np.uint32]], differs: UInt64s
    ) -> tuple[pa.Table, Ints]:
        """The rows of which the ledger has to hear, and who was to be in the file and is not; and where they go."""
        n_parts = len(plan.context.parts)
        is_ghost = (self.records >= GHOSTS_FROM) & (self.atom >= 0)
        missing = np.zeros(0, dtype=np.int64)
        if self.came is not None:
            atom = places_of_atoms(np.asarray(self.came[ATOM]), self.atoms)
            is_missing = self.night.may_vanish(np.asarray(self.atoms["since"])[atom])
            is_missing[self.row[self.row >= 0]] = False
            missing = np.asarray(self.came[RECORD])[is_missing]
        some, n = np.flatnonzero(is_ghost | self.is_changed), len(missing)
        records = np.concatenate([self.records[some], missing])
        ghost = np.concatenate([is_ghost[some], np.zeros(n, dtype=np.bool_)])
        of_rows = [np.concatenate([values_of[some], np.zeros(n, values_of.dtype)]) for values_of in (rows, differs)]
        digests = [np.concatenate([d[some], np.zeros(n, d.dtype)]) for d in values]
        destination = np.where(
            ghost, n_parts + records // GHOSTS_FROM - 1, plan.survey.parts_of(np.where(ghost, 0, records))
        )
        numbers = np.where(ghost, records % GHOSTS_FROM, records)
        nobody = np.full(len(records), NO_ATOM, dtype=np.uint64)
        out = np.arange(len(records)) < len(some)
        return _told(numbers, nobody, out, of_rows[0], digests, of_rows[1]), destination


def join_part(task: Task) -> Receipt:
    """Tell the ranges of units what the files have of the records of one input part; or pass ghosts on to a range."""
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
    """What all files tell of the part's records, their new atoms with the numbers that they have in the series."""
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


@dataclass(frozen=True)
class GateCounts(Counts):
    """What a candidate file, or a range of the next ledger, has that it should not have."""

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
