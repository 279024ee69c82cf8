"""Survivors: released again with their atoms, as these were released before.

What becomes of the atoms is decided range by range, of classes. Their quasi-identifiers come from the files of earlier
releases, where they are for everybody to read; confidential values come from tonight's input, but for ghosts, and for
columns that are held back, whose values come from the earlier release as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, Pairs
from microagg_core.errors import DataError, InternalError, StorageError
from microagg_core.formats.released.registry import released_format
from microagg_core.plain import from_json, to_json
from microagg_core.releases.manifest import PartEntry
from microagg_core.releases.parts import is_whole
from microagg_core.series.digests import classes_of, numbered_pairs, rows_of
from microagg_core.series.fates import CARRIED, GHOST, VANISHED, WITHHELD, Fates, Members, decide
from microagg_core.series.joining import as_columns, pairs_of, positions_in
from microagg_core.series.night import GHOSTS_FROM, Night
from microagg_core.steps.nights.counts import FateCounts, FateNotes
from microagg_core.steps.nights.knowing import layout_of, load_night
from microagg_core.steps.nights.matching import MEMBERS, atom_range
from microagg_core.steps.pieces import Piece
from microagg_core.steps.routing import Planned, load_planned
from microagg_core.steps.scattering import gather_slices
from microagg_core.steps.work import Receipt, Task
from microagg_core.storage.objects import Store
from microagg_core.storage.urls import shown
from microagg_core.tables.hashing import one_array
from microagg_core.tables.slices import RECORD, Slice, read_slice, to_bytes, write_slices

#: The objects of a recalled part: a row for each class, and the whole rows of the classes where they are needed.
CLASSES, ROWS = 0, 1
_NIGHT = "night"


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


# --- What becomes of the atoms ---------------------------------------------------------------------------------


def decide_range(task: Task) -> Receipt:
    """Decide what becomes of one range's atoms; tells the ranges of units who vanishes, and who comes as a ghost."""
    night, _ = load_night(task)
    members = _gathered_members(task, night)
    fates = decide(_as_members(members, night), night.policy)
    decided = members.append_column("code", pa.array(fates.code))
    for j in range(len(night.columns)):
        decided = decided.append_column(f"held{j}", pa.array(np.ascontiguousarray(fates.held_back[:, j])))
    counts = _counts_of(fates)
    layout = layout_of(task)
    told, slices = _told(task, decided)
    whole = _needing_rows(members, fates)
    nights = sorted({int(n) for n in np.asarray(members["last"])[_is_released(fates)]})
    pieces = (
        told,
        task.put(layout.members(task.number), to_bytes(decided)),
        task.put(layout.whole(task.number), to_bytes(pa.table(as_columns(whole, "k")))),
        task.put(layout.fates(task.number), to_json(FateNotes(counts, tuple(nights)))),
    )
    return Receipt(task.step, task.number, members.num_rows, pieces, tuple(slices))


def _gathered_members(task: Task, night: Night) -> pa.Table:
    layout = layout_of(task)
    wanted = [one for one in task.slices if one.object == MEMBERS]
    table = gather_slices(task.run, wanted, "match", lambda number, _: layout.members_told(number))
    if table is None:
        return members_schema(len(night.columns)).empty_table()
    # By unit, so that nothing depends on the order in which ranges were met.
    order = np.lexsort((np.asarray(table["u1"]), np.asarray(table["u0"])))
    return table.take(pa.array(order)).combine_chunks()


def members_schema(n_columns: int) -> pa.Schema:
    """The columns of members, as matching tells them."""
    fields = [(f"{name}{half}", pa.uint64()) for name in "utk" for half in range(2)]
    fields += [("row", pa.uint64()), ("since", pa.int32()), ("last", pa.int32())]
    fields += [(f"d{j}", pa.uint32()) for j in range(n_columns)]
    fields += [("present", pa.bool_()), ("unit_range", pa.uint16()), ("index", pa.int64())]
    fields += [("place", pa.int64()), ("part", pa.int64())]
    return pa.schema([*fields, *((f"changed{j}", pa.bool_()) for j in range(n_columns))])


def _as_members(table: pa.Table, night: Night) -> Members:
    changed = [np.asarray(table[f"changed{j}"]) for j in range(len(night.columns))]
    return Members(
        pairs_of(table, "t"),
        pairs_of(table, "k"),
        pairs_of(table, "u"),
        np.asarray(table["present"]),
        np.asarray(table["since"]),
        np.asarray(table["last"]),
        np.column_stack(changed) if changed else np.zeros((table.num_rows, 0), dtype=np.bool_),
    )


