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
from microagg_core.data.tables.slices import RECORD
from microagg_core.inspect.contract import ReleasedFile
from microagg_core.release.planned import PLANNED, Planned, load_planned
from microagg_core.release.step import CompanionStep, JsonOutput, Rows, Step, TableOutput, Work
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS
from microagg_core.release.steps.checking import NOTES, inspect_candidate
from microagg_core.release.steps.demands import DISTRIBUTIONS
from microagg_core.series.atoms import from_number, numbered_atoms, places_of_atoms, range_of_classes
from microagg_core.series.digests import as_columns, classes_of, numbered_pairs, pairs_of, positions_of_numbers
from microagg_core.series.marks import ATOM
from microagg_core.series.matching import ABSENT, UNIT_RANGES, half_of, read_unit_ranges
from microagg_core.series.night import GHOSTS_FROM, NIGHT, NIGHT_KEY, Added, Night, confidential_digests, load_night
from microagg_core.series.survivors import SURVIVOR_DIGESTS, absent_units, number_of_ghosts
from microagg_core.series.units import NO_ATOM

#: What a checked file of arrivals says of its rows, sent to the parts of their records; and its new atoms, to their
#: ranges. Of a file of survivors: rows of which the ledger has to hear, and ghosts, sent to ranges of units.
ARRIVED, NEW_ATOMS, EXCEPTIONS, GHOSTS = Rows("arrived"), Rows("new-atoms"), Rows("exceptions"), Rows("ghosts")
#: The atoms that a file of survivors does not hold as they were: how many units, in which class.
SEEN = TableOutput("seen")
#: From which number the new atoms of each file of arrivals are numbered.
NUMBERING = JsonOutput("numbering", list[int])
#: What the files have of the records of an input part, sent to ranges of units.
JOINED = Rows("joined")


@dataclass(frozen=True)
class Looked:
    """What was noted of one candidate file: what it should not have, and how many numbers its new atoms need."""

    wrong: GateCounts
    numbers: int = 0


@dataclass(frozen=True)
class Arrivals:
    """Rows of a candidate file of arrivals, of which the ledger has to hear."""

    work: Work
    plan: Planned

    @classmethod
    def of(cls, work: Work, plan: Planned) -> Arrivals | None:
        """Begin with a file; None where no ledger knows units."""
        return cls(work, plan) if work.has(NIGHT) else None

    def add(self, rows: ReleasedFile) -> None:
        """Send new atom and digests of every row to the input part of its record; and the classes of the atoms."""
        work, plan, table, records = self.work, self.plan, rows.table, rows.records
        night, key = load_night(work)
        number, distinct = numbered_pairs(classes_of(table, _keys_of(plan), key))
        atoms, n_numbers = numbered_atoms(distinct)
        digests, values = confidential_digests(plan.context, night, key, table)
        arrived = _told(records, atoms[number], np.ones(len(records), dtype=np.bool_), digests, values)
        work.send(ARRIVED, arrived, plan.survey.parts_of(records))
        new = pa.table({ATOM: pa.array(atoms), **as_columns(distinct, "k")})
        work.send(NEW_ATOMS, new, range_of_classes(distinct, night.n_atom_ranges))
        work.write(LOOKED, Looked(GateCounts(), n_numbers))

    def end(self) -> int:
        """Nothing is left to write."""
        return 0


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


