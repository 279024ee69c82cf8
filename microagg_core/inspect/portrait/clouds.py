"""Pairs of quasi-identifiers: which are worth a look, the cloud of records as they came, and the means within it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.inspect.portrait.columns import DrawnColumn
from microagg_core.inspect.portrait.contract import Correlations, Mean, Pair
from microagg_core.inspect.portrait.edges import Sight, frame_edges

#: Pairs at most: all of four quasi-identifiers, and more than anybody looks at one by one.
MOST_PAIRS = 8
#: Cells on a side at most.
_MOST_CELLS = 32
#: So many times what a cell needs to be shown is there for each: else most of those at the rim would be blank.
_RECORDS_OF_A_CELL = 4
#: Means of a pair at most: more would be a cloud themselves.
_MOST_MEANS = 400
#: A thousandth of a picture's width is less than a point: means are told no finer.
_FINENESS = 1e-3


def telling_pairs(correlations: Correlations) -> list[tuple[int, int]]:
    """Pairs of columns, at most eight: those correlated most, and of the others those whose correlation changes most.

    >>> after = np.array([[1, 0.9, 0.1], [0.9, 1, np.nan], [0.1, np.nan, 1]])
    >>> telling_pairs(Correlations(("a", "b", "c"), after, after))
    [(0, 1), (0, 2)]
    """
    first, second = np.triu_indices(len(correlations.columns), 1)
    strength = np.abs(correlations.before[first, second])
    change = np.abs(correlations.after[first, second] - correlations.before[first, second])
    strongest = _descending(strength)[: MOST_PAIRS // 2]
    changed = [place for place in _descending(change) if place not in strongest]
    more = [place for place in _descending(strength) if place not in strongest and place not in changed]
    chosen = [*strongest, *changed, *more][:MOST_PAIRS]
    return [(int(first[place]), int(second[place])) for place in chosen]


def _descending(figures: Floats) -> list[int]:
    """Places of the figures that are there, the largest first; equal ones in their order."""
    places = np.argsort(-figures, kind="stable")
    return [int(place) for place in places if np.isfinite(figures[place])]


def pictures_of(columns: Sequence[DrawnColumn], chosen: Sequence[tuple[int, int]], fewest: int) -> list[Pair]:
    """The pictures of some pairs; none of a pair that has no two cells."""
    sides = [_Side(column, fewest) for column in columns]
    pairs = (_pair(sides[i], sides[j], fewest) for i, j in chosen)
    return [pair for pair in pairs if pair is not None]


@dataclass(frozen=True)
class _Side:
    """A column that may be in several pictures, with its edges in those that all its records are in."""

    column: DrawnColumn
    fewest: int

    @cached_property
    def there(self) -> Bools:
        """Which records have a value."""
        return self.column.there

    @cached_property
    def _edges(self) -> Floats:
        return self._edges_of(self.column.before)

    def edges(self, there: Bools) -> Floats:
        """Where a picture of these records is cut."""
        return self._edges if there.all() else self._edges_of(self.column.before[there])

    def _edges_of(self, values: Floats) -> Floats:
        most = int(np.clip(math.sqrt(len(values) / (_RECORDS_OF_A_CELL * self.fewest)), 2, _MOST_CELLS))
        return frame_edges(Sight(values, self.column.shown.unit, self.fewest, most)).places


def _pair(x_side: _Side, y_side: _Side, fewest: int) -> Pair | None:
    there, x, y = x_side.there & y_side.there, x_side.column, y_side.column
    places = [side.edges(there) for side in (x_side, y_side)]
    if min(map(len, places)) < 2:
        return None
    before = _cells(x.before[there], y.before[there], *places)
    return Pair(
        x=x.shown.kind.name,
        y=y.shown.kind.name,
        x_edges=tuple(places[0].tolist()),
        y_edges=tuple(places[1].tolist()),
        x_words=x.shown.words(places[0].tolist()),
        y_words=y.shown.words(places[1].tolist()),
        before=tuple(tuple(row) for row in np.where(before >= fewest, before, 0).tolist()),
        means=_means(x.after[there], y.after[there], *places),
    )


def _cells(x: Floats, y: Floats, x_places: Floats, y_places: Floats) -> Ints:
    """Records in each cell, rows of cells from the lowest y; those beyond the outermost edges are in none."""
    columns, rows = (
        np.searchsorted(places, values, side="right") - 1 for places, values in ((x_places, x), (y_places, y))
    )
    n_columns, n_rows = len(x_places) - 1, len(y_places) - 1
    within = (columns >= 0) & (columns < n_columns) & (rows >= 0) & (rows < n_rows)
    cells = np.bincount(rows[within] * n_columns + columns[within], minlength=n_rows * n_columns)
    return cells.reshape(n_rows, n_columns)


def _means(x: Floats, y: Floats, x_places: Floats, y_places: Floats) -> tuple[Mean, ...]:
    """Released combinations within the frame, from left to right; of many, every so many-th."""
    within = (x >= x_places[0]) & (x <= x_places[-1]) & (y >= y_places[0]) & (y <= y_places[-1])
    order = np.lexsort((y[within], x[within]))
    x, y = x[within][order], y[within][order]
    differs = (np.diff(x) > 0) | (np.diff(y) > 0)
    first = np.flatnonzero(np.concatenate([np.ones(min(len(x), 1), dtype=np.bool_), differs]))
    records = np.diff(first, append=len(x))
    some = np.unique(np.linspace(0, len(first) - 1, min(len(first), _MOST_MEANS)).round().astype(np.int64))
    shown_x, shown_y = _rounded(x[first[some]], x_places), _rounded(y[first[some]], y_places)
    return tuple(Mean(*mean) for mean in zip(shown_x, shown_y, records[some].tolist(), strict=True))


def _rounded(values: Floats, places: NDArray[np.float64]) -> list[float]:
    """Values as finely as the picture shows them."""
    width = float(places[-1] / 2 - places[0] / 2) * 2 * _FINENESS
    largest = float(np.abs(values).max(initial=0.0))
    digits = 3 if not 0 < width < largest else max(3, math.ceil(math.log10(largest) - math.log10(width)) + 1)
    return [float(f"{value:.{min(digits, 17)}g}") for value in values.tolist()]
