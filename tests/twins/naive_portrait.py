"""Portraits as one would make them by hand: every record put into its interval or cell, models by the whole design."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd


def place_of(value: float, edges: Sequence[float]) -> int:
    """The interval of a value: how many edges it has reached."""
    return sum(value >= edge for edge in edges)


def records_of_intervals(values: Sequence[float], edges: Sequence[float]) -> list[int]:
    """Records in each interval, the outermost two open."""
    counted = Counter(place_of(value, edges) for value in values)
    return [counted[i] for i in range(len(edges) + 1)]


def records_of_cells(
    points: Sequence[tuple[float, float]], x_edges: Sequence[float], y_edges: Sequence[float], fewest: int
) -> list[list[int]]:
    """Records in each cell, rows from the lowest y; 0 where there are too few."""
    cells = Counter((place_of(x, x_edges) - 1, place_of(y, y_edges) - 1) for x, y in points)
    rows = [[cells[i, j] for i in range(len(x_edges) - 1)] for j in range(len(y_edges) - 1)]
    return [[n if n >= fewest else 0 for n in row] for row in rows]


def told_by(value: float | str, within: float, unit: str | None) -> tuple[float, float]:
    """Between which values a quantile lies by what is told of it: a number, or a day, a month, a year."""
    if unit is None:
        assert isinstance(value, float)
        return value - within, value + within
    tick = "D" if unit == "days" else "s"
    # A text of fewer parts is the first moment of the day, month or year, and the next one ends it.
    first = np.datetime64(str(value).removesuffix("Z"))
    ends = (first.astype(f"M8[{tick}]"), (first + 1).astype(f"M8[{tick}]"))
    return float(ends[0].astype(np.int64)) - 0.5, float(ends[1].astype(np.int64)) - 0.5


def moment(value: float, unit: str) -> str:
    """A day, or a second, as ISO 8601 has it."""
    stamp = pd.Timestamp(0) + pd.Timedelta(value, unit="D" if unit == "days" else "s")
    return stamp.date().isoformat() if unit == "days" else stamp.isoformat()


def fitted(table: pd.DataFrame, outcome: str, terms: Sequence[str]) -> tuple[list[float], list[float], float]:
    """Coefficients, standard errors and R2 of a linear model, by the singular values of its whole design.

    Texts are categories, of which the first level is the base; rows with a missing value are left out.
    """
    rows = table[[outcome, *terms]].dropna()
    design = [np.ones(len(rows))]
    for term in terms:
        if pd.api.types.is_numeric_dtype(rows[term]):
            design.append(rows[term].to_numpy(np.float64))
        else:
            design += [(rows[term] == level).to_numpy(np.float64) for level in sorted(set(rows[term]))[1:]]
    x, y = np.column_stack(design), rows[outcome].to_numpy(np.float64)
    coefficients = np.linalg.lstsq(x, y, rcond=None)[0]
    residuals = y - x @ coefficients
    variance = float(residuals @ residuals) / (len(y) - x.shape[1])
    errors = np.sqrt(np.diag(np.linalg.pinv(x) @ np.linalg.pinv(x).T) * variance)
    about_mean = y - y.mean()
    return coefficients.tolist(), errors.tolist(), 1.0 - float(residuals @ residuals) / float(about_mean @ about_mean)
