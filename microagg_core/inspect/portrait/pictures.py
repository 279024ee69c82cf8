"""Pictures of many records: distributions, pairs with the means within them, and correlations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.contract import Claim, Kind
from microagg_core.group.metrics.statistics import LossStatistics
from microagg_core.inspect.portrait.contract import Correlations, Distribution, Mean, Pair
from microagg_core.inspect.portrait.scales import DrawnColumn, Sight, find_edges, frame_edges

#: Intervals of a distribution at most: what an eye tells apart in a small picture.
_MOST_INTERVALS = 24
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
#: More tells nothing: with 200 quasi-identifiers there are 40,000 of them on a page.
_DECIMALS = 6


def distributions_of(columns: Iterable[DrawnColumn], fewest: int) -> tuple[list[Distribution], list[str]]:
    """Count columns of which enough records have a value, and say of the others why not.

    >>> import pyarrow as pa
    >>> from microagg_core.data.kinds.registry import kind_of
    >>> from microagg_core.inspect.portrait.scales import ShownColumn
    >>> before, after = np.repeat([1.0, 2.0, 3.0], [40, 40, 5]), np.repeat([1.0, 2.0], [40, 45])
    >>> (shown,), _ = distributions_of([DrawnColumn(ShownColumn(kind_of("x", pa.int8())), before, after)], 10)
    >>> shown.edges, shown.values, shown.before, shown.after
    ((1.5,), ('1', '2'), (40, 45), (40, 45))
    """
    shapes, left_out = [], []
    for column in columns:
        there, name = column.there, column.shown.kind.name
        missing = len(there) - int(there.sum())
        if len(there) - missing < fewest:
            left_out.append(f"{name!r} has fewer than {fewest} values, too few to be shown")
            continue
        if 0 < missing < fewest:
            left_out.append(f"{name!r} lacks a value in fewer than {fewest} records, which are not counted")
            missing = 0
        shapes.append(_distribution(column, missing, fewest))
    return shapes, left_out


def _distribution(column: DrawnColumn, missing: int, fewest: int) -> Distribution:
    there, shown = column.there, column.shown
    before, after = column.before[there], column.after[there]
    most = int(np.clip(len(before) // (2 * fewest), 1, _MOST_INTERVALS))
    sight = Sight(before, shown.unit, fewest, most)
    edges = find_edges(sight)
    one_each = edges.scale == "values" and len(sight.common) == len(edges.places) + 1
    places = tuple(edges.places.tolist())
    return Distribution(
        column=shown.kind.name,
        unit=shown.unit,
        edges=places,
        edge_words=shown.words(places),
        before=tuple(edges.counts(before).tolist()),
        after=tuple(edges.counts(after).tolist()),
        missing=missing,
        scale=edges.scale,
        values=shown.words(sight.common.tolist()) if one_each else (),
    )


def telling_pairs(correlations: Correlations) -> list[tuple[int, int]]:
    """Choose at most eight pairs of columns: those correlated most, and of the others those that change most.

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
    """Sort the places of the figures that are there, the largest first; equal ones in their order."""
    places = np.argsort(-figures, kind="stable")
    return [int(place) for place in places if np.isfinite(figures[place])]


def pictures_of(columns: Sequence[DrawnColumn], chosen: Sequence[tuple[int, int]], fewest: int) -> list[Pair]:
    """Picture some pairs; a pair that has no two cells is left out."""
    pairs = (_pair(columns[i], columns[j], fewest) for i, j in chosen)
    return [pair for pair in pairs if pair is not None]


def _pair(x: DrawnColumn, y: DrawnColumn, fewest: int) -> Pair | None:
    there = x.there & y.there
    places = [_edges(column, there, fewest) for column in (x, y)]
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


def _edges(column: DrawnColumn, there: Bools, fewest: int) -> Floats:
    values = column.before[there]
    most = int(np.clip(math.sqrt(len(values) / (_RECORDS_OF_A_CELL * fewest)), 2, _MOST_CELLS))
    return frame_edges(Sight(values, column.shown.unit, fewest, most)).places


def _cells(x: Floats, y: Floats, x_places: Floats, y_places: Floats) -> Ints:
    """Count records by cell, rows of cells from the lowest y; those beyond the outermost edges are in none."""
    columns, rows = (
        np.searchsorted(places, values, side="right") - 1 for places, values in ((x_places, x), (y_places, y))
    )
    n_columns, n_rows = len(x_places) - 1, len(y_places) - 1
    within = (columns >= 0) & (columns < n_columns) & (rows >= 0) & (rows < n_rows)
    cells = np.bincount(rows[within] * n_columns + columns[within], minlength=n_rows * n_columns)
    return cells.reshape(n_rows, n_columns)


def _means(x: Floats, y: Floats, x_places: Floats, y_places: Floats) -> tuple[Mean, ...]:
    """List released combinations within the frame, from left to right; of many, every so many-th."""
    within = (x >= x_places[0]) & (x <= x_places[-1]) & (y >= y_places[0]) & (y <= y_places[-1])
    order = np.lexsort((y[within], x[within]))
    x, y = x[within][order], y[within][order]
    differs = (np.diff(x) > 0) | (np.diff(y) > 0)
    first = np.flatnonzero(np.concatenate([np.ones(min(len(x), 1), dtype=np.bool_), differs]))
    records = np.diff(first, append=len(x))
    shown = np.unique(np.linspace(0, len(first) - 1, min(len(first), _MOST_MEANS)).round().astype(np.int64))
    shown_x, shown_y = _rounded(x[first[shown]], x_places), _rounded(y[first[shown]], y_places)
    return tuple(Mean(*mean) for mean in zip(shown_x, shown_y, records[shown].tolist(), strict=True))


def _rounded(values: Floats, places: NDArray[np.float64]) -> list[float]:
    width = float(places[-1] / 2 - places[0] / 2) * 2 * _FINENESS
    largest = float(np.abs(values).max(initial=0.0))
    digits = 3 if not 0 < width < largest else max(3, math.ceil(math.log10(largest) - math.log10(width)) + 1)
    return [float(f"{value:.{min(digits, 17)}g}") for value in values.tolist()]


def correlations_of(kinds: Sequence[Kind], statistics: LossStatistics, fewest: int) -> Correlations:
    """Correlate all records, as they came and as they are released, where a kind claims that its mean is kept.

    A pair that fewer than ``fewest`` records have has no correlation.

    >>> import pyarrow as pa
    >>> from microagg_core.data.kinds.registry import kind_of
    >>> from microagg_core.group.metrics.statistics import loss_statistics
    >>> rows, none = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0]]), np.zeros((3, 2), dtype=bool)
    >>> kinds = [kind_of(name, pa.float64()) for name in "ab"]
    >>> correlations_of(kinds, loss_statistics(rows, rows, none), 2).before.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    shown = [j for j, kind in enumerate(kinds) if Claim.MEAN_KEPT in kind.claims]
    before, after = (
        np.where(side.n >= fewest, side.correlations(), np.nan).round(_DECIMALS)[np.ix_(shown, shown)]
        for side in (statistics.before, statistics.after)
    )
    return Correlations(tuple(kinds[j].name for j in shown), before, after)
