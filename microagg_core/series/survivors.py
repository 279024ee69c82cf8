"""Survivors: what becomes of their atoms, and the files in which they are released again as they were before.

What becomes of atoms is decided range by range, from who of them is in tonight's input. Quasi-identifiers come from the
files of earlier releases, where they are for everybody to read; confidential values come from tonight's input, but for
classes with ghosts and columns that are held back, whose values come from the earlier release as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Bytes, Ints, Pairs, UInt64s
from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import DataError, StorageError
from microagg_core.release.manifest import PartEntry
from microagg_core.release.planned import PLANNED, Planned, load_planned
from microagg_core.release.records import PartBatch
from microagg_core.release.step import CompanionStep, JsonOutput, Rows, Scatter, Step, TableOutput, Work
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS, no_rows, write_candidate
from microagg_core.series.atoms import places_of_atoms, range_of_atoms, range_of_classes
from microagg_core.series.digests import (
    as_columns,
    classes_of,
    numbered_rows,
    pairs_of,
    positions_in,
    positions_of_numbers,
    rows_of,
)
from microagg_core.series.fates import Fate, Fates, decide, drawn_decoys, held_back, is_released
from microagg_core.series.generations import Counts, broken
from microagg_core.series.match import ABSENT, ALTERED, ATOM, ATOMS, CHANGED, CODE, half_of, survive
from microagg_core.series.night import GHOSTS_FROM, NIGHT, NIGHT_KEY, Night, confidential_digests, gather, load_night
from microagg_core.store.objects import Store, sha256_hex
from microagg_core.store.urls import shown


@dataclass(frozen=True)
class FateCounts(Counts):
    """Units that were released before, by their fate."""

    carried: int = 0
    ghosts: int = 0
    withheld: int = 0
    vanished: int = 0
    #: Changed values, or rows where no column is watched, that are released as they were last.
    held_back: int = 0
    #: The nights whose releases hold the values of released atoms.
    nights: tuple[int, ...] = ()


#: What an input part sends to the files of survivors when it is read to be scattered: confidential values to the tasks
#: that carry them, digests of these to those that check their files.
SURVIVORS, SURVIVOR_DIGESTS = Rows("survivors"), Rows("survivor-digests")
#: The atoms of a range that are not simply carried, and what becomes of each; and the classes of a range of which whole
#: rows of an earlier release are needed, and those of all ranges.
UNCOMMON, WHOLE, ALL_WHOLE = TableOutput("uncommon"), TableOutput("whole"), TableOutput("all-whole")
#: A file of an earlier release: a row for each class, and the whole rows of the classes where they are needed.
RECALLED_CLASSES, RECALLED_ROWS = Rows("recalled-classes"), Rows("recalled-rows")


class Survivors:
    def __init__(self, work: Work, plan: Planned) -> None:
        self._plan, self._atoms, self._read = plan, work.read(ATOMS)[ATOM], 0
        self._night, self._key = load_night(work)
        self._values, self._digests = Scatter(work, SURVIVORS), Scatter(work, SURVIVOR_DIGESTS)

    @classmethod
    def of(cls, work: Work, plan: Planned) -> Survivors | None:
        return cls(work, plan) if work.has(ATOMS) else None

    def add(self, rows: PartBatch) -> None:
        if rows.marks is None:
            return
        codes = np.asarray(rows.marks[CODE])
        own = np.flatnonzero(survive(codes))
        atoms = np.asarray(self._atoms.slice(self._read, len(codes)))[own].astype(np.uint64)
        self._read += len(codes)
        names = [column.name for column in self._plan.context.schema.confidential]
        confidential = rows.whole.select(names).take(pa.array(own)).combine_chunks()
        whose = {RECORD: pa.array(rows.all_records[own]), ATOM: pa.array(atoms)}
        place = range_of_atoms(atoms, self._night.n_atom_ranges)
        values = {f"c{j}": column for j, column in enumerate(confidential.columns)}
        self._values.add(pa.table({**whose, **values}), place)
        digests = confidential_digests(self._plan.context, self._night, self._key, confidential)
        row = np.asarray(digests.pop("row"))
        # Where columns are watched, these tell the row.
        digests = {"changed": pa.array(codes[own] == CHANGED)} | (digests or {"half": pa.array(half_of(row))})
        self._digests.add(pa.table({**whose, **digests}), place)

    def end(self) -> int:
        self._values.flush()
        self._digests.flush()
        return self._values.rows


SEND_SURVIVORS = CompanionStep(
    step="scatter",
    starts=Survivors.of,
    knows=(NIGHT, NIGHT_KEY),
    same=(ATOMS,),
    sends=(SURVIVORS, SURVIVOR_DIGESTS),
)


def decide_range(work: Work) -> int:
    night, _ = load_night(work)
    atoms = night.read_atoms(work.number)
    left, altered = absent_units(work), altered_units(work, night)
    n, since = np.asarray(atoms["n"]), np.asarray(atoms["since"])
    n_left = np.bincount(places_of_units(left, atoms), minlength=len(n))
    fates = decide(n, n_left, night.is_due(since), night.leavers, night.k)
    uncommon = np.flatnonzero(fates.code != Fate.CARRIED)
    table = pa.table(
        {
            ATOM: atoms[ATOM].take(pa.array(uncommon)),
            "fate": pa.array(fates.code[uncommon]),
            "left": pa.array(n_left[uncommon]),
            "decoys": pa.array(fates.decoys[uncommon]),
        }
    )
    needing = fates.code == Fate.WITH_GHOSTS
    if night.columns:
        needing[places_of_units(altered, atoms)] = True
    whole = numbered_rows(pairs_of(atoms, "k")[needing])[1]
    nights = sorted({int(last) for last in np.asarray(atoms["last"])[is_released(fates.code)]})
    counts = _fate_counts(fates, n, n_left, _n_held_back(night, fates, atoms, altered), tuple(nights))
    work.write(UNCOMMON, table)
    work.write(WHOLE, pa.table(as_columns(whole, "k")))
    work.write(FATES, counts)
    return int(n.sum())


FATES = JsonOutput("fates", FateCounts)
DECIDE = Step(
    name="fates",
    stage="survey",
    per="range of atoms",
    does=decide_range,
    knows=(NIGHT, NIGHT_KEY),
    receives=(ABSENT, ALTERED),
    writes=(UNCOMMON, WHOLE, FATES),
)


def beside_ghosts(code: Bytes, atoms: pa.Table) -> Bools:
    """Mark the atoms of classes that hold a ghost tonight: all of them are released as they were last."""
    classes = pairs_of(atoms, "k")
    return np.asarray(positions_in(classes, numbered_rows(classes[code == Fate.WITH_GHOSTS])[1]) >= 0)


def absent_units(work: Work) -> pa.Table:
    """Gather the live units of a range's atoms that are not in tonight's input, with their places in the ledger."""
    columns = [(ATOM, pa.uint64()), ("row", pa.uint64()), ("index", pa.int64())]
    return gather(work, ABSENT, columns, pa.field("unit_range", pa.int64()))


def altered_units(work: Work, night: Night) -> pa.Table:
    """Gather the survivors of a range's atoms that have other values than in their last release."""
    columns = [(ATOM, pa.uint64()), ("row", pa.uint64()), ("place", pa.int64()), ("part", pa.int32())]
    columns += [(f"changed{j}", pa.bool_()) for j in range(len(night.columns))]
    return gather(work, ALTERED, columns)


