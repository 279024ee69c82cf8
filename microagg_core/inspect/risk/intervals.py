"""Intervals: how often a record's value lies near the one that is released for it, in rank or in deviations.

By rank, an interval of x % is centred on the released value's place among the input's values of the same file, and
spans x % of them, half to each side. By deviation, it reaches so far to each side. A column whose kind does not claim
that order is kept has neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Floats
from microagg_core.inspect.contract import RiskMeasure, share
from microagg_core.inspect.exposure import Exposure
from microagg_core.plain import PlainInts

#: Widths of rank intervals, in percent of the records.
PERCENTS = tuple(range(1, 11))
#: Half widths of other intervals, in deviations of the column.
DEVIATIONS = (0.01, 0.05, 0.1, 0.25)


@dataclass(frozen=True)
class Near:
    """Over the records that were asked: how many values are there, and lie within each interval.

    ``values`` are by column; ``within`` and ``close`` have a row for each width, and ``all_within`` and ``all_close``
    count the records of which every value that is there does.
    """

    asked: int
    values: PlainInts
    within: PlainInts
    all_within: PlainInts
    close: PlainInts
    all_close: PlainInts


class Intervals(RiskMeasure[Near]):
    name = "intervals"
    notes = Near

    def measure(self, exposure: Exposure) -> Near:
        asked, own = exposure.asked, exposure.groups[exposure.asked.rows]
        there = ~(exposure.missing[own] | np.isnan(asked.widths))
        difference = np.abs(asked.values - exposure.means[own])
        near = (_counted(asked.widths, PERCENTS, there), _counted(difference, DEVIATIONS, there))
        return Near(len(own), there.sum(axis=0), *near[0], *near[1])

    def figures(self, total: Near, names: tuple[str, ...]) -> dict[str, Any]:
        """By rank, then by deviation; each for the mean of columns, all of them jointly, and each of them."""
        if not total.asked:
            return {"asked": 0}
        rank = _figures(total.within, total.all_within, PERCENTS, total, names)
        shares = [width["columns_mean"] for width in rank.values()]
        mean = share(sum(mean or 0.0 for mean in shares), len(shares))
        deviation = _figures(total.close, total.all_close, DEVIATIONS, total, names)
        return {"asked": total.asked, "rank": {"mean": mean, "percent": rank}, "deviation": deviation}


def _counted(distance: Floats, limits: tuple[float, ...], there: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    has_value = there.any(axis=1)
    within = [distance <= limit for limit in limits]
    each = [(near & there).sum(axis=0) for near in within]
    every = [int(((near | ~there).all(axis=1) & has_value).sum()) for near in within]
    return np.array(each), np.array(every)


def _figures(
    each: NDArray[Any], every: NDArray[Any], limits: tuple[float, ...], total: Near, names: tuple[str, ...]
) -> dict[str, Any]:
    figures = {}
    for limit, counts, jointly in zip(limits, each, every.tolist(), strict=True):
        shares = [share(n, of) for n, of in zip(counts.tolist(), total.values.tolist(), strict=True)]
        counted = [figure for figure in shares if figure is not None]
        figures[f"{limit:g}"] = {
            "all": share(jointly, total.asked),
            "columns_mean": share(sum(counted), len(counted)),
            "columns": dict(zip(names, shares, strict=True)),
        }
    return figures
