"""Survivors: what becomes of their atoms, and the files in which they are released again as they were before.

What becomes of atoms is decided range by range, from who of them is in tonight's input. Quasi-identifiers come from the
files of earlier releases, where they are for everybody to read; confidential values come from tonight's input, but for
classes with ghosts and columns that are held back, whose values come from the earlier release as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Bytes, Ints, Pairs, UInt64s
from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.slices import RECORD, Slices, read_slice, to_bytes, write_slices
from microagg_core.errors import DataError, InternalError, StorageError
from microagg_core.plain import from_json, to_json
from microagg_core.release.manifest import PartEntry
from microagg_core.release.steps.assembling import no_rows, write_candidate
from microagg_core.release.steps.pieces import Piece
from microagg_core.release.steps.reading import PartBatch
from microagg_core.release.steps.routing import Planned, load_planned
from microagg_core.release.steps.shuffling import Scatter, gather_slices, gather_with_makers
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.atoms import places_of_atoms, range_of_atoms, range_of_classes
from microagg_core.series.digests import (
    as_columns,
    classes_of,
    numbered_pairs,
    pairs_of,
    positions_in,
    positions_of_numbers,
    rows_of,
)
from microagg_core.series.fates import Fate, Fates, decide, drawn_decoys, held_back, is_released
from microagg_core.series.generations import Counts, broken
from microagg_core.series.marks import ATOM, CHANGED, survive
from microagg_core.series.matching import ABSENT, ALTERED, half_of
from microagg_core.series.night import GHOSTS_FROM, Night, confidential_digests, layout_of, load_night
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


class Survivors:
    """The rows of one input part that go to the files of survivors, and what the gate hears of them."""

    def __init__(self, task: Task, plan: Planned) -> None:
        self._task, self._plan = task, plan
        self._values = Scatter(task, layout_of(task).survivors)
        self._digests = Scatter(task, layout_of(task).survivors_read)

    def add(self, batch: PartBatch) -> None:
        if batch.marks is None or batch.marks.atoms is None:
            return
        night, _ = load_night(self._task)
        mine = np.flatnonzero(survive(batch.marks.codes))
        atoms = batch.marks.atoms[mine].astype(np.uint64)
        names = [column.name for column in self._plan.context.schema.confidential]
        confidential = batch.whole.select(names).take(pa.array(mine)).combine_chunks()
        whose = {RECORD: pa.array(batch.all_records[mine]), ATOM: pa.array(atoms)}
        place = self._plan.outline.n_partitions + range_of_atoms(atoms, night.n_atom_ranges)
        values = {f"c{j}": column for j, column in enumerate(confidential.columns)}
        self._values.add(pa.table({**whose, **values}), place)
        digests = self._digests_of(confidential, batch.marks.codes[mine])
        self._digests.add(pa.table({**whose, **digests}), place + night.n_carried)

    def _digests_of(self, confidential: pa.Table, codes: NDArray[Any]) -> dict[str, pa.Array]:
        rows, values = confidential_digests(self._plan.context, *load_night(self._task), confidential)
        columns = {"changed": pa.array(codes == CHANGED)}
        columns |= {f"d{j}": pa.array(of_column) for j, of_column in enumerate(values)}
        return columns if values else {**columns, "half": pa.array(half_of(rows))}

    def flush(self) -> None:
        self._values.flush()
        self._digests.flush()

    @property
    def rows(self) -> int:
        return self._values.rows

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (*self._values.pieces, *self._digests.pieces)

    @property
    def slices(self) -> Slices:
        return self._values.slices + self._digests.slices


def slices_for_the_gate(slices: Slices, plan: Planned, n_carried: int) -> Slices:
    """Select what a part sent to the gate, for the files of survivors, which come after those of arrivals."""
    return slices.moved(plan.outline.n_partitions + n_carried, plan.outline.n_files)


def decide_range(task: Task) -> Receipt:
    night, _ = load_night(task)
    atoms = night.read_atoms(task.number)
    left, altered = absent_units(task, task.slices), altered_units(task, task.slices)
    n, since = np.asarray(atoms["n"]), np.asarray(atoms["since"])
    n_left = np.bincount(places_of_units(left, atoms), minlength=len(n))
    fates = decide(n, n_left, since, night.policy)
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
    whole = numbered_pairs(pairs_of(atoms, "k")[needing])[1]
    nights = sorted({int(last) for last in np.asarray(atoms["last"])[is_released(fates.code)]})
    counts = _fate_counts(fates, n, n_left, _n_held_back(night, fates, atoms, altered), tuple(nights))
    layout = layout_of(task)
    pieces = (
        task.put(layout.uncommon(task.number), to_bytes(table)),
        task.put(layout.whole(task.number), to_bytes(pa.table(as_columns(whole, "k")))),
        task.put(layout.fates(task.number), to_json(counts)),
    )
    return Receipt(task.step, task.number, int(n.sum()), pieces)


def beside_ghosts(code: Bytes, atoms: pa.Table) -> Bools:
    """Mark the atoms of classes that hold a ghost tonight: all of them are released as they were last."""
    classes = pairs_of(atoms, "k")
    return np.asarray(positions_in(classes, numbered_pairs(classes[code == Fate.WITH_GHOSTS])[1]) >= 0)


def absent_units(task: Task, matched: Slices) -> pa.Table | None:
    """Gather the live units of a range's atoms that are not in tonight's input, with their places in the ledger."""
    makers = pa.field("unit_range", pa.int64())
    absent = matched.of_objects(ABSENT)
    return gather_with_makers(task.run, absent, "match", lambda number, _: layout_of(task).absent(number), makers)


def altered_units(task: Task, matched: Slices) -> pa.Table | None:
    """Gather survivors of a range's atoms that have other values than in their last release."""
    return gather_slices(
        task.run, matched.of_objects(ALTERED), "match", lambda number, _: layout_of(task).altered(number)
    )


