"""Risks: what workers note of the files that would be published, and what the flow makes of all notes.

The gate has each file at hand, and what came of the input for its records: that is what an intruder reads, and what he
would like to know. What is noted stays in the private work area, as the figures do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.inspect.risk.asking import asking_share
from microagg_core.inspect.risk.contract import Exposure
from microagg_core.inspect.risk.exposing import OtherColumns, expose
from microagg_core.inspect.risk.tables import RiskNotes, label_lines, risk_figures
from microagg_core.plain import from_json, to_json
from microagg_core.release.steps.candidate import Candidate
from microagg_core.release.steps.pieces import Piece, Pieces
from microagg_core.release.steps.routing import Planned
from microagg_core.release.steps.value_counts import load_distributions
from microagg_core.release.steps.work import Task
from microagg_core.store.risk_layout import RiskLayout

#: 1 and 2: counts of groups, as the algorithm made them.
FORMAT_VERSION = 3


@dataclass(frozen=True)
class Risk:
    """Figures by measure, and a line for each label of each file."""

    figures: dict[str, Any]
    labels: pa.Table


def note_risk(task: Task, plan: Planned, candidate: Candidate) -> tuple[Piece, ...]:
    """Write what measures note of a candidate file."""
    spec, schema, came = plan.context.spec, plan.context.schema, candidate.came
    distributions = load_distributions(task) if came is not None else (None,) * len(schema.confidential)
    columns = zip(schema.confidential, distributions, strict=True)
    exposure = expose(
        plan.encoding,
        candidate.table,
        OtherColumns(tuple(c.name for c in schema.blocking), tuple((c.name, of) for c, of in columns)),
        candidate.records,
        None if spec.risk == "off" else came,
        asking=asking_share(spec.risk, plan.survey.arrivals, len(plan.encoding.kinds)),
        seed=spec.seed,
    )
    return write_notes(task, exposure)


def write_notes(task: Task, exposure: Exposure) -> tuple[Piece, ...]:
    """Write what measures note of a file."""
    lines = label_lines(exposure)
    lines = lines.add_column(0, "file", pa.array(np.full(lines.num_rows, task.number)))
    layout, number = RiskLayout(task.run.key), task.number
    notes = task.put(layout.notes(number), to_json(RiskNotes.of(exposure)))
    return notes, task.put(layout.labels(number), to_bytes(lines))


def combine_risk(checked: Pieces, run_key: str, plan: Planned, n_files: int) -> Risk:
    """What the notes of all files come to; ``checked`` is what the gate's workers wrote."""
    spec, kinds, layout = plan.context.spec, plan.context.kinds, RiskLayout(run_key)
    notes = [from_json(RiskNotes, data) for data in checked.read_all(map(layout.notes, range(n_files)))]
    lines = [read_slice(data) for data in checked.read_all(map(layout.labels, range(n_files)))]
    figures = risk_figures(notes, [kind.name for kind in kinds])
    document = {"measured": spec.risk, "k": spec.k, "unit": "row" if spec.unit == "row" else "units", **figures}
    arrivals = sum(of_file.rows for of_file in notes[: plan.outline.n_files])
    if arrivals < document["records"]:  # of survivors the input's values are not at hand, so none of them is asked
        document["arrivals"] = arrivals
    return Risk(document, _together(lines))


def _together(lines: Iterable[pa.Table]) -> pa.Table:
    """Lines of all files; files of survivors have fewer columns."""
    tables = list(lines)
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})
