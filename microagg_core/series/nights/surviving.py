"""Survivors: what an input part sends to the files of survivors, when it is read to be scattered.

Their confidential values go to the tasks that carry them; digests of these, for the gate, to those that check their
files. Both come behind the partitions of arrivals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.data.tables.slices import RECORD, Slices
from microagg_core.release.steps.pieces import Piece
from microagg_core.release.steps.reading import PartBatch
from microagg_core.release.steps.routing import Planned
from microagg_core.release.steps.shuffling import Scatter
from microagg_core.release.steps.work import Task
from microagg_core.series.atoms import range_of_atoms
from microagg_core.series.marks import ATOM, CHANGED, survive
from microagg_core.series.nights.knowing import confidential_digests, layout_of, load_night
from microagg_core.series.nights.matching import half_of


class Survivors:
    """What one input part sends; nothing where nobody survives."""

    def __init__(self, task: Task, plan: Planned) -> None:
        self._task, self._plan = task, plan
        self._values = Scatter(task, layout_of(task).survivors)
        self._digests = Scatter(task, layout_of(task).survivors_read)

    def add(self, batch: PartBatch) -> None:
        """Take in the next batch."""
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
        """What the gate is told of survivors."""
        rows, values = confidential_digests(self._plan.context, *load_night(self._task), confidential)
        columns = {"changed": pa.array(codes == CHANGED)}
        columns |= {f"d{j}": pa.array(of_column) for j, of_column in enumerate(values)}
        return columns if values else {**columns, "half": pa.array(half_of(rows))}

    def flush(self) -> None:
        """Write what is held."""
        self._values.flush()
        self._digests.flush()

    @property
    def rows(self) -> int:
        """Survivors so far."""
        return self._values.rows

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All that was written."""
        return (*self._values.pieces, *self._digests.pieces)

    @property
    def slices(self) -> Slices:
        """What is for whom."""
        return self._values.slices + self._digests.slices


def slices_for_the_gate(slices: Slices, plan: Planned, n_carried: int) -> Slices:
    """Of what a part sent, the digests of survivors, for the files of survivors, which come after those of arrivals."""
    return slices.moved(plan.outline.n_partitions + n_carried, plan.outline.n_files)
