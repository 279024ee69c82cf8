"""The annealing of one set of records: its arrays, made once and used for any number of runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.kernels.refinement.annealing import anneal, descend
from microagg_core.kernels.refinement.changing_groups import Grouping, fill, total_sse
from microagg_core.kernels.refinement.drafts import GroupDraft
from microagg_core.kernels.tools.random_draws import exponential_quantiles, random_state

#: One step in so many makes groups anew; above _LARGEST_K none does, since it costs k squared.
_EVERY = 4
_LARGEST_K = 24
_QUANTILES = exponential_quantiles(1024)
#: When, as shares of a run, the search looks at where it stands.
_SNAPSHOTS = (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.84, 0.88, 0.92, 0.96, 1.0)


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

    def grouping(self, labels: Ints) -> Grouping:
        """Groups as labels 0 to g-1 say, none of 2k records or more."""
        n, width = self.X.shape
        slots = n // self.k + 2
        grouping = Grouping(
            X=self.X,
            label=labels.astype(np.int64, copy=True),
            place=np.zeros(n, dtype=np.int64),
            members=np.zeros((slots, 2 * self.k), dtype=np.int64),
            size=np.zeros(slots, dtype=np.int64),
            centre=np.zeros((slots, width)),
            own=np.zeros(n),
            sse=np.zeros(slots),
            free=np.zeros(slots + 2, dtype=np.int64),
            n_free=np.zeros(1, dtype=np.int64),
            room=np.zeros((4, max(width, 2 * self.k))),
        )
        fill(grouping)
        return grouping

    def draft(self, grouping: Grouping) -> GroupDraft:
        """An empty draft, with room for what one change may touch."""
        slots, most = grouping.members.shape
        rows, loose = (3 * self.k + 12, 4 * most) if self.every else (1, 1)
        return GroupDraft(
            entry=np.zeros((slots, 2), dtype=np.int64),
            group=np.zeros(rows, dtype=np.int64),
            size=np.zeros(rows, dtype=np.int64),
            centre=np.zeros((rows, grouping.X.shape[1])),
            moved=np.zeros(loose, dtype=np.int64),
            to=np.zeros(loose, dtype=np.int64),
            distance=np.zeros(loose),
            counters=np.zeros(4, dtype=np.int64),
        )

    def run(self, labels: Ints, sweeps: int, hottest: float, power: int, downhill: int) -> Ints:
        """Anneal from the labels, ``hottest`` in units of the mean squared error there, then go downhill."""
        g = self.grouping(labels)
        d = self.draft(g)
        start = total_sse(g)
        heat = hottest * start / len(labels)
        best = g.label.copy()
        arguments = (sweeps, heat, power, self.every, _QUANTILES, self.random, best, start)
        anneal(g, d, self.near, self.k, 0, sweeps, *arguments)
        return self.downhill(best, downhill)

    def snapshots(self, labels: Ints, sweeps: int, hottest: float, power: int, downhill: int) -> Iterator[Ints]:
        """A run in parts: partitions on the way down, each with its way downhill, and the last one."""
        g = self.grouping(labels)
        d = self.draft(g)
        start = total_sse(g)
        heat = hottest * start / len(labels)
        best, least, done = g.label.copy(), start, 0
        for share in _SNAPSHOTS:
            until = int(share * sweeps)
            arguments = (sweeps, heat, power, self.every, _QUANTILES, self.random, best, least)
            least = anneal(g, d, self.near, self.k, done, until, *arguments)
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
