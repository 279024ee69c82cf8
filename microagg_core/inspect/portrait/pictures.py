"""Pictures of many records: distributions, tables of categories, pairs with the means within them, and correlations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.contract import Claim, Kind
from microagg_core.group.metrics.moments import Moments
from microagg_core.group.metrics.statistics import LossStatistics
from microagg_core.inspect.portrait.contract import CategoryTable, Correlations, Distribution, Mean, Pair
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
#: Categories that are named; more are a list that nobody reads, and so are names of more characters.
MOST_NAMED, _LONGEST = 30, 200


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


def category_counts(kind: Kind, came: Moments, after: Moments) -> tuple[list[str], Ints, Ints]:
    """Name all categories, and count the records that had each and that are released with each."""
    n = max(len(came.counts), len(after.counts))
    before, released = (np.array([*of.counts, *[0] * (n - len(of.counts))], dtype=np.int64) for of in (came, after))
    return [str(kind.shown(code)) for code in range(n)], before, released


def named(kind: Kind, names: Sequence[str], counts: Ints) -> list[int]:
    """Choose the most frequent categories by their counts; in their order where they have one."""
    short = [code for code in np.flatnonzero(counts).tolist() if len(names[code]) <= _LONGEST]
    chosen = sorted(short, key=lambda code: (-counts[code], code))[:MOST_NAMED]
    return sorted(chosen) if kind.is_ranked else chosen


def category_tables(
    kinds: Sequence[Kind], moments: Sequence[tuple[Moments, Moments]], fewest: int
) -> Iterator[CategoryTable]:
    """Make a table of each quasi-identifier that has categories; those that fewer than ``fewest`` had are together.

    >>> import pyarrow as pa
    >>> from microagg_core.data.kinds.nominal import NominalKind
    >>> from microagg_core.group.metrics.moments import of_counts
    >>> job = NominalKind("job", pa.string(), categories=("a", "b", "c", "d"), counts=(60, 30, 8, 1))
    >>> (table,) = category_tables([job], [(of_counts([60, 30, 8, 1]), of_counts([70, 29, 0, 0]))], 10)
    >>> table.categories, table.before, table.others, table.others_before, table.others_after
    (('a',), (60,), 3, 39, 29)
    """
    for kind, (came, after) in zip(kinds, moments, strict=True):
        if not (came.counts and came.n):
            continue
        names, before, released = category_counts(kind, came, after)
        common = np.where(before >= fewest, before, 0)
        # Others of too few records are told together with the rarest that would be named.
        while 0 < before.sum() - common.sum() < fewest and common.any():
            common[common == common[common > 0].min()] = 0
        if kind.tree is not None:  # nobody had a parent
            common[kind.tree.n_values :] = released[kind.tree.n_values :]
        chosen = named(kind, names, common)
        shares = before / came.n
        yield CategoryTable(
            column=kind.name,
            categories=tuple(names[code] for code in chosen),
            before=tuple(before[chosen].tolist()),
            after=tuple(released[chosen].tolist()),
            others=int(np.sum((before > 0) | (released > 0))) - len(chosen),
            others_before=int(before.sum() - before[chosen].sum()),
            others_after=int(released.sum() - released[chosen].sum()),
            variation=float(1.0 - shares @ shares) / 2,
        )