def places_of_units(units: pa.Table | None, atoms: pa.Table) -> Ints:
    """Find each unit's atom among the atoms of the range."""
    if units is None:
        return np.zeros(0, dtype=np.int64)
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


def _n_held_back(night: Night, fates: Fates, atoms: pa.Table, altered: pa.Table | None) -> int:
    """Count the changes that would not be released tonight; which stayers are drawn as decoys is not known yet."""
    if altered is None or not night.compared:
        return 0
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


#: The objects of a recalled part: a row for each class, and the whole rows of the classes where they are needed.
CLASSES, ROWS = 0, 1
NIGHT = "night"


@dataclass(frozen=True)
class RecalledPart:
    """One file of an earlier release, and the night that published it."""

    night: int
    url: str
    storage_options: dict[str, object]
    entry: PartEntry


@dataclass(frozen=True)
class Recall:
    """The files that survivors' values come from."""

    parts: tuple[RecalledPart, ...]


def recall_part(task: Task) -> Receipt:
    """Read one file of an earlier release: the values of its classes, and whole rows where they are needed."""
    plan, (night, key) = load_planned(task), load_night(task)
    layout = layout_of(task)
    part = from_json(Recall, task.pieces.read(layout.recall())).parts[task.number]
    table = _read_released(plan, part)
    keys = [c.name for c in (*plan.context.schema.blocking, *plan.context.schema.quasi_identifiers)]
    classes = classes_of(table, keys, key)
    numbers, distinct = numbered_pairs(classes)
    first = np.full(len(distinct), len(numbers), dtype=np.int64)
    np.minimum.at(first, numbers, np.arange(len(numbers)))
    of_classes = _with_classes(table.select(keys).take(pa.array(first)), distinct, part.night)
    whole = pairs_of(read_slice(task.pieces.read(layout.all_whole())), "k")
    needed = np.flatnonzero((positions_in(distinct, whole) >= 0)[numbers])
    confidential = [c.name for c in plan.context.schema.confidential]
    rows = table.select(confidential).take(pa.array(needed))
    of_rows = _with_classes(rows, classes[needed], part.night).append_column(
        "row", pa.array(rows_of(rows, confidential, key))
    )
    pieces, slices = [], Slices()
    for number, told in ((CLASSES, of_classes), (ROWS, of_rows)):
        data, some = write_slices(told, range_of_classes(pairs_of(told, "k"), night.n_atom_ranges), task.number, number)
        pieces.append(task.put(layout.recalled(task.number, number), data))
        slices += some
    return Receipt(task.step, task.number, table.num_rows, tuple(pieces), slices)


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
    columns = {**as_columns(classes, "k"), NIGHT: pa.array(np.full(len(classes), night, dtype=np.int32))}
    renamed = {f"x{j}": column for j, column in enumerate(table.columns)}
    return pa.table({**columns, **renamed})


