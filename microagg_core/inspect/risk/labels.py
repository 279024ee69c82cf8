"""Labels: lines of the audit, one for each released label of each file, with what measures note of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.inspect.contract import Inspection, ReleasedFile
from microagg_core.inspect.exposure import Exposure
from microagg_core.inspect.gate import measures
from microagg_core.inspect.notes import PlainTable


class Labels(Inspection[pa.Table]):
    family = "risk"
    name = "labels"
    notes = PlainTable
    of_survivors = True

    def note(self, file: ReleasedFile) -> pa.Table:
        lines = label_lines(file.exposure)
        return lines.add_column(0, "file", pa.array(np.full(lines.num_rows, file.number)))


def label_lines(exposure: Exposure) -> pa.Table:
    """List the labels, in the order of their first rows, with what measures note of each."""
    groups = exposure.groups[::-1]
    first_of_group, first = np.zeros(len(exposure.labels), np.int64), np.full(exposure.n_labels, len(groups))
    first_of_group[groups] = np.arange(len(groups))[::-1]  # of several the last, which is the first row
    np.minimum.at(first, exposure.labels, first_of_group)
    columns = {name: column for m in measures() for name, column in m.of_labels(exposure).items()}
    return pa.table({"row": first, **columns})