def check_survivors(work: Work) -> int:
    """Re-read a file of survivors, compare it with the atoms that it should hold, and tell what is not as it was."""
    plan, (night, key) = load_planned(work), load_night(work)
    candidate, notes = inspect_candidate(work, plan, is_carried=True)
    if not notes.readable:
        return notes.rows
    table = candidate.table
    held = _Held.of(work, night, candidate.records)
    klass = classes_of(table, _keys_of(plan), key)
    rows, values = confidential_digests(plan.context, night, key, table)
    differs = held.differs(rows, values)
    held.send_exceptions(work, plan, rows, values, differs)
    # Who has tonight the values of his last release cannot have others; whose are others, the ledger tells.
    altered = (differs != 0) & ~(held.is_changed & bool(night.compared))
    work.write(SEEN, held.seen(klass))
    work.write(LOOKED, Looked(GateCounts(moved=held.moved(klass), altered=int(altered.sum()), unknown=held.unknown)))
    return notes.rows


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
    def of(cls, work: Work, night: Night, records: Ints) -> _Held:
        atoms = night.read_atoms(work.number)
        came = work.gather(SURVIVOR_DIGESTS)
        row, atom = (np.full(len(records), -1, dtype=np.int64) for _ in range(2))
        if came is not None:
            row = positions_of_numbers(records, np.asarray(came[RECORD]))
            atom[row >= 0] = places_of_atoms(np.asarray(came[ATOM]), atoms)[row[row >= 0]]
        absent = absent_units(work)
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

    def send_exceptions(
        self, work: Work, plan: Planned, rows: UInt64s, values: list[NDArray[np.uint32]], differs: UInt64s
    ) -> None:
        """Send the rows of which the ledger has to hear, and who was to be in the file and is not."""
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
        nobody = np.full(len(records), NO_ATOM, dtype=np.uint64)
        out = np.arange(len(records)) < len(some)
        numbers = np.where(ghost, records % GHOSTS_FROM, records)
        told = _told(numbers, nobody, out, of_rows[0], digests, of_rows[1])
        mine, ghosts = np.flatnonzero(~ghost), np.flatnonzero(ghost)
        work.send(EXCEPTIONS, told.take(pa.array(mine)), plan.survey.parts_of(records[mine]))
        of_part = pa.array(np.full(len(ghosts), -1, dtype=np.int32))
        of_ghosts = told.take(pa.array(ghosts)).append_column("part", of_part)
        work.send(GHOSTS, of_ghosts, records[ghosts] // GHOSTS_FROM - 1)


def join_part(work: Work) -> int:
    """Tell the ranges of units what the files have of the records of one input part."""
    plan, firsts = load_planned(work), work.read(NUMBERING)
    tables = [
        table.set_column(1, ATOM, pa.array(from_number(np.asarray(table[ATOM]), firsts[one.maker])))
        for one, table in work.gather_each(ARRIVED)
    ]
    tables += [table for _, table in work.gather_each(EXCEPTIONS)]
    if not tables:
        return 0
    told = pa.concat_tables(tables).combine_chunks()
    place = np.asarray(told[RECORD]) - plan.survey.first_record(work.number)
    of_part = pa.array(np.full(len(place), work.number, dtype=np.int32))
    table = told.set_column(0, RECORD, pa.array(place)).append_column("part", of_part)
    work.send(JOINED, table, read_unit_ranges(work)[place])
    return int(told.num_rows)


@dataclass(frozen=True)
class GateCounts(Added):
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


#: What was noted of a candidate file.
LOOKED = JsonOutput("looked", Looked)

TELL_ARRIVALS = CompanionStep(
    step="check-files",
    starts=Arrivals.of,
    knows=(NIGHT, NIGHT_KEY),
    writes=(LOOKED,),
    sends=(ARRIVED, NEW_ATOMS),
)
CHECK_SURVIVORS = Step(
    name="check-survivors",
    stage="validate",
    per="range of atoms",
    does=check_survivors,
    knows=(*PLANNED, DISTRIBUTIONS, NIGHT, NIGHT_KEY),
    same=(CANDIDATE, ORIGINS),
    receives=(SURVIVOR_DIGESTS, ABSENT),
    writes=(NOTES, SEEN, LOOKED),
    sends=(EXCEPTIONS, GHOSTS),
    is_gate=True,
)
JOIN = Step(
    name="join",
    stage="validate",
    per="part",
    does=join_part,
    knows=(*PLANNED, NUMBERING),
    same=(UNIT_RANGES,),
    receives=(ARRIVED, EXCEPTIONS),
    sends=(JOINED,),
    is_gate=True,
)
