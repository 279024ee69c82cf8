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
from microagg_core.data.tables.slices import RECORD
from microagg_core.inspect.contract import ReleasedFile
from microagg_core.release.planned import PLANNED, Planned, load_planned
from microagg_core.release.step import CompanionStep, JsonOutput, Rows, Step, TableOutput, Work
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS
from microagg_core.release.steps.checking import NOTES, inspect_candidate
from microagg_core.release.steps.demands import DISTRIBUTIONS
from microagg_core.series.atoms import from_number, numbered_atoms, places_of_atoms, range_of_classes
from microagg_core.series.digests import as_columns, classes_of, numbered_rows, pairs_of, positions_of_numbers
from microagg_core.series.generations import Counts
from microagg_core.series.match import ABSENT, ATOM, UNIT_RANGE, UNIT_RANGES, half_of
from microagg_core.series.night import GHOSTS_FROM, NIGHT, NIGHT_KEY, Night, confidential_digests, gather, load_night
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
class GateCounts(Counts):
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
    #: Units of several rows, of which some were first released on another night than others.
    parted: int = 0
    #: No fault: the numbers that the new atoms of the file need.
    numbers: int = 0


LOOKED = JsonOutput("looked", GateCounts)


@dataclass(frozen=True)
class Arrivals:
    work: Work
    plan: Planned

    @classmethod
    def of(cls, work: Work, plan: Planned) -> Arrivals | None:
        """Begin with a file; None where no ledger knows units."""
        return cls(work, plan) if work.has(NIGHT) else None

    def add(self, rows: ReleasedFile) -> None:
        """Send every row's new atom and digests to the part of its record, and the atoms' classes to their ranges."""
        work, plan, table, records = self.work, self.plan, rows.table, rows.records
        night, key = load_night(work)
        number, distinct = numbered_rows(classes_of(table, _keys_of(plan), key))
        atoms, n_numbers = numbered_atoms(distinct)
        digests = confidential_digests(plan.context, night, key, table)
        nothing = np.zeros(len(records), dtype=np.uint64)
        arrived = _row_table(records, atoms[number], np.ones(len(records), dtype=np.bool_), digests, nothing)
        work.send(ARRIVED, arrived, plan.survey.parts_of(records))
        new = pa.table({ATOM: pa.array(atoms), **as_columns(distinct, "k")})
        work.send(NEW_ATOMS, new, range_of_classes(distinct, night.n_atom_ranges))
        work.write(LOOKED, GateCounts(numbers=n_numbers))

    def end(self) -> int:
        return 0


def _keys_of(plan: Planned) -> list[str]:
    return [c.name for c in (*plan.context.schema.blocking, *plan.context.schema.quasi_identifiers)]


def _row_table(records: Ints, atoms: UInt64s, out: Bools, digests: dict[str, pa.Array], differs: UInt64s) -> pa.Table:
    """Tabulate what ledger ranges hear of rows: a new atom, whether they are released, digests of their values."""
    columns = {RECORD: pa.array(records), ATOM: pa.array(atoms), "out": pa.array(out)}
    return pa.table({**columns, **digests, "differs": pa.array(differs)})


def check_survivors(work: Work) -> int:
    """Re-read a file of survivors, compare it with the atoms that it should hold, and send on what is not as it was."""
    plan, (night, key) = load_planned(work), load_night(work)
    file, notes = inspect_candidate(work, plan, is_carried=True)
    if not notes.readable:
        return notes.rows
    held = _Held(work, night, file.records)
    classes = classes_of(file.table, _keys_of(plan), key)
    digests = confidential_digests(plan.context, night, key, file.table)
    differs = held.differs(digests)
    held.send_exceptions(work, plan, digests, differs)
    work.write(SEEN, held.seen(classes))
    work.write(LOOKED, held.wrong(classes, differs))
    return notes.rows


