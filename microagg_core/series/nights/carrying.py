"""Survivors: released again with their atoms, as these were released before.

What becomes of the atoms is decided range by range. Their quasi-identifiers come from the files of earlier releases,
where they are for everybody to read; confidential values come from tonight's input, but for classes with ghosts and
columns that are held back, whose values come from the earlier release as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, Pairs, UInt64s
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.slices import RECORD, read_slice
from microagg_core.errors import DataError, InternalError, StorageError
from microagg_core.release.steps.assembling import no_rows, write_candidate
from microagg_core.release.steps.routing import Planned, load_planned
from microagg_core.release.steps.shuffling import gather_slices
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.atoms import places_of_atoms
from microagg_core.series.fates import Fate, drawn_decoys, held_back, is_released
from microagg_core.series.joining import pairs_of, positions_in, positions_of_numbers
from microagg_core.series.marks import ATOM
from microagg_core.series.night import GHOSTS_FROM, Night
from microagg_core.series.nights.deciding import (
    absent_units,
    altered_units,
    beside_ghosts,
    changes_of,
    places_of_units,
)
from microagg_core.series.nights.knowing import layout_of, load_night
from microagg_core.series.nights.recalling import CLASSES, NIGHT, ROWS, dated


def carry_range(task: Task) -> Receipt:
    """Make the file of one range of atoms."""
    plan, (night, _) = load_planned(task), load_night(task)
    carried = _Carried.of(task, plan, night)
    number = plan.outline.n_files + task.number
    rows = carried.rows() if carried.n else no_rows(plan.context.schema, with_origins=False)
    return Receipt(task.step, task.number, rows.num_rows, write_candidate(task, plan, number, rows))


@dataclass(frozen=True)
class _Carried:
    """Who of a range is released tonight: survivors, then ghosts.

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
        """Put together what the input and the ledger say, as the fates have it."""
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
        """How many rows there are."""
        return len(self.atom)

    def rows(self) -> pa.Table:
        """The released rows, with record numbers; those of ghosts say where the ledger has them."""
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
        """The classes of atoms, each in the night of its last release."""
        return dated(pairs_of(self.atoms, "k")[places], np.asarray(self.atoms["last"])[places])

    def _keys(self) -> list[pa.Array]:
        """The released values of each one's class, from the release in which it was last."""
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
        """Tonight's confidential values; those of the last release of ghosts, and where they are held back."""
        old, row = self._held_back()
        old[len(self.out) :] = True
        if self.ghosts is not None:
            row[len(self.out) :] = np.asarray(self.ghosts["row"])
        earlier, then = self._earlier(row, np.asarray(old.any(axis=1)))
        return [self._chosen(j, earlier, then, old[:, j]) for j in range(old.shape[1])]

    def _held_back(self) -> tuple[Bools, UInt64s]:
        """Whose values are not tonight's, column by column, and the digests of these units' last rows.

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
        """Rows of earlier releases, and which of them each one needs; any of those that are equal."""
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
        """One confidential column, from tonight's rows or the earlier ones."""
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
    """The record numbers under which ghosts travel: where the ledger has them.

    >>> number_of_ghosts(np.array([1]), np.array([5])).tolist() == [2 * GHOSTS_FROM + 5]
    True
    """
    return np.asarray((unit_range + 1) * GHOSTS_FROM + index)


def _with_row(of_night: Pairs, row: UInt64s) -> Pairs:
    """A row of a class of a night, by digests."""
    return np.column_stack([of_night[:, 0], of_night[:, 1] ^ row])


def _lost() -> StorageError:
    return StorageError(
        "an earlier release does not hold what the ledger says of it; restore its files, or make the ledger again with "
        "microagg series rebuild"
    )
