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

from microagg_core.inspect.risk.asking import asking_share
from microagg_core.inspect.risk.contract import Exposure
from microagg_core.inspect.risk.exposing import OtherColumns, expose
from microagg_core.inspect.risk.tables import RiskNotes, label_lines, risk_figures
from microagg_core.release.planned import Planned
from microagg_core.release.step import JsonOutput, Pieces, TableOutput, Work
from microagg_core.release.steps.candidate import Candidate
from microagg_core.release.steps.value_counts import DISTRIBUTIONS

#: What measures note of a candidate file, in all and label by label.
RISK_NOTES, RISK_LABELS = JsonOutput("risk-notes", RiskNotes), TableOutput("risk-labels")

#: 1 and 2: counts of groups, as the algorithm made them.
FORMAT_VERSION = 3


@dataclass(frozen=True)
class Risk:
    """Figures by measure, and a line for each label of each file."""

    figures: dict[str, Any]
    labels: pa.Table


def note_risk(work: Work, plan: Planned, candidate: Candidate, file: int) -> None:
    """Write what measures note of a candidate file, which is called by its number among all files."""
    spec, schema, came = plan.context.spec, plan.context.schema, candidate.came
    distributions = work.load(DISTRIBUTIONS) if came is not None else (None,) * len(schema.confidential)
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
    write_notes(work, exposure, file)


def write_notes(work: Work, exposure: Exposure, file: int) -> None:
    """Write what measures note of a file."""
    lines = label_lines(exposure)
    lines = lines.add_column(0, "file", pa.array(np.full(lines.num_rows, file)))
    work.write(RISK_NOTES, RiskNotes.of(exposure))
    work.write(RISK_LABELS, lines)


def combine_risk(checked: Pieces, plan: Planned) -> Risk:
    """Add up the notes of all files; ``checked`` is what the gate's workers wrote."""
    spec, kinds = plan.context.spec, plan.context.kinds
    notes, lines = checked.read_all(RISK_NOTES), checked.read_all(RISK_LABELS)
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
