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
from microagg_core.data.tables.slices import RECORD
from microagg_core.release.planned import Planned
from microagg_core.release.step import BytesOutput, TableOutput, Work

#: A file that would be published; and the private record numbers and quasi-identifiers that came in, row by row.
CANDIDATE, ORIGINS = BytesOutput("candidate"), TableOutput("origins")


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


def read_candidate(work: Work, plan: Planned) -> Candidate:
    """Read the candidate file of a task, and vouch for it: only these bytes may be published."""
    form, piece = released_format(plan.context.spec.output), work.reads.piece(CANDIDATE)
    table = form.read_back(work.read(CANDIDATE), plan.context.schema.released_schema)
    work.vouch(piece)
    # One chunk a column, or all that look at a column would join its chunks, each anew.
    return Candidate(table.combine_chunks(), work.read(ORIGINS))
