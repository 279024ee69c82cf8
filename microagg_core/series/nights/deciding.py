"""What becomes of the atoms tonight, decided range by range from who of them is there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Bytes, Ints
from microagg_core.data.tables.slices import Slices, to_bytes
from microagg_core.plain import to_json
from microagg_core.release.steps.shuffling import gather_slices, gather_with_makers
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.atoms import places_of_atoms
from microagg_core.series.digests import numbered_pairs
from microagg_core.series.fates import Fate, Fates, decide, held_back, is_released
from microagg_core.series.generations import broken
from microagg_core.series.joining import as_columns, pairs_of, positions_in
from microagg_core.series.marks import ATOM
from microagg_core.series.night import Night
from microagg_core.series.nights.counts import FateCounts, FateNotes
from microagg_core.series.nights.knowing import layout_of, load_night
from microagg_core.series.nights.matching import ABSENT, ALTERED


def decide_range(task: Task) -> Receipt:
    """Decide what becomes of one range's atoms."""
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
    notes = FateNotes(_counts_of(fates, n, n_left, _n_held_back(night, fates, atoms, altered)), tuple(nights))
    layout = layout_of(task)
    pieces = (
        task.put(layout.uncommon(task.number), to_bytes(table)),
        task.put(layout.whole(task.number), to_bytes(pa.table(as_columns(whole, "k")))),
        task.put(layout.fates(task.number), to_json(notes)),
    )
    return Receipt(task.step, task.number, int(n.sum()), pieces)


def beside_ghosts(code: Bytes, atoms: pa.Table) -> Bools:
    """Find the atoms of classes that hold a ghost tonight: all of them are released as they were last."""
    classes = pairs_of(atoms, "k")
    return np.asarray(positions_in(classes, numbered_pairs(classes[code == Fate.WITH_GHOSTS])[1]) >= 0)


def absent_units(task: Task, matched: Slices) -> pa.Table | None:
    """The live units of a range's atoms that are not in tonight's input, with their places in the ledger."""
    makers = pa.field("unit_range", pa.int64())
    absent = matched.of_objects(ABSENT)
    return gather_with_makers(task.run, absent, "match", lambda number, _: layout_of(task).absent(number), makers)


def altered_units(task: Task, matched: Slices) -> pa.Table | None:
    """Survivors of a range's atoms that have other values than in their last release."""
    return gather_slices(
        task.run, matched.of_objects(ALTERED), "match", lambda number, _: layout_of(task).altered(number)
    )


def places_of_units(units: pa.Table | None, atoms: pa.Table) -> Ints:
    """Where each unit's atom stands among the atoms of the range."""
    if units is None:
        return np.zeros(0, dtype=np.int64)
    place = places_of_atoms(np.asarray(units[ATOM]), atoms)
    if (place < 0).any():
        raise broken("the ledger has units of atoms that it does not know")
    return place


def _counts_of(fates: Fates, n: Ints, left: Ints, n_held_back: int) -> FateCounts:
    code, decoys = fates
    ghosts, shedding, closed = (code == fate for fate in (Fate.WITH_GHOSTS, Fate.SHEDDING, Fate.CLOSED))
    out = is_released(code)
    return FateCounts(
        carried=int((n - left - decoys)[out].sum()),
        ghosts=int(left[ghosts].sum()),
        withheld=int(n[code == Fate.WITHHELD].sum()),
        vanished=int((left + decoys)[shedding].sum() + n[closed].sum()),
        held_back=n_held_back,
    )


def _n_held_back(night: Night, fates: Fates, atoms: pa.Table, altered: pa.Table | None) -> int:
    """Count the changes that would not be released tonight; whom the lot makes a decoy is not known yet."""
    if altered is None or not night.compared:
        return 0
    place = places_of_units(altered, atoms)
    out = is_released(fates.code[place])
    place, changes = place[out], changes_of(altered, night)[out]
    held = held_back(place, changes, beside_ghosts(fates.code, atoms), night.least_changed)
    return int((changes & held[place]).sum())


def changes_of(altered: pa.Table, night: Night) -> Bools:
    """Of survivors with other values, the watched columns that have them; where none is watched, one for the row."""
    if not night.columns:
        return np.ones((altered.num_rows, 1), dtype=np.bool_)
    return np.column_stack([np.asarray(altered[f"changed{j}"]) for j in range(len(night.columns))])
