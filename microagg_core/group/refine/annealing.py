"""The annealing of one set of records: its arrays, made once and used for any number of runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.group.grouping.headway import Way
from microagg_core.group.refine.costs import region_count
from microagg_core.group.refine.grouped import draft_of, grouping_of
from microagg_core.group.refine.regional import RegionalAnnealing
from microagg_core.group.refine.regions import Spread
from microagg_core.kernels.refinement.annealing import anneal, descend
from microagg_core.kernels.refinement.changing_groups import Grouping, total_sse
from microagg_core.kernels.refinement.drafts import GroupDraft
from microagg_core.kernels.tools.random_draws import exponential_quantiles, random_state

#: One step in so many makes groups anew; above _LARGEST_K none does, since it costs k squared.
_EVERY = 4
_LARGEST_K = 24
_QUANTILES = exponential_quantiles(1024)
#: When, as shares of a run, the search looks at where it stands.
_SNAPSHOTS = (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.84, 0.88, 0.92, 0.96, 1.0)
#: Changes that the kernel tries before the loop around it may say where it stands: about a second's.
_STEPS_AT_ONCE = 2_000_000


class Annealing:
    """Runs of the annealing kernel over the same records and neighbours."""

    def __init__(self, X: Floats, near: ShortInts, k: int, seed: int) -> None:
        n, p = X.shape
        self.near, self.k = np.ascontiguousarray(near), k
        self.X = np.zeros((n, -(-p // 4) * 4))
        # Around 0, so that centres lose no digits to what all records have in common.
        self.X[:, :p] = X - X.mean(axis=0)
        self.random = random_state(seed)
        self.every = _EVERY if k <= _LARGEST_K else 0
        #: In how many regions a run goes; a long list of snapshots is for few records.
        self.regions = region_count(n, k)

    def grouping(self, labels: Ints) -> Grouping:
        """Groups as labels 0 to g-1 say, none of 2k records or more."""
        return grouping_of(self.X, labels, self.k)

    def draft(self, grouping: Grouping) -> GroupDraft:
        """An empty draft, with room for what one change may touch."""
        return draft_of(grouping, self.k, self.every)

    def run(self, labels: Ints, sweeps: int, hottest: float, power: int, downhill: int) -> Ints:
        """Anneal from the labels, ``hottest`` in units of the mean squared error there, then go downhill."""
        g = self.grouping(labels)
        start = total_sse(g)
        heat = hottest * start / len(labels)
        if self.regions > 1:
            return self._run_in_regions(Spread(g.label, g.size, g.centre), sweeps, heat, power, downhill)
        d, best = self.draft(g), g.label.copy()
        way = (sweeps, heat, power)
        self._anneal(g, d, 0, sweeps, way, best, start)
        return self.downhill(best, downhill)

    def _anneal(
        self, g: Grouping, d: GroupDraft, start: int, stop: int, way: tuple[int, float, int], best: Ints, least: float
    ) -> float:
        """The least total after these sweeps, some at a time: all that they go on from is in the arrays."""
        at_once, told = max(1, _STEPS_AT_ONCE // len(best)), Way("annealing", self.X)
        for first in range(start, stop, at_once):
            last = min(first + at_once, stop)
            arguments = (*way, self.every, _QUANTILES, self.random, best, least)
            least = anneal(g, d, self.near, self.k, first, last, *arguments)
            told.at(least, share=last / way[0])
        return least

    def _run_in_regions(self, groups: Spread, sweeps: int, heat: float, power: int, downhill: int) -> Ints:
        """Groups that may be anything at the end, as whoever asked compares them with those at the start."""
        self.random = random_state(int(self.random[0]))
        regional = RegionalAnnealing(
            self.X, self.near, self.k, self.every, _QUANTILES, self.regions, int(self.random[0])
        )
        annealed = regional.anneal(groups, sweeps, heat, power)
        lowest = regional.descend(annealed, downhill, 1e-12 * heat)
        labels: Ints = np.unique(lowest.label, return_inverse=True)[1]
        return labels

    def snapshots(self, labels: Ints, sweeps: int, hottest: float, power: int, downhill: int) -> Iterator[Ints]:
        """A run in parts: partitions on the way down, each with its way downhill, and the last one."""
        g = self.grouping(labels)
        d = self.draft(g)
        start = total_sse(g)
        heat = hottest * start / len(labels)
        best, least, done = g.label.copy(), start, 0
        for share in _SNAPSHOTS:
            until = int(share * sweeps)
            least = self._anneal(g, d, done, until, (sweeps, heat, power), best, least)
            done = until
            yield self.downhill(g.label, downhill)
        yield self.downhill(best, downhill)

    def downhill(self, labels: Ints, most: int) -> Ints:
        """Labels 0 to g-1 after at most so many sweeps downhill."""
        numbered: Ints = np.unique(labels, return_inverse=True)[1]
        if most > 0:
            g = self.grouping(numbered)
            descend(g, self.near, self.k, most, 1e-12 * total_sse(g) / len(labels))
            numbered = np.unique(g.label, return_inverse=True)[1]
        return numbered