def _counts_of(fates: Fates) -> FateCounts:
    n_of = np.bincount(fates.code, minlength=5)
    held_back = int(fates.held_back.sum())
    return FateCounts(int(n_of[CARRIED]), int(n_of[GHOST]), int(n_of[WITHHELD]), int(n_of[VANISHED]), held_back)


def _is_released(fates: Fates) -> Bools:
    released: Bools = np.isin(fates.code, (CARRIED, GHOST))
    return released


def _needing_rows(members: pa.Table, fates: Fates) -> Pairs:
    """The classes of which single rows of the earlier release are needed."""
    needing = (fates.code == GHOST) | fates.held_back.any(axis=1)
    return numbered_pairs(pairs_of(members, "k")[needing])[1]


def _told(task: Task, decided: pa.Table) -> tuple[Piece, list[Slice]]:
    """For the ranges of units: whose fate is not simply to be carried."""
    codes = np.asarray(decided["code"])
    uncommon = np.flatnonzero(codes != CARRIED)
    table = decided.select(["index", "code"]).take(pa.array(uncommon))
    destination = np.asarray(decided["unit_range"]).astype(np.int64)[uncommon]
    data, slices = write_slices(table, destination, task.number)
    return task.put(layout_of(task).fates_told(task.number), data), slices


# --- What earlier releases say of them -------------------------------------------------------------------------


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
    pieces, slices = [], []
    for number, told in ((CLASSES, of_classes), (ROWS, of_rows)):
        data, some = write_slices(told, atom_range(pairs_of(told, "k"), night), task.number, number)
        pieces.append(task.put(layout.recalled(task.number, number), data))
        slices += some
    return Receipt(task.step, task.number, table.num_rows, tuple(pieces), tuple(slices))


def _read_released(plan: Planned, part: RecalledPart) -> pa.Table:
    folder = Store(part.url, dict(part.storage_options), follow_links=True)
    if not is_whole(folder, part.entry.name, part.entry):
        raise StorageError(
            f"{shown(folder.url_of(part.entry.name))} is missing or damaged, and survivors' values come from it; "
            "restore it, or publish that release again"
        )
    form = released_format(plan.context.spec.output)
    return form.read_back(folder.read(part.entry.name), plan.context.schema.released_schema)


def _with_classes(table: pa.Table, classes: Pairs, night: int) -> pa.Table:
    """The rows with names of our own, which collide with none of theirs."""
    columns = {**as_columns(classes, "k"), _NIGHT: pa.array(np.full(len(classes), night, dtype=np.int32))}
    renamed = {f"x{j}": column for j, column in enumerate(table.columns)}
    return pa.table({**columns, **renamed})


# --- Their rows ------------------------------------------------------------------------------------------------


def carry_range(task: Task) -> Receipt:
    """Make the released rows of one range of atoms."""
    plan, (night, _) = load_planned(task), load_night(task)
    layout = layout_of(task)
    members = read_slice(task.pieces.read(layout.members(task.number)))
    codes = np.asarray(members["code"])
    released = members.filter(pa.array(np.isin(codes, (CARRIED, GHOST))))
    if not released.num_rows:
        return Receipt(task.step, task.number, 0, (task.put(layout.carried(task.number), b""),))
    rows = _released_rows(task, plan, night, released)
    destination = np.full(rows.num_rows, plan.plan.n_files + task.number, dtype=np.int64)
    data, slices = write_slices(rows, destination, task.number)
    return Receipt(task.step, task.number, rows.num_rows, (task.put(layout.carried(task.number), data),), tuple(slices))


def _released_rows(task: Task, plan: Planned, night: Night, members: pa.Table) -> pa.Table:
    schema = plan.context.schema
    keys = _keys_of(task, plan, members)
    confidential = _confidential_of(task, plan, night, members)
    source = dict(zip([c.name for c in (*schema.blocking, *schema.quasi_identifiers)], keys, strict=True))
    source |= dict(zip([c.name for c in schema.confidential], confidential, strict=True))
    numbers = _numbers_of(plan, members)
    types = zip(schema.released, schema.released_types, strict=True)
    columns = [pa.array(numbers), *(one_array(source[c.name]).cast(kind) for c, kind in types)]
    return pa.Table.from_arrays(columns, names=[RECORD, *(f"x{j}" for j in range(len(schema.released)))])


def _numbers_of(plan: Planned, members: pa.Table) -> Ints:
    """Record numbers; those of ghosts say where the ledger has them."""
    part, place = np.asarray(members["part"]), np.asarray(members["place"])
    first = plan.survey.first_records
    ghosts = (np.asarray(members["unit_range"]).astype(np.int64) + 1) * GHOSTS_FROM + np.asarray(members["index"])
    is_ghost: Bools = np.asarray(members["code"]) == GHOST
    numbers: Ints = np.where(is_ghost, ghosts, first[np.where(is_ghost, 0, part)] + place)
    return numbers


