"""What the literature prints for its reference files, to stand beside what was computed here.

A file is known by its shape and the sum of its values; the figures are those of ``published.csv``.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

import pandas as pd

#: Records, attributes and sum of all values of the reference files.
_KNOWN = {(834, 13, 1_118_735_908): "tarragona", (1080, 13, 516_352_498): "census", (4092, 11, 6_661_309_878): "eia"}
_SST_MEASURE = "SSE"


@dataclass(frozen=True)
class Figure:
    """A printed figure: of a source's method at a k, as information loss in percent."""

    dataset: str
    source: str
    method: str
    k: int
    measure: str
    value: float
    note: str


def known_dataset(table: pd.DataFrame) -> str | None:
    """The reference file that a table is, or None.

    >>> known_dataset(pd.DataFrame({"x": [1, 2]})) is None
    True
    """
    if (len(table), table.shape[1]) not in {key[:2] for key in _KNOWN}:
        return None
    total = sum(int(table[name].astype("int64").sum()) for name in table.columns)
    return _KNOWN.get((len(table), table.shape[1], total))


def printed_figures(table: pd.DataFrame) -> tuple[Figure, ...]:
    """The printed losses for a reference file; SSE is turned into L_SSE (SST is records times attributes)."""
    dataset = known_dataset(table)
    if dataset is None:
        return ()
    sst = len(table) * table.shape[1]
    text = files("microagg_core.compare").joinpath("published.csv").read_text(encoding="utf-8")
    figures = []
    for row in csv.DictReader(text.splitlines()):
        if row["dataset"] != dataset:
            continue
        value, measure = float(row["value"]), row["measure"]
        if measure == _SST_MEASURE:
            value, measure = round(100 * value / sst, 4), "L_SSE"
        figures.append(Figure(dataset, row["source"], row["method"], int(row["k"]), measure, value, row["note"]))
    return tuple(figures)
