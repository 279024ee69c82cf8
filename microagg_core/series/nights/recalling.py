"""What earlier releases say: the values of their classes, and whole rows where they are needed again.

They are read from the published files, where they are for everybody to read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints, Pairs
from microagg_core.data.formats.released.registry import released_format
from microagg_core.data.tables.slices import Slices, read_slice, write_slices
from microagg_core.errors import StorageError
from microagg_core.plain import from_json
from microagg_core.release.manifest import PartEntry
from microagg_core.release.steps.routing import Planned, load_planned
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.atoms import range_of_classes
from microagg_core.series.digests import classes_of, numbered_pairs, rows_of
from microagg_core.series.joining import as_columns, pairs_of, positions_in
from microagg_core.series.nights.knowing import layout_of, load_night
from microagg_core.store.objects import Store, sha256_hex
from microagg_core.store.urls import shown

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
    """The rows with names of our own, which collide with none of theirs."""
    columns = {**as_columns(classes, "k"), NIGHT: pa.array(np.full(len(classes), night, dtype=np.int32))}
    renamed = {f"x{j}": column for j, column in enumerate(table.columns)}
    return pa.table({**columns, **renamed})


def dated(classes: Pairs, nights: Ints) -> Pairs:
    """Digests of class and night together: a class of one night is found in that night's release only."""
    return np.column_stack([classes[:, 0], classes[:, 1] ^ nights.astype(np.uint64)])