def _recalled(task: Task, number: int) -> pa.Table | None:
    layout = layout_of(task)
    return gather_slices(task.run, [one for one in task.also if one.object == number], "recall", layout.recalled)


def _keys_of(task: Task, plan: Planned, members: pa.Table) -> list[pa.Array]:
    """The released values of each member's class, from the release in which it was last."""
    classes = _recalled(task, CLASSES)
    if classes is None:
        raise _lost()
    place = positions_in(_dated(members, "k", "last"), _dated(classes, "k", _NIGHT))
    if (place < 0).any():
        raise _lost()
    n_keys = len(plan.context.schema.blocking) + len(plan.context.schema.quasi_identifiers)
    return [one_array(classes[f"x{j}"]).take(pa.array(place)) for j in range(n_keys)]


def _dated(table: pa.Table, pair: str, night: str) -> Pairs:
    """Digests of class and night together: a class of one night is found in that night's release only."""
    pairs = pairs_of(table, pair)
    return np.column_stack([pairs[:, 0], pairs[:, 1] ^ np.asarray(table[night]).astype(np.uint64)])


def _lost() -> StorageError:
    return StorageError(
        "an earlier release does not hold what the ledger says of it; restore its files, or make the ledger again with "
        "microagg series rebuild"
    )


def _confidential_of(task: Task, plan: Planned, night: Night, members: pa.Table) -> list[pa.Array]:
    """Tonight's confidential values; those of the last release where they are held back, and of ghosts."""
    names = [c.name for c in plan.context.schema.confidential]
    tonight = gather_slices(task.run, task.slices, "scatter", layout_of(task).survivors)
    is_ghost: Bools = np.asarray(members["code"]) == GHOST
    now = _places_of(tonight, _numbers_of(plan, members), is_ghost)
    then, earlier = _earlier_rows(task, members, is_ghost, night)
    columns = []
    for j, name in enumerate(names):
        held = np.asarray(members[f"held{night.columns.index(name)}"]) if name in night.columns else False
        old: Bools = is_ghost | held
        columns.append(_chosen(tonight, f"c{j}", now, earlier, f"x{j}", then, old))
    return columns


def _places_of(tonight: pa.Table | None, numbers: Ints, is_ghost: Bools) -> Ints:
    """Where each survivor's row of tonight's input is."""
    records = np.asarray(tonight[RECORD]) if tonight is not None else np.zeros(0, dtype=np.int64)
    order = np.argsort(records, kind="stable")
    place = np.searchsorted(records[order], numbers)
    place = np.where(place < len(records), place, 0)
    row = order[place] if len(records) else np.zeros(len(numbers), dtype=np.int64)
    missing = ~is_ghost & (records[row] != numbers if len(records) else True)
    if np.any(missing):
        raise DataError("the input changed while the release was made; run again when nobody writes to the input")
    return row


def _earlier_rows(task: Task, members: pa.Table, is_ghost: Bools, night: Night) -> tuple[Ints, pa.Table | None]:
    """Where each ghost's, and each held-back member's, row of an earlier release is; any of those that are equal."""
    needing = is_ghost.copy()
    for j in range(len(night.columns)):
        needing |= np.asarray(members[f"held{j}"])
    place = np.zeros(members.num_rows, dtype=np.int64)
    if not needing.any():
        return place, None
    earlier = _recalled(task, ROWS)
    if earlier is None:
        raise _lost()
    theirs, first = np.unique(_row_keys(earlier, _NIGHT), axis=0, return_index=True)
    row = positions_in(_row_keys(members, "last")[needing], theirs)
    if (row < 0).any():
        raise _lost()
    place[needing] = first[row]
    return place, earlier


def _row_keys(table: pa.Table, night: str) -> Pairs:
    """A row of a class of a night, by digests."""
    dated = _dated(table, "k", night)
    return np.column_stack([dated[:, 0], dated[:, 1] ^ np.asarray(table["row"])])


def _chosen(
    tonight: pa.Table | None, name: str, now: Ints, earlier: pa.Table | None, old_name: str, then: Ints, old: Bools
) -> pa.Array:
    """One column, from tonight's rows or the earlier ones."""
    if not old.any():
        if tonight is None:
            raise InternalError("a bug: survivors without rows; please report it")
        return one_array(tonight[name]).take(pa.array(now))
    if earlier is None:
        raise _lost()
    before = one_array(earlier[old_name])
    if tonight is None:
        return before.take(pa.array(then))
    both = pa.concat_arrays([one_array(tonight[name]).cast(before.type), before])
    return both.take(pa.array(np.where(old, then + tonight.num_rows, now)))