def dated(classes: Pairs, nights: Ints) -> Pairs:
    """Combine digests of class and night: a class of one night is found in that night's release only."""
    return np.column_stack([classes[:, 0], classes[:, 1] ^ nights.astype(np.uint64)])


def carry_range(task: Task) -> Receipt:
    """Make the file of survivors of one range of atoms."""
    plan, (night, _) = load_planned(task), load_night(task)
    carried = _Carried.of(task, plan, night)
    number = plan.outline.n_files + task.number
    rows = carried.rows() if carried.n else no_rows(plan.context.schema, with_origins=False)
    return Receipt(task.step, task.number, rows.num_rows, write_candidate(task, plan, number, rows))


@dataclass(frozen=True)
class _Carried:
    """The released units of a range: survivors, then ghosts.

    Attributes:
        atom: the place of each one's atom among the atoms.
        tonight: the survivors as the input has them, and which of these rows are released.
        ghosts: the ghosts as the ledger has them.
        beside_ghosts: the atoms that are released wholly as they were last.
    """

    task: Task
    plan: Planned
    night: Night
    atoms: pa.Table
    atom: Ints
    tonight: pa.Table | None
    out: Ints
    ghosts: pa.Table | None
    beside_ghosts: Bools

    @classmethod
    def of(cls, task: Task, plan: Planned, night: Night) -> _Carried:
        """Join what the input and the ledger have, as the fates decide."""
        atoms = night.read_atoms(task.number)
        uncommon = read_slice(task.pieces.read(layout_of(task).uncommon(task.number)))
        code = np.full(atoms.num_rows, Fate.CARRIED, dtype=np.uint8)
        left, decoys = (np.zeros(atoms.num_rows, dtype=np.int64) for _ in range(2))
        place = places_of_atoms(np.asarray(uncommon[ATOM]), atoms)
        code[place], left[place], decoys[place] = (np.asarray(uncommon[name]) for name in ("fate", "left", "decoys"))
        tonight = gather_slices(task.run, task.slices, "scatter", layout_of(task).survivors)
        mine = places_of_units(tonight, atoms)
        if (np.bincount(mine, minlength=atoms.num_rows) != np.asarray(atoms["n"]) - left).any():
            raise DataError("the input changed while the release was made; run again when nobody writes to the input")
        is_out = is_released(code)[mine]
        if tonight is not None:
            words = np.asarray(tonight[RECORD]).astype(np.uint64)
            is_out[drawn_decoys(mine, decoys, words, night.number)] = False
        out = np.flatnonzero(is_out)
        ghosts = absent_units(task, task.sent_by("match"))
        of_ghosts = places_of_units(ghosts, atoms)
        if ghosts is not None:
            is_ghost = code[of_ghosts] == Fate.WITH_GHOSTS
            ghosts, of_ghosts = ghosts.filter(pa.array(is_ghost)), of_ghosts[is_ghost]
        atom = np.concatenate([mine[out], of_ghosts])
        return cls(task, plan, night, atoms, atom, tonight, out, ghosts, beside_ghosts(code, atoms))

    @property
    def n(self) -> int:
        return len(self.atom)

    def rows(self) -> pa.Table:
        """Make the released rows, with record numbers; those of ghosts say where the ledger has them."""
        schema = self.plan.context.schema
        keys, confidential = self._keys(), self._confidential()
        source = dict(zip([c.name for c in (*schema.blocking, *schema.quasi_identifiers)], keys, strict=True))
        source |= dict(zip([c.name for c in schema.confidential], confidential, strict=True))
        types = zip(schema.released, schema.released_types, strict=True)
        columns = [pa.array(self._numbers()), *(one_array(source[c.name]).cast(kind) for c, kind in types)]
        return pa.Table.from_arrays(columns, names=[RECORD, *(f"x{j}" for j in range(len(schema.released)))])

    def _records(self) -> Ints:
        return np.asarray(self.tonight[RECORD])[self.out] if self.tonight is not None else np.zeros(0, dtype=np.int64)

    def _numbers(self) -> Ints:
        of_ghosts = np.zeros(0, dtype=np.int64)
        if self.ghosts is not None:
            of_ghosts = number_of_ghosts(np.asarray(self.ghosts["unit_range"]), np.asarray(self.ghosts["index"]))
        return np.concatenate([self._records(), of_ghosts])

    def _dated(self, places: Ints) -> Pairs:
        return dated(pairs_of(self.atoms, "k")[places], np.asarray(self.atoms["last"])[places])

    def _keys(self) -> list[pa.Array]:
        """Look up the released values of each unit's class, from the release in which it was last."""
        classes = self._recalled(CLASSES)
        if classes is None:
            raise _lost()
        needed = np.unique(self.atom)
        place = positions_in(self._dated(needed), dated(pairs_of(classes, "k"), np.asarray(classes[NIGHT])))
        if (place < 0).any():
            raise _lost()
        of_each = pa.array(place[np.searchsorted(needed, self.atom)])
        schema = self.plan.context.schema
        n_keys = len(schema.blocking) + len(schema.quasi_identifiers)
        return [one_array(classes[f"x{j}"]).take(of_each) for j in range(n_keys)]

    def _recalled(self, number: int) -> pa.Table | None:
        wanted = self.task.sent_by("recall").of_objects(number)
        return gather_slices(self.task.run, wanted, "recall", layout_of(self.task).recalled)

    def _confidential(self) -> list[pa.Array]:
        """Take tonight's confidential values; those of the last release for ghosts, and where they are held back."""
        old, row = self._held_back()
        old[len(self.out) :] = True
        if self.ghosts is not None:
            row[len(self.out) :] = np.asarray(self.ghosts["row"])
        earlier, then = self._earlier(row, np.asarray(old.any(axis=1)))
        return [self._chosen(j, earlier, then, old[:, j]) for j in range(old.shape[1])]

    def _held_back(self) -> tuple[Bools, UInt64s]:
        """Mark whose values are not tonight's, column by column, with the digests of these units' last rows.

        Who did not change has tonight the value of his last release.
        """
        night, row = self.night, np.zeros(self.n, dtype=np.uint64)
        old = np.zeros((self.n, len(self.plan.context.schema.confidential)), dtype=np.bool_)
        altered = altered_units(self.task, self.task.sent_by("match"))
        if altered is None or not night.compared:
            return old, row
        first = self.plan.survey.first_records
        records = first[np.asarray(altered["part"]).astype(np.int64)] + np.asarray(altered["place"])
        at = positions_of_numbers(records, self._records())
        is_out = at >= 0
        place, changes = at[is_out], changes_of(altered, night)[is_out]
        held = held_back(self.atom[place], changes, self.beside_ghosts, night.least_changed)
        old[place] = (changes & held[self.atom[place]]) | self.beside_ghosts[self.atom[place], None]
        row[place] = np.asarray(altered["row"])[is_out]
        return old, row

    def _earlier(self, row: UInt64s, needing: Bools) -> tuple[pa.Table | None, Ints]:
        """Find the rows of earlier releases that units need; any of those that are equal."""
        then = np.zeros(self.n, dtype=np.int64)
        if not needing.any():
            return None, then
        earlier = self._recalled(ROWS)
        if earlier is None:
            raise _lost()
        theirs_dated = dated(pairs_of(earlier, "k"), np.asarray(earlier[NIGHT]))
        theirs, first = np.unique(_with_row(theirs_dated, np.asarray(earlier["row"])), axis=0, return_index=True)
        place = positions_in(_with_row(self._dated(self.atom[needing]), row[needing]), theirs)
        if (place < 0).any():
            raise _lost()
        then[needing] = first[place]
        return earlier, then

    def _chosen(self, j: int, earlier: pa.Table | None, then: Ints, is_old: Bools) -> pa.Array:
        """Take one confidential column from tonight's rows or the earlier ones."""
        now = np.concatenate([self.out, np.zeros(self.n - len(self.out), dtype=np.int64)])
        if not is_old.any():
            if self.tonight is None:
                raise InternalError("a bug: survivors without rows; please report it")
            return one_array(self.tonight[f"c{j}"]).take(pa.array(now))
        if earlier is None:
            raise _lost()
        before = one_array(earlier[f"x{j}"])
        if self.tonight is None:
            return before.take(pa.array(then))
        both = pa.concat_arrays([one_array(self.tonight[f"c{j}"]).cast(before.type), before])
        return both.take(pa.array(np.where(is_old, then + self.tonight.num_rows, now)))


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
