"""Candidates: the files that would be published, and what lies beside each of them in the work area.

Row by row that is the record's private number, and, where the record arrived in this run, its quasi-identifiers as they
came in: what the gate, the measures of risk and the operator's page compare a released row with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.slices import RECORD, read_slice
from microagg_core.release.steps.pieces import Piece
from microagg_core.release.steps.routing import Planned
from microagg_core.release.steps.work import Task


@dataclass(frozen=True)
class Candidate:
    """A file that would be published, as it was read back, and what lies beside it."""

    table: pa.Table
    origins: pa.Table

    @property
    def records(self) -> Ints:
        """The private record number of each row."""
        return np.asarray(self.origins[RECORD]).astype(np.int64)

    @property
    def came(self) -> list[pa.ChunkedArray] | None:
        """Row by row, the quasi-identifiers as they came in; None for a file of survivors of a series."""
        return self.origins.columns[1:] or None


def read_candidate(task: Task, plan: Planned) -> tuple[Candidate, Piece]:
    """The candidate file of a task's number, and the piece that it is: only these bytes may be published."""
    form, layout, number = released_format(plan.context.spec.output), task.layout, task.number
    piece = task.pieces.piece(layout.candidate(number, form.name))
    table = form.read_back(task.pieces.read(piece.name), plan.context.schema.released_schema)
    # One chunk a column, or all that look at a column would join its chunks, each anew.
    return Candidate(table.combine_chunks(), read_slice(task.pieces.read(layout.origins(number)))), piece