def places_of_units(units: pa.Table, atoms: pa.Table) -> Ints:
    place = places_of_atoms(np.asarray(units[ATOM]), atoms)
    if (place < 0).any():
        raise broken("the ledger has units of atoms that it does not know")
    return place


def _fate_counts(fates: Fates, n: Ints, left: Ints, n_held_back: int, nights: tuple[int, ...]) -> FateCounts:
    code, decoys = fates
    ghosts, shedding, closed = (code == fate for fate in (Fate.WITH_GHOSTS, Fate.SHEDDING, Fate.CLOSED))
    out = is_released(code)
    return FateCounts(
        carried=int((n - left - decoys)[out].sum()),
        ghosts=int(left[ghosts].sum()),
        withheld=int(n[code == Fate.WITHHELD].sum()),
        vanished=int((left + decoys)[shedding].sum() + n[closed].sum()),
        held_back=n_held_back,
        nights=nights,
    )


def _n_held_back(night: Night, fates: Fates, atoms: pa.Table, altered: pa.Table) -> int:
    """Count the changes that would not be released tonight; which stayers are drawn as decoys is not known yet."""
    place = places_of_units(altered, atoms)
    out = is_released(fates.code[place])
    place, changes = place[out], changes_of(altered, night)[out]
    held = held_back(place, changes, beside_ghosts(fates.code, atoms), night.least_changed)
    return int((changes & held[place]).sum())