class _Held:
    """The rows of a file of survivors, and whose they are."""

    def __init__(self, work: Work, night: Night, records: Ints) -> None:
        self._night, self._records = night, records
        self._atoms = night.read_atoms(work.number)
        names = [("half", pa.uint32()), *((f"d{j}", pa.uint32()) for j in range(len(night.columns)))]
        #: What the input has of survivors of the file's atoms.
        self._came = gather(
            work, SURVIVOR_DIGESTS, [(RECORD, pa.int64()), (ATOM, pa.uint64()), ("changed", pa.bool_()), *names]
        )
        #: For each row of the file, its place in ``came``; -1 for ghosts, and for rows that are nobody's.
        self._row = positions_of_numbers(records, np.asarray(self._came[RECORD]))
        self._is_own = self._row >= 0
        self._atom_of_came = places_of_atoms(np.asarray(self._came[ATOM]), self._atoms)
        #: The place of each row's atom; -1 for rows that are nobody's.
        self._atom = np.full(len(records), -1, dtype=np.int64)
        self._atom[self._is_own] = self._atom_of_came[self._row[self._is_own]]
        absent = absent_units(work)
        numbers = number_of_ghosts(np.asarray(absent["unit_range"]), np.asarray(absent["index"]))
        ghost = positions_of_numbers(records, numbers)
        self._atom[ghost >= 0] = places_of_atoms(np.asarray(absent[ATOM]), self._atoms)[ghost[ghost >= 0]]
        self._is_changed = self._of_input("changed")

    def _of_input(self, name: str) -> NDArray[Any]:
        of_input = np.asarray(self._came[name])
        values = np.zeros(len(self._row), dtype=of_input.dtype)
        values[self._is_own] = of_input[self._row[self._is_own]]
        return values

    def differs(self, digests: dict[str, pa.Array]) -> UInt64s:
        """For survivors' rows, set a bit for each watched column whose value is not tonight's; or one for the row."""
        differs = np.zeros(len(self._row), dtype=np.uint64)
        files = {name: np.asarray(of_column) for name, of_column in digests.items()}
        row = files.pop("row")
        for j, (name, digest) in enumerate((files or {"half": half_of(row)}).items()):
            other = self._is_own & (digest != self._of_input(name))
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
        numbers, distinct = numbered_rows(classes[odd])
        both, n = np.unique(np.column_stack([self._atom[odd], numbers]), axis=0, return_counts=True)
        absent = np.flatnonzero(is_odd & (n_out == 0))
        places = np.concatenate([both[:, 0].astype(np.int64), absent])
        of_atoms = np.concatenate([distinct[both[:, 1].astype(np.int64)], np.zeros((len(absent), 2), dtype=np.uint64)])
        counts = np.concatenate([n, np.zeros(len(absent), dtype=np.int64)]).astype(np.int64)
        atom = np.asarray(self._atoms[ATOM])[places]
        return pa.table({ATOM: pa.array(atom), **as_columns(of_atoms, "k"), "n": pa.array(counts)})

    def send_exceptions(self, work: Work, plan: Planned, digests: dict[str, pa.Array], differs: UInt64s) -> None:
        """Send the rows that the ledger has to hear of, and missing survivors, to parts; ghosts to ranges of units."""
        missing = self._missing()
        is_ghost = (self._records >= GHOSTS_FROM) & (self._atom >= 0)
        odd = np.flatnonzero(is_ghost | self._is_changed)

        def with_missing(of_rows: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([of_rows[odd], np.zeros(len(missing), of_rows.dtype)])

        records, ghost = np.concatenate([self._records[odd], missing]), with_missing(is_ghost)
        numbers = np.where(ghost, records % GHOSTS_FROM, records)
        no_atom, out = np.full(len(records), NO_ATOM, dtype=np.uint64), np.arange(len(records)) < len(odd)
        of_rows = {name: pa.array(with_missing(np.asarray(digest))) for name, digest in digests.items()}
        table = _row_table(numbers, no_atom, out, of_rows, with_missing(differs))
        own, ghosts = np.flatnonzero(~ghost), np.flatnonzero(ghost)
        work.send(EXCEPTIONS, table.take(pa.array(own)), plan.survey.parts_of(records[own]))
        no_part = pa.array(np.full(len(ghosts), -1, dtype=np.int32))
        of_ghosts = table.take(pa.array(ghosts)).append_column("part", no_part)
        work.send(GHOSTS, of_ghosts, records[ghosts] // GHOSTS_FROM - 1)

    def _missing(self) -> Ints:
        is_missing = self._night.may_vanish(np.asarray(self._atoms["since"])[self._atom_of_came])
        is_missing[self._row[self._is_own]] = False
        return np.asarray(self._came[RECORD])[is_missing]


def join_part(work: Work) -> int:
    """Send what the files have of one input part's records to the ranges of units."""
    plan, firsts = load_planned(work), work.read(NUMBERING)
    tables = [
        table.set_column(1, ATOM, pa.array(from_number(np.asarray(table[ATOM]), firsts[sent.maker])))
        for sent, table in work.gather_each(ARRIVED)
    ]
    tables += [table for _, table in work.gather_each(EXCEPTIONS)]
    if not tables:
        return 0
    rows = pa.concat_tables(tables).combine_chunks()
    place = np.asarray(rows[RECORD]) - plan.survey.first_record(work.number)
    of_part = pa.array(np.full(len(place), work.number, dtype=np.int32))
    unit_ranges = np.asarray(work.read(UNIT_RANGES)[UNIT_RANGE]).astype(np.int64)
    work.send(JOINED, rows.set_column(0, RECORD, pa.array(place)).append_column("part", of_part), unit_ranges[place])
    return int(rows.num_rows)


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
