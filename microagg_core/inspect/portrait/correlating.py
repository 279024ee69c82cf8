"""Correlations of all pairs of quasi-identifiers, from the sums that the loss is computed from anyway."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.group.metrics.statistics import LossStatistics, PairMoments
from microagg_core.inspect.portrait.contract import Correlations

#: More tells nothing: with 200 quasi-identifiers there are 40,000 of them on a page.
_DECIMALS = 6


def correlations_of(names: Sequence[str], statistics: LossStatistics, fewest: int) -> Correlations:
    """Over all records, as they came and as they are released; none of a pair that fewer than ``fewest`` records have.

    >>> from microagg_core.group.metrics.statistics import loss_statistics
    >>> rows, none = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0]]), np.zeros((3, 2), dtype=bool)
    >>> correlations_of(["a", "b"], loss_statistics(rows, rows, none), 2).before.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    before, after = _told(statistics.before, fewest), _told(statistics.after, fewest)
    return Correlations(tuple(names), before, after)


def _told(moments: PairMoments, fewest: int) -> Floats:
    return np.where(moments.n >= fewest, moments.correlations(), np.nan).round(_DECIMALS)