def changes_of(altered: pa.Table, night: Night) -> Bools:
    """Mark the watched columns in which survivors have other values; one for the row where none is watched."""
    if not night.columns:
        return np.ones((altered.num_rows, 1), dtype=np.bool_)
    return np.column_stack([np.asarray(altered[f"changed{j}"]) for j in range(len(night.columns))])


_NIGHT = "night"


@dataclass(frozen=True)
class RecalledPart:
    night: int
    url: str
    storage_options: dict[str, object]
    entry: PartEntry


#: The files that survivors' values come from.
RECALL = JsonOutput("recall", list[RecalledPart])


def recall_part(work: Work) -> int:
    """Read one file of an earlier release: the values of its classes, and whole rows where they are needed."""
    plan, (night, key) = load_planned(work), load_night(work)
    part = work.load(RECALL)[work.number]
    table = _read_released(plan, part)
    keys = [c.name for c in (*plan.context.schema.blocking, *plan.context.schema.quasi_identifiers)]
    classes = classes_of(table, keys, key)
    numbers, distinct = numbered_rows(classes)
    first = np.full(len(distinct), len(numbers), dtype=np.int64)
    np.minimum.at(first, numbers, np.arange(len(numbers)))
    of_classes = _with_classes(table.select(keys).take(pa.array(first)), distinct, part.night)
    whole = pairs_of(work.read(ALL_WHOLE), "k")
    needed = np.flatnonzero((positions_in(distinct, whole) >= 0)[numbers])
    confidential = [c.name for c in plan.context.schema.confidential]
    rows = table.select(confidential).take(pa.array(needed))
    of_rows = _with_classes(rows, classes[needed], part.night).append_column(
        "row", pa.array(rows_of(rows, confidential, key))
    )
    for output, rows_of_classes in ((RECALLED_CLASSES, of_classes), (RECALLED_ROWS, of_rows)):
        work.send(output, rows_of_classes, range_of_classes(pairs_of(rows_of_classes, "k"), night.n_atom_ranges))
    return int(table.num_rows)


RECALL_FILES = Step(
    name="recall",
    stage="anonymize",
    per="file of an earlier release",
    does=recall_part,
    knows=(*PLANNED, NIGHT, NIGHT_KEY, RECALL, ALL_WHOLE),
    sends=(RECALLED_CLASSES, RECALLED_ROWS),
)


def _read_released(plan: Planned, part: RecalledPart) -> pa.Table:
    folder = Store(part.url, dict(part.storage_options), follow_links=True)
    data = folder.read_if_there(part.entry.name)
    if data is None or sha256_hex(data) != part.entry.sha256:
        raise StorageError(
            f"{shown(folder.url_of(part.entry.name))} is missing or damaged, and survivors' values come from it; "
            "restore it, or publish that release again"
        )
    return released_format(plan.context.spec.output).read_back(data, plan.context.schema.released_schema)


def _with_classes(table: pa.Table, classes: Pairs, night: int) -> pa.Table:
    """Name columns by place, so that they collide with none of the digests'."""
    columns = {**as_columns(classes, "k"), _NIGHT: pa.array(np.full(len(classes), night, dtype=np.int32))}
    renamed = {f"x{j}": column for j, column in enumerate(table.columns)}
    return pa.table({**columns, **renamed})


def dated(classes: Pairs, nights: Ints) -> Pairs:
    """Combine digests of class and night: a class of one night is found in that night's release only."""
    return np.column_stack([classes[:, 0], classes[:, 1] ^ nights.astype(np.uint64)])


