"""What the tasks of a night know besides the run's context: the night itself, and the series' key."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import UInt64s
from microagg_core.data.formats.released.registry import released_format
from microagg_core.plain import from_json, to_json
from microagg_core.release.steps.pieces import Piece, sealed, unsealed
from microagg_core.release.steps.work import Context, Run, Task
from microagg_core.series.digests import SeriesKey, rows_of, values_of
from microagg_core.series.night import Night
from microagg_core.store.night_layout import NightLayout


def save_night(run: Run, night: Night, key: SeriesKey) -> tuple[Piece, ...]:
    """Write both where workers of the run find them; they go with the run's folder."""
    layout = NightLayout(run.key)
    return (
        run.put(layout.night(), to_json(night), "night"),
        run.put(layout.key(), sealed(key.secret), "night"),
    )


def has_night(task: Task) -> bool:
    """Whether the task belongs to a night whose ledger is kept."""
    name = NightLayout(task.run.key).night()
    return any(piece.name == name for piece in task.reads)


def load_night(task: Task) -> tuple[Night, SeriesKey]:
    """Night and key, read once a process."""
    layout, pieces = NightLayout(task.run.key), task.pieces
    return _load(task.run, pieces.piece(layout.night()), pieces.piece(layout.key()))


@lru_cache(maxsize=4)
def _load(run: Run, night: Piece, key: Piece) -> tuple[Night, SeriesKey]:
    pieces = run.pieces((night, key))
    secret = unsealed(pieces.read(key.name))
    return from_json(Night, pieces.read(night.name)), SeriesKey(secret or b"")


def layout_of(task: Task) -> NightLayout:
    """Names of the night's objects."""
    return NightLayout(task.run.key)


def confidential_digests(
    context: Context, night: Night, key: SeriesKey, table: pa.Table
) -> tuple[UInt64s, list[NDArray[np.uint32]]]:
    """Digests of what is confidential, as a released file has it: of whole rows, and of each column that is watched."""
    names = [column.name for column in context.schema.confidential]
    released = released_format(context.spec.output).released_form(table.select(names))
    return rows_of(released, names, key), [values_of(released[name], key) for name in night.columns]
