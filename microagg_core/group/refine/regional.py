"""The annealing of many records, region by region: in as many threads as are free, and the same bytes in one.

A region's records know only each other as neighbours. So that no border stays for long, regions are drawn anew after a
few sweeps, across other attributes and elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from microagg_core.arrays import Floats, ShortInts, UInt64s
from microagg_core.group.grouping.headway import Way
from microagg_core.group.refine.grouped import draft_of, grouping_of
from microagg_core.group.refine.regions import Regions, Spread
from microagg_core.kernels.refinement.annealing import anneal, descend
from microagg_core.kernels.refinement.changing_groups import Grouping
from microagg_core.kernels.refinement.nearest_lists import nearest_within
from microagg_core.kernels.tools.random_draws import random_state
from microagg_core.kernels.tools.threads import each

#: Sweeps before regions are drawn anew, and the most times that they are in a long annealing: drawing takes as long as
#: a sixth of a sweep.
_SWEEPS, _MOST_TIMES = 3, 100

#: Improves the groups of a region, whose records have these neighbours.
Improvement = Callable[[Grouping, ShortInts, UInt64s], None]


@dataclass
class RegionalAnnealing:
    """Groups of padded records with neighbours, improved in so many regions; ``every`` is the kernels'."""

    X: Floats
    near: ShortInts
    k: int
    every: int
    quantiles: Floats
    regions: int
    seed: int
    #: How often regions were drawn.
    turn: int = 0

    def anneal(self, groups: Spread, sweeps: int, heat: float, power: int) -> Spread:
        """The groups after so many sweeps in all, the first of them at the heat."""
        stretch, told = max(_SWEEPS, -(-sweeps // _MOST_TIMES)), Way("annealing", self.X)
        for start in range(0, sweeps, stretch):
            way = (start, min(start + stretch, sweeps), sweeps, heat, power)
            groups = self._improved(groups, partial(self._anneal_region, way))
            told.at(partial(self._sse, groups), share=way[1] / sweeps)
        return groups

    def _sse(self, groups: Spread) -> float:
        return float(np.sum((self.X - groups.centre[groups.label]) ** 2))

    def _anneal_region(
        self, way: tuple[int, int, int, float, int], g: Grouping, near: ShortInts, random: UInt64s
    ) -> None:
        none_kept = g.label[:0], -np.inf
        anneal(g, draft_of(g, self.k, self.every), near, self.k, *way, self.every, self.quantiles, random, *none_kept)

    def descend(self, groups: Spread, most: int, tolerance: float) -> Spread:
        """The groups after so many sweeps downhill at most, half of them in other regions."""
        for sweeps in (-(-most // 2), most // 2):
            if sweeps:
                groups = self._improved(groups, partial(self._descend_region, sweeps, tolerance))
        return groups

    def _descend_region(self, most: int, tolerance: float, g: Grouping, near: ShortInts, _random: UInt64s) -> None:
        descend(g, near, self.k, most, tolerance)

    def _improved(self, groups: Spread, improve: Improvement) -> Spread:
        """The groups after a stretch in new regions."""
        regions = Regions.of(groups, self.regions, self.k, self.turn)
        result = Spread.empty(len(groups.label), int(regions.slots[-1]), groups.centre.shape[1])
        turn, self.turn = self.turn, self.turn + 1

        def improve_region(i: int) -> None:
            start, first, last = int(regions.starts[i]), regions.slots[i], regions.slots[i + 1]
            records = regions.records[start : regions.starts[i + 1]]
            near = nearest_within(self.near, records, regions.position, start)
            g = grouping_of(self.X.take(records, axis=0), regions.number[groups.label[records]], self.k)
            words = np.random.SeedSequence([self.seed, turn, i]).generate_state(1, np.uint64)
            improve(g, near, random_state(int(words[0])))
            result.label[records] = g.label + first
            result.size[first:last], result.centre[first:last] = g.size, g.centre

        each(improve_region, range(regions.count))
        return result