def carry_range(work: Work) -> int:
    plan, (night, _) = load_planned(work), load_night(work)
    carried = _Carried(work, plan, night)
    rows = carried.rows() if carried.n else no_rows(plan.context.schema, with_origins=False)
    write_candidate(work, plan, rows)
    return int(rows.num_rows)


CARRY = Step(
    name="carry",
    stage="anonymize",
    per="range of atoms",
    does=carry_range,
    knows=(*PLANNED, NIGHT, NIGHT_KEY),
    same=(UNCOMMON,),
    receives=(SURVIVORS, RECALLED_CLASSES, RECALLED_ROWS, ABSENT, ALTERED),
    writes=(CANDIDATE, ORIGINS),
)


class _Carried:
    """The released units of a range: survivors, then ghosts."""

    def __init__(self, work: Work, plan: Planned, night: Night) -> None:
        self._work, self._plan, self._night = work, plan, night
        self._atoms = atoms = night.read_atoms(work.number)
        code, left, decoys = _fates_of(work, atoms)
        #: The atoms that are released wholly as they were last.
        self._beside_ghosts = beside_ghosts(code, atoms)
        #: The survivors as the input has them, and which of these rows are released.
        columns = [(f"c{j}", pa.null()) for j in range(len(plan.context.schema.confidential))]
        self._tonight = gather(work, SURVIVORS, [(RECORD, pa.int64()), (ATOM, pa.uint64()), *columns])
        of_survivors = places_of_units(self._tonight, atoms)
        if (np.bincount(of_survivors, minlength=atoms.num_rows) != np.asarray(atoms["n"]) - left).any():
            raise DataError("the input changed while the release was made; run again when nobody writes to the input")
        is_out = is_released(code)[of_survivors]
        words = np.asarray(self._tonight[RECORD]).astype(np.uint64)
        is_out[drawn_decoys(of_survivors, decoys, words, night.number)] = False
        self._out = np.flatnonzero(is_out)
        #: The records of the released survivors.
        self._records = np.asarray(self._tonight[RECORD])[self._out]
        #: The ghosts as the ledger has them.
        absent = absent_units(work)
        of_absent = places_of_units(absent, atoms)
        is_ghost = code[of_absent] == Fate.WITH_GHOSTS
        self._ghosts, of_ghosts = absent.filter(pa.array(is_ghost)), of_absent[is_ghost]
        #: The place of each released unit's atom.
        self._atom = np.concatenate([of_survivors[self._out], of_ghosts])
        self.n = len(self._atom)

    def rows(self) -> pa.Table:
        schema = self._plan.context.schema
        keys, confidential = self._keys(), self._confidential()
        source = dict(zip([c.name for c in (*schema.blocking, *schema.quasi_identifiers)], keys, strict=True))
        source |= dict(zip([c.name for c in schema.confidential], confidential, strict=True))
        types = zip(schema.released, schema.released_schema.types, strict=True)
        of_ghosts = number_of_ghosts(np.asarray(self._ghosts["unit_range"]), np.asarray(self._ghosts["index"]))
        numbers = pa.array(np.concatenate([self._records, of_ghosts]))
        columns = [numbers, *(one_array(source[c.name]).cast(kind) for c, kind in types)]
        return pa.Table.from_arrays(columns, names=[RECORD, *(f"x{j}" for j in range(len(schema.released)))])

    def _dated(self, places: Ints) -> Pairs:
        return dated(pairs_of(self._atoms, "k")[places], np.asarray(self._atoms["last"])[places])

    def _keys(self) -> list[pa.Array]:
        """Look up the released values of each unit's class, from the release in which it was last."""
        classes = self._work.gather(RECALLED_CLASSES)
        if classes is None:
            raise _lost()
        needed = np.unique(self._atom)
        place = positions_in(self._dated(needed), dated(pairs_of(classes, "k"), np.asarray(classes[_NIGHT])))
        if (place < 0).any():
            raise _lost()
        of_each = pa.array(place[np.searchsorted(needed, self._atom)])
        schema = self._plan.context.schema
        n_keys = len(schema.blocking) + len(schema.quasi_identifiers)
        return [one_array(classes[f"x{j}"]).take(of_each) for j in range(n_keys)]

    def _confidential(self) -> list[pa.Array]:
        """Take tonight's confidential values; those of the last release for ghosts, and where they are held back."""
        old, row = self._held_back()
        old[len(self._out) :] = True
        row[len(self._out) :] = np.asarray(self._ghosts["row"])
        earlier, then = self._earlier(row, np.asarray(old.any(axis=1)))
        return [self._confidential_column(j, earlier, then, old[:, j]) for j in range(old.shape[1])]

    def _held_back(self) -> tuple[Bools, UInt64s]:
        """Mark whose values are not tonight's, column by column, with the digests of these units' last rows.

        Who did not change has tonight the value of his last release.
        """
        night, row = self._night, np.zeros(self.n, dtype=np.uint64)
        old = np.zeros((self.n, len(self._plan.context.schema.confidential)), dtype=np.bool_)
        altered = altered_units(self._work, night)
        first = self._plan.survey.first_records
        records = first[np.asarray(altered["part"]).astype(np.int64)] + np.asarray(altered["place"])
        at = positions_of_numbers(records, self._records)
        is_out = at >= 0
        place, changes = at[is_out], changes_of(altered, night)[is_out]
        held = held_back(self._atom[place], changes, self._beside_ghosts, night.least_changed)
        old[place] = (changes & held[self._atom[place]]) | self._beside_ghosts[self._atom[place], None]
        row[place] = np.asarray(altered["row"])[is_out]
        return old, row

    def _earlier(self, row: UInt64s, needing: Bools) -> tuple[pa.Table | None, Ints]:
        then = np.zeros(self.n, dtype=np.int64)
        if not needing.any():
            return None, then
        earlier = self._work.gather(RECALLED_ROWS)
        if earlier is None:
            raise _lost()
        classes_dated = dated(pairs_of(earlier, "k"), np.asarray(earlier[_NIGHT]))
        released, first = np.unique(_with_row(classes_dated, np.asarray(earlier["row"])), axis=0, return_index=True)
        place = positions_in(_with_row(self._dated(self._atom[needing]), row[needing]), released)
        if (place < 0).any():
            raise _lost()
        then[needing] = first[place]
        return earlier, then

    def _confidential_column(self, j: int, earlier: pa.Table | None, earlier_row: Ints, is_old: Bools) -> pa.Array:
        """Take a column's values as released earlier where ``is_old``, and tonight's elsewhere."""
        tonight_row = np.concatenate([self._out, np.zeros(self.n - len(self._out), dtype=np.int64)])
        tonight = one_array(self._tonight[f"c{j}"])
        if not is_old.any():
            return tonight.take(pa.array(tonight_row))
        if earlier is None:
            raise _lost()
        before = one_array(earlier[f"x{j}"])
        both = pa.concat_arrays([tonight.cast(before.type), before])
        return both.take(pa.array(np.where(is_old, earlier_row + len(tonight), tonight_row)))


