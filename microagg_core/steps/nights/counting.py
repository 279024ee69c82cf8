"""How many units share each trace, changed in each class, and came from each class to each other; added up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.plain import to_json
from microagg_core.series.digests import numbered_pairs
from microagg_core.series.joining import pairs_of
from microagg_core.series.traces import counted
from microagg_core.steps.nights.knowing import layout_of, load_night
from microagg_core.steps.nights.tracing import BUNDLES, CHANGES, ROWS, TRACES
from microagg_core.steps.scattering import gather_slices
from microagg_core.steps.work import Receipt, Task
from microagg_core.tables.slices import to_bytes

# --- What it says ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TraceNotes:
    """Of one range of traces: the rarest, and how many units have one that fewer than k share; and broken changes."""

    smallest: int | None
    units_below: int
    #: For each watched column, the classes in which some, but fewer than k, units changed.
    lone_changes: tuple[int, ...]
    #: Pairs of classes, of the last release and tonight's, that fewer units have than every night promised.
    thin_bundles: int
    #: Who left, who arrived, and how many of them could be one and the same by their confidential rows.
    left: int
    arrived: int
    alike: int


def count_traces(task: Task) -> Receipt:
    """Add up one range of traces, and of classes."""
    night, _ = load_night(task)
    layout = layout_of(task)

    def gathered(number: int) -> pa.Table | None:
        wanted = [one for one in task.slices if one.object == number]
        return gather_slices(task.run, wanted, "trace", layout.traces_told)

    traces, changes, bundles, rows = (gathered(number) for number in (TRACES, CHANGES, BUNDLES, ROWS))
    smallest, below = None, 0
    if traces is not None:
        _, n = counted(pairs_of(traces, "t"), np.asarray(traces["n"]))
        _, n_out = counted(pairs_of(traces, "t"), np.asarray(traces["out"]))
        # Who was released under a smaller k, and is not tonight, shares his trace with as many as he was promised.
        needed = np.where(n_out > 0, night.k, night.least_k)
        smallest, below = int(n.min()), int(n[n < needed].sum())
    lone = tuple(_lone(changes, j, night.k) for j in range(len(night.columns)))
    bundled = _added_up(bundles)
    thin = int(np.sum(np.asarray(bundled["n"]) < night.least_k))
    notes = TraceNotes(smallest, below, lone, thin, *_alike(rows))
    pieces = (
        task.put(layout.trace_notes(task.number), to_json(notes)),
        task.put(layout.bundles(task.number), to_bytes(bundled)),
    )
    return Receipt(task.step, task.number, 0, pieces)


def _added_up(bundles: pa.Table | None) -> pa.Table:
    """The pairs of classes, each once, with all their units."""
    if bundles is None:
        names = [f"{end}{half}" for end in "bk" for half in range(2)]
        return pa.schema([*((name, pa.uint64()) for name in names), ("n", pa.int64())]).empty_table()
    numbers, distinct = numbered_pairs(pairs_of(bundles, "t"))
    first = np.full(len(distinct), len(numbers), dtype=np.int64)
    np.minimum.at(first, numbers, np.arange(len(numbers)))
    n = np.bincount(numbers, np.asarray(bundles["n"]), len(distinct)).astype(np.int64)
    ends = bundles.select([f"{end}{half}" for end in "bk" for half in range(2)]).take(pa.array(first))
    return ends.append_column("n", pa.array(n))


def _alike(rows: pa.Table | None) -> tuple[int, int, int]:
    """How many left and arrived, and how many pairs of one each have equal rows."""
    if rows is None:
        return 0, 0, 0
    left = np.asarray(rows["left"])
    _, number = np.unique(np.asarray(rows["row"]), return_inverse=True)
    n_left, n_arrived = np.bincount(number, left), np.bincount(number, ~left)
    return int(left.sum()), int((~left).sum()), int(np.minimum(n_left, n_arrived).sum())


def _lone(changes: pa.Table | None, column: int, k: int) -> int:
    if changes is None:
        return 0
    _, n = counted(pairs_of(changes, "k"), np.asarray(changes[f"n{column}"]))
    return int(np.sum((n > 0) & (n < k)))
