"""Distributions of quasi-identifiers before and after, in intervals that many records share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from microagg_core.inspect.portrait.columns import DrawnColumn
from microagg_core.inspect.portrait.contract import Distribution
from microagg_core.inspect.portrait.edges import Sight, find_edges

#: Intervals of a distribution at most: what an eye tells apart in a small picture.
_MOST_INTERVALS = 24


def distributions_of(columns: Iterable[DrawnColumn], fewest: int) -> tuple[list[Distribution], list[str]]:
    """The distributions of all columns of which enough records have a value, and a sentence on each of the others.

    >>> import pyarrow as pa
    >>> from microagg_core.data.kinds.registry import kind_of
    >>> from microagg_core.inspect.portrait.columns import ShownColumn
    >>> before, after = np.repeat([1.0, 2.0, 3.0], [40, 40, 5]), np.repeat([1.0, 2.0], [40, 45])
    >>> (one,), _ = distributions_of([DrawnColumn(ShownColumn(kind_of("x", pa.int8())), before, after)], 10)
    >>> one.edges, one.values, one.before, one.after
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