def _fates_of(work: Work, atoms: pa.Table) -> tuple[Bytes, Ints, Ints]:
    """Read each atom's fate, how many of its units left, and how many others vanish with them."""
    uncommon = work.read(UNCOMMON)
    code = np.full(atoms.num_rows, Fate.CARRIED, dtype=np.uint8)
    left, decoys = (np.zeros(atoms.num_rows, dtype=np.int64) for _ in range(2))
    place = places_of_atoms(np.asarray(uncommon[ATOM]), atoms)
    code[place], left[place], decoys[place] = (np.asarray(uncommon[name]) for name in ("fate", "left", "decoys"))
    return code, left, decoys


def number_of_ghosts(unit_range: Ints, index: Ints) -> Ints:
    """Number the rows of ghosts by where the ledger has them.

    >>> number_of_ghosts(np.array([1]), np.array([5])).tolist() == [2 * GHOSTS_FROM + 5]
    True
    """
    return np.asarray((unit_range + 1) * GHOSTS_FROM + index)


def _with_row(of_night: Pairs, row: UInt64s) -> Pairs:
    return np.column_stack([of_night[:, 0], of_night[:, 1] ^ row])


def _lost() -> StorageError:
    return StorageError(
        "an earlier release does not hold what the ledger says of it; restore its files, or make the ledger again with "
        "microagg series rebuild"
    )
